"""What a call of a plugin costs in one process: instances, host calls, copies, loading, and Extism beside it."""

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from wasmtime import wat2wasm

from bench.figure import Figure, Measure, interleave
from sandbox.guests import ALIAS, ALLOC, DONE, ECHO, floats, guest, stage_spec, tensor_spec
from sandseal_host.private_cache import PrivateCache
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.compiler import Compiler
from sandseal_host.tensors import Tensor
from sandseal_sdk.build import build_plugin
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_signing.tensor import DataType
from support.venv import NotInstallable, make_venv

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
PIXELS, ROUNDS = 224 * 224 * 3, 400
BULK = 4 * PIXELS  # bytes; 602,112
RESET = '(func (export "sandseal_reset") (global.set $top (i32.const 4096)))'
ROOM = ALLOC.replace("(func (export", "(func $alloc (export")
BYTES = {"inputs": (tensor_spec("x", "UINT8", "n"),), "outputs": (tensor_spec("y", "UINT8", "n"),)}

_STEP = """(f32.store offset={} (i32.add (local.get $to) (i32.shl (local.get $i) (i32.const 2)))
  (f32.mul (f32.const 0.00392156862) (f32.convert_i32_u
    (i32.load8_u offset={} (i32.add (local.get $from) (local.get $i))))))"""
NORMALISE = f"""(local $i i32) (local $from i32) (local $to i32)
  (local.set $from (i32.load offset=8 (call $in (local.get $call) (i32.const 0))))
  (local.set $to (call $alloc (i32.const {BULK}) (i32.const 16)))
  (loop $next {"".join(_STEP.format(4 * k, k) for k in range(8))}
    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8))) (i32.const {PIXELS}))))
  (call $describe (call $out (local.get $call) (i32.const 0)) (local.get $to)
    (i64.const {BULK}) (i64.const {PIXELS})) {DONE}"""
# Every byte goes into memory of the plugin's own and out of it again.
COPY = f"""(local $x i32) (local $to i32) {ALIAS}
  (local.set $x (call $in (local.get $call) (i32.const 0)))
  (local.set $to (call $alloc (i32.wrap_i64 (i64.load offset=16 (local.get $x))) (i32.const 16)))
  (memory.copy (local.get $to) (i32.load offset=8 (local.get $x)) (i32.wrap_i64 (i64.load offset=16 (local.get $x))))
  (i32.store offset=8 (call $out (local.get $call) (i32.const 0)) (local.get $to)) {DONE}"""

_CALLS = 1000
NOW = f"""(local $i i32) (loop $next (drop (call $now))
  (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {_CALLS})))) {ECHO}"""

# The same copy as Extism's development kits do it: eight bytes a call, from the host's memory and back.
EXTISM = """(module
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_load_u64" (func $load (param i64) (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (func (export "echo") (result i32) (local $i i64) (local $n i64) (local $to i64)
    (local.set $n (call $length))
    (local.set $to (call $alloc (local.get $n)))
    (loop $next
      (call $store (i64.add (local.get $to) (local.get $i)) (call $load (local.get $i)))
      (br_if $next (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 8))) (local.get $n))))
    (call $output (local.get $to) (local.get $n)) (i32.const 0)))"""
# Run by Extism's own Python: for each line read, one call; its microseconds are printed.
_EXTISM_ECHOES = """
import os, sys, time
import extism
plugin, data = extism.Plugin(open(sys.argv[1], "rb").read()), os.urandom(int(sys.argv[2]))
assert plugin.call("echo", data) == data
for _ in sys.stdin:
    began = time.perf_counter()
    plugin.call("echo", data)
    print((time.perf_counter() - began) * 1e6, flush=True)
"""


