"""Modules are compiled in a limited child, once; hard ones are refused with the reason."""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.guests import DONE, floats, guest, stage_spec
from sandseal_host.errors import PluginInvalid
from sandseal_host.private_cache import PrivateCache
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.compiler import CompileLimits, Compiler, _failed

pytestmark = pytest.mark.slow  # each starts processes

# 20,000 branches in one function: some four seconds and 300 MiB.
BOMB = guest(
    "(local $x i32)"
    + "".join(
        f"(block (br_if 0 (i32.eq (local.get $call) (i32.const {i})))"
        f" (local.set $x (i32.add (local.get $x) (i32.const {i}))))"
        for i in range(20_000)
    )
    + "(drop (local.get $x))"
    + DONE
)


@pytest.fixture
def cache(tmp_path: Path) -> PrivateCache:
    return PrivateCache(tmp_path / "code", tmp_path / "keys" / "code.key", 1 << 24, "compiled plugins")


@pytest.fixture
def compiling(cache: PrivateCache) -> Iterator[SandboxEngine]:
    with SandboxEngine(pooling=False, compiler=Compiler(cache)) as engine:
        yield engine


def test_a_module_is_compiled_once(cache: PrivateCache, compiling: SandboxEngine) -> None:
    for _ in range(3):
        with compiling.compile(guest(), stage_spec()) as plugin:
            assert plugin.call([floats(1, 2)])[0].data.tolist() == [1, 2]
    assert (cache.statistics().misses_total, cache.statistics().hits_total) == (1, 2)


def test_the_code_is_what_would_have_been_compiled_here(engine: SandboxEngine, compiling: SandboxEngine) -> None:
    assert compiling.code(guest(), "p") == engine.code(guest(), "p")


def test_a_changed_entry_is_compiled_again(cache: PrivateCache, compiling: SandboxEngine, tmp_path: Path) -> None:
    compiling.compile(guest(), stage_spec()).close()
    (entry,) = (tmp_path / "code").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"\x90")
    with compiling.compile(guest(), stage_spec()) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [1]
    assert cache.statistics().rejected_total == 1


@pytest.mark.parametrize(
    ("limit", "value", "why"),
    [
        ("cpu_s", 1, "takes more than 1 s of processor time to compile"),
        pytest.param(
            "memory",
            200 << 20,
            "takes more than 200 MiB of memory to compile",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory"),
        ),
        ("time_s", 0.5, r"takes more than 0\.5 s of time to compile"),
    ],
)
def test_a_compile_bomb(cache: PrivateCache, limit: str, value: float, why: str) -> None:
    limits = dataclasses.replace(CompileLimits(), **{limit: value})
    with (
        SandboxEngine(pooling=False, compiler=Compiler(cache, limits)) as engine,
        pytest.raises(PluginInvalid, match=f"plugin 'bomb' {why}") as caught,
    ):
        engine.compile(BOMB, stage_spec(), label="bomb")
    assert "SANDSEAL_VET_" in caught.value.hint
    assert cache.statistics().size_bytes == 0


def test_a_module_that_does_not_compile(engine: SandboxEngine, compiling: SandboxEngine) -> None:
    invalid = guest().replace(b"\x41\x00\x0b", b"\x42\x00\x0b")
    errors = []
    for each in (engine, compiling):
        with pytest.raises(PluginInvalid, match="plugin 'p' does not compile: ") as caught:
            each.compile(invalid, stage_spec(), label="p")
        errors.append((caught.value.message, caught.value.data))
    assert errors[0] == errors[1]


def test_a_module_that_crashes_the_compiler() -> None:
    error = _failed(-11, b"", b"\x1b[31mthread panicked", CompileLimits(), "p")
    assert error.message == "plugin 'p' crashed the compiler, which ended with status -11"
    assert error.data["said"] == "\\x1b[31mthread panicked"


def test_the_fingerprint_is_of_what_code_depends_on() -> None:
    with (
        SandboxEngine(pooling=False) as one,
        SandboxEngine(pooling=False) as same,
        SandboxEngine(pooling=False, fuel=True) as other,
    ):
        assert one.fingerprint == same.fingerprint != other.fingerprint


def test_code_of_another_module_is_found_out(engine: SandboxEngine) -> None:
    """What is called unchecked must be there with the signature that the signed module shows."""
    other = guest(stage='(func (export "run") (param i64) (result i32) (i32.const 0))')
    with pytest.raises(PluginInvalid, match="to the compiler"):
        engine.compile(guest(), stage_spec(), code=engine.code(other, "p"))
