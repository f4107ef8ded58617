"""How guests that end badly are stopped and told about; the zoo has the error of each kind."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from wasmtime import TrapCode

from sandbox.guests import ABI, ALIAS, DONE, ECHO, HELPERS, data, floats, guest, refuse, stage_spec, wasm
from sandseal_host.errors import (
    HostError,
    InputRefused,
    NotReady,
    PluginOutOfMemory,
    PluginTimeout,
    PluginTrapped,
)
from sandseal_host.sandbox import SandboxEngine, deadline
from sandseal_host.sandbox.traps import GuestTrap


@pytest.mark.parametrize("code", TrapCode)
def test_every_trap_code_has_an_error(code: TrapCode) -> None:
    error = GuestTrap(code.name.lower(), ()).error("p", "run")
    kinds = {
        TrapCode.INTERRUPT: PluginTimeout,
        TrapCode.OUT_OF_FUEL: PluginTimeout,
        TrapCode.ALLOCATION_TOO_LARGE: PluginOutOfMemory,
    }
    assert type(error) is kinds.get(code, PluginTrapped)


def test_frames_name_functions_safely(engine: SandboxEngine) -> None:
    """Names come from the guest's own name section."""
    module = guest("(call $inner)", extra='(func $inner (@name "in\\1b[2Jner") (result i32) unreachable)')
    with engine.compile(module, stage_spec()) as plugin, pytest.raises(PluginTrapped) as caught:
        plugin.call([floats(1)])
    names = [frame["function"] for frame in caught.value.data["frames"]]
    assert names == ["in\\x1b[2Jner", "run"]
    assert all(frame["offset"] > 0 for frame in caught.value.data["frames"])


def test_unreachable_after_setting_the_error_refuses(engine: SandboxEngine) -> None:
    """What code compiled without unwinding does instead of throwing."""
    module = guest(refuse("no faces", end="unreachable"), extra=data(b"no faces"))
    with engine.compile(module, stage_spec(), label="p") as plugin, pytest.raises(InputRefused) as caught:
        plugin.call([floats(1)])
    assert caught.value.message == "no faces"
    assert caught.value.data == {"plugin": "p", "status": 255}
    assert isinstance(caught.value.__cause__, PluginTrapped)


def test_an_instance_is_closed_by_a_trap(engine: SandboxEngine) -> None:
    with engine.compile(guest("unreachable"), stage_spec()) as plugin, plugin.instance() as instance:
        with pytest.raises(PluginTrapped):
            instance.call([floats(1)])
        with pytest.raises(NotReady):
            instance.call([floats(1)])


LOOP = "(loop $l (br $l))"


def test_an_endless_reset(engine: SandboxEngine) -> None:
    module = guest(extra=f'(func (export "sandseal_reset") {LOOP})')
    with engine.compile(module, stage_spec(time_ms=100)) as plugin, plugin.instance() as instance:
        instance.call([floats(1)])
        with pytest.raises(PluginTimeout) as caught:
            instance.call([floats(1)])
        assert (caught.value.data["function"], caught.value.data["trap"]) == ("sandseal_reset", "interrupt")
        assert plugin.statistics().cpu_s > 0


def test_an_endless_loop_holds_up_nobody(engine: SandboxEngine) -> None:
    """The guest runs without the GIL, and its end does not touch another guest's time."""
    results: list[object] = []
    with (
        engine.compile(guest(LOOP + DONE), stage_spec(time_ms=300)) as slow,
        engine.compile(guest(), stage_spec()) as quick,
    ):

        def spin() -> None:
            try:
                slow.call([floats(1)])
            except HostError as error:
                results.append(error)

        threads = [threading.Thread(target=spin) for _ in range(2)]
        for thread in threads:
            thread.start()
        calls = 0
        while any(thread.is_alive() for thread in threads):
            quick.call([floats(1)])
            calls += 1
        assert [type(error) for error in results] == [PluginTimeout] * 2
        assert calls > 5  # with the interpreter lock in the guests' hands it would be one
        assert quick.statistics().failed == 0