def _micros(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def _module(body: str, pages: int, imports: str = "") -> bytes:
    return guest(body, alloc=ROOM, memory=f'(memory (export "memory") {pages})', extra=RESET, imports=imports)


def _bulk(size: int) -> list[Tensor]:
    return [Tensor("x", DataType.UINT8, (size,), np.random.default_rng(1).integers(0, 256, size, np.uint8))]


def fresh_instances() -> Iterator[Figure]:
    """A fresh instance per call against a reused one: a small call, a large one, and a large one that grows first."""
    large = stage_spec(inputs=BYTES["inputs"])
    with SandboxEngine() as engine:
        pool = "pooled" if engine.pooling else "no pool"
        for name, module, spec, inputs, goal in (
            ("64 floats", _module(ECHO, 2), stage_spec(), [floats(*range(64))], 45),
            ("150 KB to 600 KB", _module(NORMALISE, 16), large, _bulk(PIXELS), 45),
            ("the same, growing", _module(NORMALISE, 2), large, _bulk(PIXELS), 150),
        ):
            with engine.compile(module, spec) as plugin, plugin.instance() as reused:
                fresh, again = interleave(
                    ROUNDS,
                    lambda p=plugin, i=inputs: _micros(lambda: p.call(i)),
                    lambda r=reused, i=inputs: _micros(lambda: r.call(i)),
                )
            detail = f"{fresh:.0f} against {again:.0f} us, {pool}"
            yield Figure(f"fresh - reused instance, {name}", fresh - again, "us", goal, False, detail)


def host_calls() -> Iterator[Figure]:
    """A call from the guest into the host and back."""
    imports = '(import "sandseal" "now" (func $now (result i64)))'
    with SandboxEngine() as engine:
        calls = engine.compile(_module(NOW, 2, imports), stage_spec(imports=("now",)))
        none = engine.compile(_module(ECHO, 2), stage_spec())
        with calls, none, calls.instance() as calling, none.instance() as quiet:
            busy, idle = interleave(
                100,
                lambda: _micros(lambda: calling.call([floats(1)])),
                lambda: _micros(lambda: quiet.call([floats(1)])),
            )
    each = (busy - idle) / _CALLS
    yield Figure("host call (now)", each, "us", 5, False, f"{_CALLS} calls in {busy:.0f} us; none in {idle:.0f} us")


def copies() -> Iterator[Figure]:
    """What 600 KB in and out add to a call, against two bare copies of as much."""
    large, none, source, target = _bulk(BULK), _bulk(0), bytes(BULK), ctypes.create_string_buffer(BULK)

    def bare() -> None:
        for _ in range(2):
            ctypes.memmove(target, source, BULK)

    with (
        SandboxEngine() as engine,
        engine.compile(_module(ECHO, 32), stage_spec(**BYTES)) as plugin,
        plugin.instance() as instance,
    ):
        full, empty, two = interleave(
            ROUNDS,
            lambda: _micros(lambda: instance.call(large)),
            lambda: _micros(lambda: instance.call(none)),
            lambda: _micros(bare),
        )
    detail = f"{full:.0f} us with 600 KB, {empty:.0f} us with none; two copies {two:.0f} us"
    yield Figure("600 KB in and out / two copies", (full - empty) / two, "ratio", 3, False, detail)


def loading() -> Iterator[Figure]:
    """From a signed module to a plugin that takes calls: as it was kept, compiled here, compiled in a child."""
    folder = PLUGINS / "image-normalise"
    spec, wasm = read_plugin_spec(folder).stage, build_plugin(folder, progress=print).wasm.read_bytes()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        keeping = Compiler(PrivateCache(root / "code", root / "keys" / "code.key", 1 << 24, "compiled plugins"))
        with SandboxEngine() as plain, SandboxEngine(pooling=plain.pooling, compiler=keeping) as cached:

            def load(engine: SandboxEngine) -> float:
                began = time.perf_counter()
                plugin = engine.compile(wasm, spec)
                took = time.perf_counter() - began
                plugin.close()
                return took * 1e3

            child = load(cached)
            kept, here = interleave(40, lambda: load(cached), lambda: load(plain))
    size = f"{len(wasm) >> 10} KiB of wasm"
    yield Figure("cold start of a cached plugin", kept, "ms", 1, False, size)
    yield Figure("compiled here / cached", here / kept, "times", 10, True, f"{here:.1f} ms; in a child {child:.0f} ms")


def building() -> Iterator[Figure]:
    """Building a C plugin: with empty compiler caches, and again after a change."""
    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as environment:
        folder = Path(temporary) / "plugin"
        shutil.copytree(PLUGINS / "text-hash", folder, ignore=shutil.ignore_patterns("build"))
        environment.setenv("ZIG_GLOBAL_CACHE_DIR", str(Path(temporary) / "zig"))
        cold = build_plugin(folder).seconds
        with (folder / "plugin.c").open("a") as source:
            source.write("// changed\n")
        warm = build_plugin(folder).seconds
    yield Figure("build a C plugin after a change", warm, "s", 2, False, f"{cold:.2f} s with empty caches")


def against_extism() -> Iterator[Figure]:
    """600 KB in and out of a fresh instance of ours, against Extism's Python SDK, which reuses one.

    An echo of ours points at its input; one of theirs must copy, since plugins do not share the host's memory.
    """
    with tempfile.TemporaryDirectory() as temporary:
        try:
            python = make_venv(Path(temporary) / "venv", "extism==1.1.1", "extism-sys==1.41.0")
        except NotInstallable as error:
            print(f"not measured: {error}", file=sys.stderr)
            return
        data = _bulk(BULK)
        with (
            _extism(python, Path(temporary)) as theirs,
            SandboxEngine() as engine,
            engine.compile(_module(ECHO, 10), stage_spec(**BYTES)) as pointing,
            engine.compile(_module(COPY, 19), stage_spec(**BYTES)) as copying,
        ):
            for plugin in (pointing, copying):
                assert np.array_equal(plugin.call(data)[0].data, data[0].data)
            point, copy, them = interleave(
                ROUNDS,
                lambda: _micros(lambda: pointing.call(data)),
                lambda: _micros(lambda: copying.call(data)),
                theirs,
            )
    yield Figure("Extism / we, 600 KB echo", them / point, "times", 5, True, f"{them:.0f} against {point:.0f} us")
    detail = f"{them:.0f} against {copy:.0f} us"
    yield Figure("Extism / we, copied by our guest too", them / copy, "times", 3, True, detail)


@contextmanager
def _extism(python: Path, folder: Path) -> Iterator[Callable[[], float]]:
    """A function that has Extism echo once and gives the microseconds that it took."""
    module = folder / "echo.wasm"
    module.write_bytes(bytes(wat2wasm(EXTISM)))
    command = [python, "-c", _EXTISM_ECHOES, module, str(BULK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def once() -> float:
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        yield once
        process.stdin.close()


MEASURES = (
    Measure("fresh instances", fresh_instances),
    Measure("host calls", host_calls),
    Measure("copies", copies),
    Measure("loading", loading),
    Measure("building", building),
    Measure("against Extism", against_extism),
)
