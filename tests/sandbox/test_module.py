"""Modules that are refused at load, each with its exact error."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guests import ABI, ALLOC, ECHO, HELPERS, floats, guest, stage_spec, wasm
from sandseal_host.errors import (
    PluginError,
    PluginInvalid,
    PluginOutOfMemory,
    PluginTimeout,
    PluginTrapped,
)
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.module import MAGIC, read_outline

STAGE = f'(func $run (export "run") (param $call i32) (result i32) {ECHO})'

REFUSED = {
    "empty": (b"", "not a WebAssembly module"),
    "garbage": (b"\x7fELF" + bytes(100), "not a WebAssembly module"),
    "text": (b'(module (memory (export "memory") 1))', "not a WebAssembly module"),
    "component": (b"\0asm\x0d\0\x01\0", "not a WebAssembly module"),
    "nothing but magic": (MAGIC, "does not export 'memory'"),
    "cut short": (guest()[:-7], "malformed or cut short"),
    "trailing bytes": (guest() + b"\x01", "malformed or cut short"),
    "endless number": (MAGIC + b"\x01" + b"\xff" * 100, "malformed or cut short"),
    "unknown section": (guest() + b"\x20\x00", "does not compile"),
    "invalid body": (guest().replace(b"\x41\x00\x0b", b"\x42\x00\x0b"), "does not compile"),
    "start section": (guest(extra="(func $s) (start $s)"), "has a start section"),
    "no memory": (wasm(f"(module (memory 2) {ABI} {ALLOC} {HELPERS} {STAGE})"), "does not export 'memory'"),
    "memory is a function": (
        wasm(f'(module (memory 2) (func (export "memory")) {ABI} {ALLOC} {HELPERS} {STAGE})'),
        r"exports 'memory' as \(\) -> \(\)",
    ),
    "no abi": (guest(abi=""), "does not export 'sandseal_abi'"),
    "abi of type i64": (
        guest(abi='(func (export "sandseal_abi") (result i64) (i64.const 1))'),
        r"exports 'sandseal_abi' as \(\) -> \(i64\); ABI v1 needs it as \(\) -> \(i32\)",
    ),
    "abi 2": (guest(abi=ABI.replace("const 1", "const 2")), "follows ABI version 2"),
    "no alloc": (guest(alloc=""), "does not export 'sandseal_alloc'"),
    "alloc of one argument": (
        guest(alloc='(func (export "sandseal_alloc") (param i32) (result i32) (i32.const 0))'),
        "exports 'sandseal_alloc' as",
    ),
    "no stage": (guest(stage="(func)"), "does not export 'run'"),
    "stage of no result": (guest(stage='(func (export "run") (param i32))'), "exports 'run' as"),
    "stage is a table": (guest(stage='(table (export "run") 1 funcref)'), "exports 'run' as table"),
    # wasmtime 50 aborts the whole process when its C API is asked for this signature.
    "stage of v128": (
        guest(stage='(func (export "run") (param v128) (result i32) (i32.const 0))'),
        r"exports 'run' as \(v128\) -> \(i32\)",
    ),
    "initialize of one argument": (
        guest(extra='(func (export "_initialize") (param i32))'),
        "exports '_initialize' as",
    ),
    "reset of one result": (
        guest(extra='(func (export "sandseal_reset") (result i32) (i32.const 0))'),
        "exports 'sandseal_reset' as",
    ),
    "import of a function": (
        guest(imports='(import "env" "system" (func (param i32) (result i32)))'),
        "imports env.system, which this host does not offer",
    ),
    "import of v128": (guest(imports='(import "env" "f" (func (param v128)))'), "imports env.f"),
    "import of a memory": (
        wasm(
            f'(module (import "env" "memory" (memory 2)) (export "memory" (memory 0)) {ABI} {ALLOC} {HELPERS} {STAGE})'
        ),
        "imports env.memory",
    ),
    "import of a global": (guest(imports='(import "sandseal" "now" (global i64))'), "imports sandseal.now as global"),
    "import of another type": (
        guest(imports='(import "sandseal" "log" (func (param i32)))'),
        r"imports sandseal.log as \(i32\) -> \(\); it is \(i32 i32 i32\) -> \(\)",
    ),
    "import not asked for": (
        guest(imports='(import "sandseal" "now" (func (result i64)))'),
        "imports sandseal.now, which its stage does not ask for",
    ),
    "WASI that we do not shim": (
        guest(imports='(import "wasi_snapshot_preview1" "path_open" (func))'),
        "imports wasi_snapshot_preview1.path_open, which this host does not offer",
    ),
    "escapes in a name": (guest(imports='(import "\\1b[31m" "f" (func))'), r"imports \\x1b\[31m\.f"),
    "too many tables": (guest(extra="(table 1 funcref)" * 5), "table"),
    "huge table": (guest(extra="(table 30000 funcref)"), "table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_load(engine: SandboxEngine, name: str) -> None:
    module, why = REFUSED[name]
    with pytest.raises(PluginInvalid, match=why) as caught:
        engine.compile(module, stage_spec(), label="bad")
    assert "plugin 'bad'" in caught.value.message
    assert "\x1b" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        '(memory (export "memory") 1 2 shared)',
        '(memory (export "memory") i64 1)',
        '(memory (export "memory") 1) (memory 1)',
        '(memory (export "memory") 1) (tag (param i32))',
        '(memory (export "memory") 1) (func $f (return_call $f))',
        '(memory (export "memory") 1) (type (struct (field i32)))',
        '(memory (export "memory") 1) (global externref (ref.null extern))',
        '(memory (export "memory") 1) (func (param v128) (drop (i32x4.relaxed_trunc_f32x4_s (local.get 0))))',
    ],
    ids=["threads", "memory64", "multi-memory", "exceptions", "tail calls", "gc", "externref", "relaxed SIMD"],
)
def test_features_that_are_off(engine: SandboxEngine, text: str) -> None:
    with pytest.raises(PluginInvalid):
        engine.compile(guest(memory=text), stage_spec())


def test_simd_and_bulk_memory_are_on(engine: SandboxEngine) -> None:
    simd = "(func (param v128) (result v128) (f32x4.add (local.get 0) (local.get 0)))"
    engine.compile(guest(extra=simd), stage_spec()).close()


def test_a_stage_cannot_be_one_of_our_own_functions(engine: SandboxEngine) -> None:
    """An unchecked call with another signature than the function's would be undefined behaviour."""
    for name in ("sandseal_alloc", "_initialize", "memory"):
        spec = stage_spec()
        with pytest.raises(PluginInvalid, match="cannot be a stage's function"):
            engine.compile(guest(), type(spec)(spec.plugin, name, spec.inputs, spec.outputs))


