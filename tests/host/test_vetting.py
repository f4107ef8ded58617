"""Bundles vetted in a process of their own: what they do to it is told, and the host goes on."""

import gc
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.guests import ECHO, guest
from sandseal_host.errors import (
    DeviceUnavailable,
    ModelInvalid,
    PluginInvalid,
    PluginTimeout,
    SettingsInvalid,
    ShuttingDown,
)
from sandseal_host.settings import Settings
from sandseal_host.vetting import vetter
from sandseal_host.vetting.vetter import Vetting, VettingStatistics
from sandseal_signing.bundle import Bundle
from sandseal_signing.errors import SandsealError
from support.hostile_models import bundle, crashing, described, doubling, endless, hollow, swelling
from support.onnx_models import OnnxModel, identity, mlp, outside
from support.waiting import wait_until

pytestmark = pytest.mark.slow

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
POST = {"plugin": "post.wasm", "function": "run", "outputs": [{"name": "z", "dtype": "FP32", "shape": ["batch", 4]}]}


def vetting(**settings: Any) -> Vetting:
    """With limits that suit tests on a busy machine."""
    return Vetting(Settings(**{"vet_memory_mib": 512, "vet_cpu_s": 20, "vet_time_s": 120, **settings}))


def refused(bundle: Bundle, error: type[SandsealError], **settings: Any) -> SandsealError:
    """What a bundle is refused with, which must be of exactly this class."""
    with pytest.raises(error) as caught:
        vetting(**settings).vet(bundle)
    assert type(caught.value) is error
    return caught.value


def test_a_good_bundle_passes_without_growth():
    model, post = identity(shape=("batch", 4)), guest(ECHO)
    good = bundle(model, {"post.wasm": post, "labels.txt": b"a\nb\n"}, post=POST)
    room = vetting()
    room.vet(good)
    gc.collect()
    threads, descriptors, memory = set(threading.enumerate()), _descriptors(), [_resident()]
    for _ in range(3):
        room.vet(good)
        memory.append(_resident())
    gc.collect()
    assert _descriptors() <= descriptors
    assert set(threading.enumerate()) <= threads
    assert min(after - before for before, after in pairwise(memory)) < 1 << 20  # what leaks grows each time


def test_two_at_once():
    room = vetting()
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(room.vet, bundle(mlp()))
        bad = pool.submit(room.vet, bundle(swelling(1 << 36)))
        assert good.result() is None
        with pytest.raises(ModelInvalid, match="MiB of memory"):
            bad.result()


def test_weights_beside_the_graph():
    vetting().vet(bundle(outside("models/net.onnx", "net.data")))


def test_weights_in_a_folder_of_their_own(tmp_path):
    model = outside("models/net.onnx", "net.data")
    good = bundle(model)
    bare = replace(good, files={name: data for name, data in good.files.items() if name not in model.external})
    for name, data in model.external.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(data)
    vetting().vet(bare, tmp_path)
    (tmp_path / "models" / "net.data").write_bytes(b"short")
    with pytest.raises(ModelInvalid, match="does not load"):
        vetting().vet(bare, tmp_path)


