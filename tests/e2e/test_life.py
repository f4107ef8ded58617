"""What must survive: new versions under load, restarts, and a host that is killed at any moment."""

import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sandseal_sdk import Client, Patience
from sandseal_sdk.errors import HostRefused, HostUnreachable, NotConnected
from support.onnx_models import mlp

pytestmark = pytest.mark.slow

ROW = np.ones((1, 128), np.float32)
KILLS = 12


def test_a_new_version_takes_over_without_a_lost_request(host, publisher) -> None:
    stop, failures, answers = threading.Event(), [], []

    def ask() -> None:
        with host.client() as client:
            while not stop.is_set():
                try:
                    answers.append(client.infer("acme.mlp", {"x": ROW})["y"].shape)
                except Exception as error:
                    failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    with host.client() as client:
        for version in range(2, 7):
            before = len(answers)
            client.push(publisher.seal(mlp((128, 64 + version, 10)), version=version))
            while len(answers) < before + 20 and not failures:
                time.sleep(0.01)
            (serving,) = (m["version"] for m in client.models() if m["state"] == "READY")
            assert serving == str(version)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(answers) == {(1, 10)}


def test_a_host_that_is_told_to_stop_answers_all_that_it_was_asked(host) -> None:
    ended, answers = [], []

    def ask() -> None:
        with Client(host.url, host.token, patience=Patience(tries=1)) as client:
            try:
                while True:
                    answers.append(client.infer("acme.mlp", {"x": ROW})["y"].shape)
            except Exception as error:
                ended.append(error)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    while len(answers) < 200 and not ended:
        time.sleep(0.01)
    host.process.terminate()
    for thread in threads:
        thread.join()
    assert host.process.wait(120) == 0
    assert {type(error) for error in ended} == {NotConnected}
    assert set(answers) == {(1, 10)}


def test_an_older_version_is_refused_and_the_newer_serves_on(host, publisher) -> None:
    with host.client() as client:
        client.push(publisher.seal(mlp(), version=3))
        with pytest.raises(HostRefused) as refusal:
            client.push(publisher.seal(mlp((128, 32, 10)), version=2))
        assert refusal.value.code == "version_stale"
        assert client.infer("acme.mlp", {"x": ROW}, version=3)["y"].shape == (1, 10)


def test_a_restart_brings_back_what_was_serving(start, publisher) -> None:
    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp(), "acme.kept"))
        client.push(publisher.seal(mlp(), "acme.unloaded"))
        client.unload("acme.unloaded")
        before = client.infer("acme.kept", {"x": ROW})["y"]
    with start() as host:
        host.wait_ready()
        with host.client() as client:
            np.testing.assert_array_equal(client.infer("acme.kept", {"x": ROW})["y"], before)
            assert {m["name"]: m["state"] for m in client.models()} == {
                "acme.kept": "READY",
                "acme.unloaded": "UNAVAILABLE",
            }


def test_killed_at_any_moment_of_an_upload_or_load_it_loses_and_corrupts_nothing(start, publisher, tmp_path) -> None:
    """Each round pushes the next version, under load, and kills the host at a random moment.

    What was answered must be there.
    """
    rng = random.Random(7)
    model = mlp((128, 4096, 10))  # 2 MiB of weights, so that uploads and loads take a moment
    seals = [publisher.seal(model, version=version) for version in range(1, KILLS + 2)]
    took = _time_of_a_push(start, seals[0])
    acknowledged, failures = 1, []
    for version in range(2, KILLS + 2):
        with start() as host:
            host.wait_ready()
            with host.client() as client:
                assert max(bundle["version"] for bundle in client.bundles()) >= acknowledged
                assert client.infer("acme.mlp", {"x": ROW})["y"].shape == (1, 10)
            asking = threading.Thread(target=_ask_until_it_ends, args=(host, failures))
            asking.start()
            killer = threading.Timer(rng.uniform(0, took), host.process.send_signal, (signal.SIGKILL,))
            killer.start()
            try:
                with host.client() as client:
                    client.push(seals[version - 1])
                acknowledged = version
            except HostUnreachable:
                pass
            killer.join()
            host.process.wait(120)
            asking.join()
    assert not failures
    with start() as host:
        host.wait_ready()
        with host.client() as client:
            newest = max(bundle["version"] for bundle in client.bundles())
            assert newest >= acknowledged
            for bundle in client.bundles():
                client.load("acme.mlp", bundle["version"])
                assert client.infer("acme.mlp", {"x": ROW}, version=bundle["version"])["y"].shape == (1, 10)
            client.push(publisher.seal(model, version=KILLS + 2))
    assert not list(Path(tmp_path, "data", "blobs", "incoming").iterdir())


def _ask_until_it_ends(host, failures: list[object]) -> None:
    """Keep the host busy; what it answers until it is killed must be right."""
    try:
        with Client(host.url, host.token, patience=Patience(tries=1)) as client:
            while client.infer("acme.mlp", {"x": ROW})["y"].shape == (1, 10):
                pass
        failures.append("another shape")
    except HostUnreachable:
        pass
    except Exception as error:
        failures.append(error)


def _time_of_a_push(start, seal: Path) -> float:
    """Seconds from the first byte of a push to its answer."""
    with start() as host, host.client() as client:
        began = time.monotonic()
        client.push(seal)
        return time.monotonic() - began
