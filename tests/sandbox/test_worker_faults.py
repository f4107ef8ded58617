"""What becomes of calls when their worker is killed, hangs, lies, eats memory, or loses its host."""

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox.guests import DONE, floats, guest, stage_spec
from sandbox.worker_host import WorkerHost, twisted, worker_pids
from sandseal_host.errors import InputRefused, PluginLost, PluginTimeout, SettingsInvalid
from sandseal_host.sandbox import SandboxEngine, Workers
from sandseal_host.sandbox.workers import dispatch
from sandseal_host.sandbox.workers.keeper import Backoff
from support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="sandbox workers need Linux"),
]

SPIN = guest(f"(loop $l (br $l)) {DONE}")
BAD = 666.0  # the input at which a twisted worker does what it should not
# Calls with that input run `bad(self, order)` instead.
TWIST = """
real = worker.Worker._answer
def answer(self, order):
    layout = worker.SlotLayout.of([size for size, _ in order.inputs], order.parameters)
    if order.inputs and order.inputs[0].size == 4:
        if self._region.array(order.slot, layout.inputs_at[0], 1, worker.KINDS[worker.DataType.FP32].numpy)[0] == 666.0:
            return bad(self, order)
    return real(self, order)
worker.Worker._answer = answer
"""


_others: set[int] = set()


@pytest.fixture(autouse=True)
def _know_others() -> None:
    """Workers of fixtures that live longer than one test."""
    _others.clear()
    _others.update(worker_pids())


def ours() -> set[int]:
    return worker_pids() - _others


def test_workers_killed_at_random_moments(engine: SandboxEngine) -> None:
    """Every call is answered rightly, or fails as lost, which takes three kills; no descriptor or process is left."""
    before, ended = _descriptors(), threading.Event()

    def kill() -> None:
        for _ in range(6):
            time.sleep(random.uniform(0.05, 0.25))
            pid = random.choice(wait_until(lambda: sorted(ours())))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.set()

    def hammer(start: int) -> int:
        lost, value = 0, float(start)
        while not ended.is_set():
            value += 1
            try:
                (y,) = host.call(stage, floats(value, -value))
            except PluginLost:
                lost += 1
                continue
            assert y.data.tolist() == [value, -value]
        return lost

    with WorkerHost(engine) as host, ThreadPoolExecutor(7) as threads:
        stage = host.stage()
        killer = threads.submit(kill)
        lost = sum(threads.map(hammer, range(0, 6_000_000, 1_000_000)))
        killer.result()
        wait_until(lambda: host.workers.statistics().ready == 2)
        assert host.workers.statistics().restarts >= 3
        statistics = stage.plugin_statistics()
        assert 3 * lost <= statistics.lost <= 6
        assert statistics.failed == lost
        host.call(stage, floats(1))
        stage.close()
    assert not ours()
    assert _descriptors() <= before


def test_a_hung_worker_is_ended_and_only_its_call_fails(engine: SandboxEngine) -> None:
    with WorkerHost(engine, 1) as host:
        stage, echo = host.stage(SPIN, stage_spec(time_ms=20)), host.stage()
        (pid,) = ours()
        os.kill(pid, signal.SIGSTOP)
        held = host.submit(stage, floats(1))
        behind = [host.submit(echo, floats(i)) for i in range(3)]
        with pytest.raises(PluginTimeout, match="nor could its worker end it"):
            held.result(60)
        assert [call.result(60)[0].data.tolist() for call in behind] == [[0], [1], [2]]
        hung = stage.plugin_statistics()
        assert (hung.lost, hung.failed, echo.plugin_statistics().lost) == (1, 1, 0)
        assert host.workers.statistics().restarts == 1