def test_large_weights_are_not_held_twice():
    """The host holds them once more while it hands them over, but not as memory of its own."""
    size = 64 << 20
    model = outside()
    large = bundle(
        OnnxModel(model.spec, model.data, {"model.onnx.data": model.external["model.onnx.data"] + bytes(size)})
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    vetting().vet(large)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < size // 4


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another processor divides without a trap")
def test_a_model_that_crashes_onnx_runtime():
    error = refused(bundle(crashing()), ModelInvalid)
    assert error.message == "'model.onnx' crashed ONNX Runtime with signal 8 (SIGFPE) during the warm-up"
    assert error.data["step"] == "warm-up"
    assert error.data["status"] == -signal.SIGFPE


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another processor divides without a trap")
@pytest.mark.parametrize("device", [{}, {"requires": "cuda"}], ids=["any device", "another device"])
def test_a_variant_that_crashes_onnx_runtime(device):
    model, variant = doubling(1), {"precision": "INT8", "file": "int8.onnx", **device}
    members = {**described(model), "variants": [variant]}
    error = refused(bundle(model, {"int8.onnx": crashing().data}, model=members), ModelInvalid)
    assert error.message == "'int8.onnx' crashed ONNX Runtime with signal 8 (SIGFPE) during the warm-up"


def test_a_model_that_never_ends_uses_up_its_processor_time():
    error = refused(bundle(endless()), ModelInvalid, vet_cpu_s=2)
    assert "needs more than the 2 s of processor time that vetting allows, during the warm-up" in error.message
    assert "SANDSEAL_VET_CPU_S" in error.hint
    assert error.data["limit"] == "cpu"


def test_a_model_that_never_ends_is_broken_off():
    error = refused(bundle(endless()), ModelInvalid, vet_time_s=10)
    assert error.data["limit"] == "time"
    assert "SANDSEAL_VET_TIME_S" in error.hint


def test_a_graph_that_unfolds_into_too_much():
    error = refused(bundle(doubling(40)), ModelInvalid, vet_cpu_s=3)
    assert error.data["limit"] in ("cpu", "memory")
    assert error.data["step"] in ("parse", "session")


@pytest.mark.parametrize("elements", [1 << 28, 1 << 36], ids=["1 GiB", "256 GiB"])
def test_a_model_that_wants_too_much_memory(elements):
    error = refused(bundle(swelling(elements)), ModelInvalid)
    assert "needs more than the 512 MiB of memory that vetting allows, during the warm-up" in error.message
    assert error.data["limit"] == "memory"


def test_a_graph_that_wants_too_much_memory_to_be_read():
    error = refused(bundle(hollow(10_000_000)), ModelInvalid)
    assert error.data["limit"] == "memory"
    assert error.data["step"] == "parse"


def test_a_plugin_that_takes_long_to_compile():
    lines = "(local.set $a (i32.add (i32.mul (local.get $a) (i32.load (local.get $a))) (i32.const 77)))" * 2000
    functions = "".join(f"(func $f{i} (param $a i32) (result i32) {lines} (local.get $a))" for i in range(150))
    heavy = bundle(identity(shape=("batch", 4)), {"post.wasm": guest(ECHO, extra=functions)}, post=POST)
    error = refused(heavy, ModelInvalid, vet_cpu_s=2)
    assert "'post.wasm' needs more than the 2 s of processor time" in error.message
    assert error.data["step"] == "plugin compile"


def test_errors_come_through_as_they_are():
    model, post = identity(shape=("batch", 4)), {**POST, "limits": {"time_ms": 100}}
    stuck = guest(ECHO, extra='(func (export "_initialize") (loop $again (br $again)))')
    error = refused(bundle(model, {"post.wasm": stuck}, post=post), PluginTimeout)
    assert error.data["function"] == "_initialize"
    assert error.data["frames"]

    error = refused(bundle(model, {"post.wasm": b"(module)"}, post=post), PluginInvalid)
    assert "is not a WebAssembly module" in error.message

    error = refused(bundle(OnnxModel(model.spec, b"not ONNX" * 10, {})), ModelInvalid)
    assert error.message == "model.onnx is not an ONNX model"

    other = [{"name": "x", "dtype": "INT64", "shape": ["batch", 4]}]
    error = refused(bundle(model, model=described(model) | {"inputs": other}), ModelInvalid)
    assert "input 'x' is tensor(float) in the graph, but INT64 in the manifest" in error.message
    assert error.data["tensor"] == "x"


def test_a_device_that_is_not_there_and_what_is_not_held_is_logged_once(caplog):
    room = vetting(device="cuda:99")
    for _ in range(2):
        with pytest.raises(DeviceUnavailable):
            room.vet(bundle(mlp()))
    lines = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert "closed files" in lines[0]


@LINUX
def test_a_limit_that_is_too_low_to_start_is_the_operators():
    error = refused(bundle(mlp()), SettingsInvalid, vet_cpu_s=1, vet_time_s=0.01)
    assert "was not ready after 0.01 s before it looked at anything" in error.message


def test_the_child_inherits_no_secret_and_no_descriptor(tmp_path, monkeypatch):
    """Looked at from inside: Python runs `sitecustomize` before the child's own first line."""
    seen = tmp_path / "seen.json"
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os\n"
        "descriptors = [f for f in os.listdir('/dev/fd')]\n"
        f"json.dump([dict(os.environ), descriptors, os.getsid(0) == os.getpid()], open({str(seen)!r}, 'w'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SANDSEAL_CATALOG_URL", "postgresql://user:secret@db/sandseal")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    inheritable = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        vetting().vet(bundle(mlp()))
    finally:
        os.close(inheritable)
    environment, descriptors, own_session = json.loads(seen.read_text())
    assert "secret" not in json.dumps(environment)
    assert not [name for name in environment if name.startswith("SANDSEAL_")]
    assert set(descriptors) <= {"0", "1", "2", "3"}  # the last is the listing itself
    assert own_session


def test_few_are_vetted_at_once_and_the_others_wait_their_turn(monkeypatch):
    room, waited_s = vetting(vettings=1), [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + waited_s[0])
    monkeypatch.setattr(vetter, "time", clock)
    with ThreadPoolExecutor(3) as pool:
        slow = pool.submit(room.vet, bundle(endless()))
        wait_until(lambda: room._children)
        others = [pool.submit(room.vet, bundle(mlp())) for _ in range(2)]
        wait_until(lambda: room.statistics().waiting == 2)
        assert room.statistics() == VettingStatistics(running=1, waiting=2)
        waited_s[0] = 1000.0
        for child in [*room._children]:
            child.kill()
        with pytest.raises(SandsealError):
            slow.result(60)
        for other in others:  # the time that they waited is not their own
            other.result(120)
    assert room.statistics() == VettingStatistics(0, 0)


def test_closing_ends_the_wait():
    room = vetting(vettings=1)
    with ThreadPoolExecutor(2) as pool:
        vetted = [pool.submit(room.vet, bundle(endless())) for _ in range(2)]
        wait_until(lambda: room.statistics().waiting)
        room.close()
        for one in vetted:
            with pytest.raises(ShuttingDown):
                one.result(60)


def test_closing_ends_what_runs():
    room = vetting()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(room.vet, bundle(endless()))
        time.sleep(1)
        room.close()
        with pytest.raises(ShuttingDown):
            running.result(60)
    with pytest.raises(ShuttingDown):
        room.vet(bundle(mlp()))


@LINUX
def test_the_child_dies_with_the_host(tmp_path):
    """A host that is killed leaves nothing behind that goes on computing."""
    script = tmp_path / "host.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from sandseal_host.settings import Settings\n"
        "from sandseal_host.vetting.vetter import Vetting\n"
        "from support.hostile_models import bundle, endless\n"
        "Vetting(Settings()).vet(bundle(endless()))\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as host:
        child = _wait_child(host.pid)
        host.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def _wait_child(pid: int) -> str:
    """The process that vets for this host, once it runs a model."""

    def busy() -> str | None:
        for child in _children(pid):
            with suppress(FileNotFoundError):
                used = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11]
                if int(used) > 100:  # a second of processor time: past every import
                    return child
        return None

    return wait_until(busy)


def _children(pid: int) -> Iterator[str]:
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            yield from tasks.read_text().split()


def _descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def _resident() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