def test_time_is_counted_anew_for_each_call(engine: SandboxEngine) -> None:
    body = f"""(local $i i32) (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))
               (i32.const 3000000)))) {ECHO}"""
    extra = '(func (export "sandseal_reset") (global.set $top (i32.const 4096)))'
    with engine.compile(guest(body, extra=extra), stage_spec(time_ms=100)) as plugin, plugin.instance() as instance:
        while plugin.statistics().cpu_s < 0.2:
            instance.call([floats(1)])
        assert plugin.statistics().failed == 0


def test_waiting_does_not_count(engine: SandboxEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine.compile(guest(), stage_spec()) as plugin, plugin.instance() as instance:
        time.sleep(0.25)  # more ticks than a call may have
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 100, thread_time=time.thread_time)
        monkeypatch.setattr(deadline, "time", later)
        assert instance.call([floats(1)])[0].data.tolist() == [1]


def test_memory_growth_ends_at_the_limit(engine: SandboxEngine) -> None:
    """memory.grow gives -1 and the guest goes on: it reports how many pages it got."""
    body = f"""(local $n i32)
      (loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      (f32.store (i32.load offset=8 (call $in (local.get $call) (i32.const 0))) (f32.convert_i32_u (memory.size)))
      {ALIAS} {DONE}"""
    with engine.compile(guest(body), stage_spec(memory_mib=4)) as plugin:
        assert plugin.call([floats(0)])[0].data.tolist() == [64]


def test_growth_in_alloc(engine: SandboxEngine) -> None:
    alloc = """(func (export "sandseal_alloc") (param i32 i32) (result i32)
      (if (i32.eq (memory.grow (i32.const 1000)) (i32.const -1)) (then (return (i32.const 0)))) (i32.const 4096))"""
    with engine.compile(guest(alloc=alloc), stage_spec(memory_mib=64)) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [1]


def test_table_growth_ends_at_the_limit(engine: SandboxEngine) -> None:
    body = f"""(f32.store (i32.load offset=8 (call $in (local.get $call) (i32.const 0)))
      (f32.convert_i32_s (table.grow (ref.null func) (i32.const 30000)))) {ECHO}"""
    with engine.compile(guest(body, extra="(table 1 funcref)"), stage_spec()) as plugin:
        assert plugin.call([floats(0)])[0].data.tolist() == [-1]


def test_memory_of_no_pages(engine: SandboxEngine) -> None:
    module = wasm(f"""(module (memory (export "memory") 0) {ABI} {HELPERS}
      (func (export "sandseal_alloc") (param i32 i32) (result i32) (i32.const 16))
      (func (export "run") (param i32) (result i32) (i32.const 0)))""")
    with engine.compile(module, stage_spec()) as plugin, pytest.raises(HostError, match="sandseal_alloc returned"):
        plugin.call([floats(1)])


@pytest.mark.slow
def test_source_lines_where_the_environment_asks_for_them(tmp_path: Path) -> None:
    """wasmtime reads the variable when the engine is made, so this needs a process of its own."""
    pytest.importorskip("ziglang")
    source = tmp_path / "plugin.c"
    source.write_text(
        """
#define EXPORT(name) __attribute__((export_name(#name)))
static char room[4096] __attribute__((aligned(16)));
EXPORT(sandseal_abi) int abi(void) { return 1; }
EXPORT(sandseal_alloc) void *alloc(unsigned size, unsigned align) { return room; }
static inline __attribute__((always_inline)) void check(int *call) { if (call[0]) __builtin_trap(); }
static __attribute__((noinline)) int inner(int *call) { check(call); return 0; }
EXPORT(run) int run(int *call) { return inner(call) + 1; }
"""
    )
    target = tmp_path / "plugin.wasm"
    flags = ["-target", "wasm32-freestanding", "-g", "-O1", "-fno-sanitize=all", "-Wl,--no-entry", "-nostdlib"]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *flags, str(source), "-o", str(target)], check=True)
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from sandbox.guests import *
from sandseal_host.sandbox import SandboxEngine
with SandboxEngine(pooling=False) as engine, engine.compile(open({str(target)!r}, "rb").read(), stage_spec()) as plugin:
    try:
        plugin.call([floats(1)])
    except Exception as error:
        for frame in error.data["frames"]:
            print(frame["function"], *(place.split(":")[-2] for place in frame["at"]))
"""
    environment = os.environ | {"WASMTIME_BACKTRACE_DETAILS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "inner 6 7\nrun 8\n"  # the trap's line in what was inlined, then the caller's