LIES = {
    "noise": "self._channel.send(bytes(range(worker.Kind.ANSWER, 100)))",
    "another number": "self._channel.send(worker.pack_answer(worker.Answer(order.number + 1)))",
    "the answer twice": "lie(self, order, [worker.Described(4, (1,))] ), lie(self, order, [worker.Described(4, (1,))])",
    "a flood": "[self._channel.send(worker.pack_log(order.plugin, 1, 'x')) for _ in range(100_000)]",
    "nothing any more": "worker.os.abort()",
    "a memory bomb": "bytearray(2 << 30)",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_is_ended(
    engine: SandboxEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    """It lies about three calls in turn, which is not believed once; calls before and after it are answered."""
    monkeypatch.setattr(dispatch, "_MAX_LINES", 50)  # so that any machine is quick enough for a flood
    code = f"""{TWIST}
def lie(self, order, outputs):
    self._channel.send(worker.pack_answer(worker.Answer(order.number, outputs=outputs)))
def bad(self, order):
    {LIES[lie]}
    worker.time.sleep(60)
"""
    with WorkerHost(engine, 1, memory_mib=400, command=twisted(tmp_path, code)) as host:
        stage = host.stage(spec=stage_spec(time_ms=1000))
        host.call(stage, floats(1))
        if lie == "the answer twice":
            host.call(stage, floats(BAD))
        else:
            with pytest.raises(PluginLost, match="3 times"):
                host.call(stage, floats(BAD))
        (y,) = host.call(stage, floats(2))
        assert y.data.tolist() == [2]


def test_a_confined_worker_has_nothing(engine: SandboxEngine, tmp_path: Path) -> None:
    code = f"""{TWIST}
import fcntl, json, os, socket, ctypes
from sandseal_host.errors import InputRefused
def tried(what):
    try:
        return ["did", repr(what())]
    except Exception as error:
        return ["failed", repr(error)]
def is_open(file):
    try:
        return fcntl.fcntl(file, fcntl.F_GETFD) >= 0
    except OSError:
        return False
missing = []
ready = worker.pack_ready
worker.pack_ready = lambda nouns: (missing.extend(nouns), ready(nouns))[1]
def bad(self, order):
    found = dict(
        socket=tried(socket.socket), fork=tried(os.fork), passwd=tried(lambda: open("/etc/passwd").read()),
        run=tried(lambda: os.execv("/bin/true", ["true"])), write=tried(lambda: open({str(tmp_path / "new")!r}, "w")),
        signal=tried(lambda: os.kill(os.getppid(), 0)), environment=sorted(os.environ),
        files=[file for file in range(64) if is_open(file)], missing=missing,
    )
    return worker.Answer(order.number, error=InputRefused(json.dumps(found)))
"""
    os.environ["SANDSEAL_SECRET"] = "x"
    try:
        with WorkerHost(engine, 1, command=twisted(tmp_path, code)) as host:
            stage = host.stage()
            with pytest.raises(InputRefused) as raised:
                host.call(stage, floats(BAD))
    finally:
        del os.environ["SANDSEAL_SECRET"]
    found = json.loads(raised.value.message)
    assert not [name for name in found["environment"] if "SANDSEAL" in name]
    assert len(found["files"]) == 5  # the standard ones, the socket and the region
    if found["missing"]:
        pytest.skip(f"this system does not grant {', '.join(found['missing'])}")
    for what in ("socket", "fork", "passwd", "run", "write", "signal"):
        assert found[what][0] == "failed", (what, found[what])


def test_workers_that_do_not_start_are_said_to(engine: SandboxEngine, tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"do not start.*ZeroDivisionError"):
        WorkerHost(engine, 1, command=twisted(tmp_path, "1 / 0"))
    assert not ours()


def test_a_command_that_is_not_there_leaves_nothing_behind(engine: SandboxEngine) -> None:
    before = _descriptors()
    with pytest.raises(SettingsInvalid, match="do not start: could not be started: No such file"):
        WorkerHost(engine, 1, command=("/nonexistent",))
    assert _descriptors() <= before


def test_workers_that_were_not_started_can_be_closed() -> None:
    async def main() -> None:
        Workers(1).close()

    asyncio.run(main())


def test_whoever_wants_to_know_is_told_when_there_are_no_workers(engine: SandboxEngine) -> None:
    told: list[bool] = []
    with WorkerHost(engine, 1, on_change=told.append):
        assert told == [True]
        (pid,) = ours()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(told) == 3)
        assert told == [True, False, True]


def test_workers_die_with_a_host_that_is_killed(engine: SandboxEngine, tmp_path: Path) -> None:
    """Even while a guest runs, when they do not look at their socket."""
    script = tmp_path / "host.py"
    script.write_text(f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from sandbox.test_worker_faults import *
with SandboxEngine(pooling=False) as engine:
    host = WorkerHost(engine, 1)
    host.submit(host.stage(SPIN, stage_spec(time_ms=60_000)), floats(1))
    while not host.workers.statistics().handed: time.sleep(0.01)
    print(*worker_pids(), flush=True)
    time.sleep(60)
""")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.kill()
        process.wait()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_restarts_slow_down() -> None:
    backoff = Backoff()
    assert [backoff.next(float(i)) for i in range(9)] == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert [backoff.next(40.0), backoff.next(41.0)] == [0, 0.1]


def _descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))
