import pytest
from wasmtime import Engine as WasmEngine
from wasmtime import Module, wat2wasm

from sandseal_sdk.plugin.wasm_module import Id, Section, read_surface, strip_debug, write_module

WAT = """
(module
  (import "sandseal" "log" (func (param i32 i32 i32)))
  (import "env" "memory" (memory 1 2))
  (import "env" "table" (table 1 funcref))
  (import "env" "base" (global i32))
  (import "sandseal" "now" (func $now (result i64)))
  (func $named (export "stage") (param i32) (result i32) (drop (call $now)) (local.get 0))
  (global (export "version") i32 (i32.const 1)))
"""


@pytest.fixture(scope="module")
def wasm():
    return bytes(wat2wasm(WAT))


def custom(name, size):
    content = bytes([len(name)]) + name.encode() + bytes(size)
    return write_module([Section(Id.CUSTOM, content)])[8:]


def test_imports_and_exports_of_every_kind(wasm):
    surface = read_surface(wasm)
    assert surface.imports == ("sandseal.log", "env.memory", "env.table", "env.base", "sandseal.now")
    assert surface.exports == ("stage", "version")


def test_a_start_section_is_seen(wasm):
    assert not read_surface(wasm).starts
    assert read_surface(bytes(wat2wasm("(module (func $f) (start $f))"))).starts


def test_a_bare_module_has_no_surface():
    assert read_surface(bytes(wat2wasm("(module)"))) == read_surface(b"\0asm\1\0\0\0")


def test_debug_sections_go_and_function_names_stay(wasm):
    loaded = wasm + custom(".debug_info", 300) + custom("producers", 5) + custom(".debug_line", 200)
    assert strip_debug(loaded) == wasm + custom("producers", 5)
    assert b"named" in strip_debug(loaded)
    Module(WasmEngine(), strip_debug(loaded))


def test_nothing_to_strip_changes_nothing(wasm):
    assert strip_debug(wasm) == wasm
