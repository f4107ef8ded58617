"""What a module may be, and what is read of it before it is compiled; the refused ones are in the zoo."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guests import floats, guest, stage_spec
from sandseal_host.errors import (
    PluginError,
    PluginInvalid,
)
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.module import MAGIC, read_outline


def test_simd_and_bulk_memory_are_on(engine: SandboxEngine) -> None:
    simd = "(func (param v128) (result v128) (f32x4.add (local.get 0) (local.get 0)))"
    engine.compile(guest(extra=simd), stage_spec()).close()


def test_a_stage_cannot_be_one_of_our_own_functions(engine: SandboxEngine) -> None:
    """An unchecked call with another signature than the function's would be undefined behaviour."""
    for name in ("sandseal_alloc", "_initialize", "memory"):
        spec = stage_spec()
        with pytest.raises(PluginInvalid, match="cannot be a stage's function"):
            engine.compile(guest(), type(spec)(spec.plugin, name, spec.inputs, spec.outputs))


def test_a_stream_needs_what_frees_its_memory(engine: SandboxEngine) -> None:
    with pytest.raises(PluginInvalid, match=r"does not export 'sandseal_reset'; ABI v1 needs it as \(\) -> \(\)"):
        engine.compile(guest(), stage_spec(mode="stream"))


def test_memory_up_to_the_limit(engine: SandboxEngine) -> None:
    engine.compile(guest(memory='(memory (export "memory") 64)'), stage_spec(memory_mib=4)).close()


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