def test_streams_are_refused_for_now(engine: SandboxEngine) -> None:
    with pytest.raises(PluginInvalid, match="not served yet"):
        engine.compile(guest(), stage_spec(mode="stream"))


def test_memory_over_the_limit_from_the_start(engine: SandboxEngine) -> None:
    for pages in (65, 65536):
        with pytest.raises(PluginOutOfMemory, match="limit of 4") as caught:
            engine.compile(guest(memory=f'(memory (export "memory") {pages})'), stage_spec(memory_mib=4))
        assert caught.value.data["limit"] == 4 << 20
    engine.compile(guest(memory='(memory (export "memory") 64)'), stage_spec(memory_mib=4)).close()


def test_endless_initialize(engine: SandboxEngine) -> None:
    module = guest(extra='(func (export "_initialize") (loop $l (br $l)))')
    with pytest.raises(PluginTimeout) as caught:
        engine.compile(module, stage_spec(time_ms=20))
    assert caught.value.data["function"] == "_initialize"


def test_a_data_segment_beyond_memory(engine: SandboxEngine) -> None:
    with pytest.raises(PluginTrapped) as caught:
        engine.compile(guest(extra='(data (i32.const 131071) "abc")'), stage_spec())
    assert caught.value.data["trap"] == "memory_out_of_bounds"


def test_a_module_over_64_mib(engine: SandboxEngine) -> None:
    with pytest.raises(PluginInvalid, match="over 67108864"):
        engine.compile(MAGIC + bytes(64 << 20), stage_spec())


def test_an_asset_that_is_not_there(engine: SandboxEngine) -> None:
    with pytest.raises(PluginInvalid, match=r"asset 'a\.txt'"):
        engine.compile(guest(), stage_spec(assets=("a.txt",), imports=("asset",)))


@given(st.binary(max_size=200))
def test_the_outline_of_anything_is_an_outline_or_refused(noise: bytes) -> None:
    with contextlib.suppress(PluginInvalid):
        read_outline(MAGIC + noise, "p")


def test_mutated_modules_load_or_are_refused(engine: SandboxEngine) -> None:
    """Byte flips in a module that uses every section; whatever loads can be called, and ends in a typed way."""
    imports = '(import "sandseal" "now" (func (result i64)))'
    whole = guest(imports=imports, extra='(table 1 funcref) (elem (i32.const 0) $run) (data (i32.const 99) "abc")')
    spec, luck = stage_spec(imports=("now",), time_ms=20), random.Random(7)
    loaded = 0
    for _ in range(150):
        mutant = bytearray(whole)
        for _ in range(luck.randint(1, 3)):
            mutant[luck.randrange(8, len(mutant))] = luck.randrange(256)
        try:
            with engine.compile(bytes(mutant), spec) as plugin:
                loaded += 1
                plugin.call([floats(1, 2)])
        except PluginError:
            pass
    assert loaded > 10


def test_the_outline_of_a_module() -> None:
    outline = read_outline(guest(imports='(import "sandseal" "now" (func (result i64)))'), "p")
    assert outline.imports == {("sandseal", "now"): "() -> (i64)"}
    assert outline.exports == {
        "memory": "memory",
        "sandseal_abi": "() -> (i32)",
        "sandseal_alloc": "(i32 i32) -> (i32)",
        "run": "(i32) -> (i32)",
    }
    assert (outline.memory_pages, outline.starts) == (2, False)
