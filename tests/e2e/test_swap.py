"""A soak: a model is swapped every second under load, over REST and gRPC, and no request fails.

SWAP_SECONDS makes it longer than the 20 s that CI has.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from e2e.conftest import Publisher
from support.hosts import RunningHost
from support.living_host import adding

grpc = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")

pytestmark = pytest.mark.slow

NAME = "acme.swapped"
SECONDS = float(os.environ.get("SWAP_SECONDS", "20"))
ROW = np.zeros((1, 2), np.float32)


class Load:
    """Threads that ask until they are stopped; each answer must be that of the version that it names."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.failures: list[str] = []
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def ask(self, host: RunningHost, face: "Face") -> None:
        """Ask through one more client."""
        self._threads.append(threading.Thread(target=self._ask, args=(host, face)))
        self._threads[-1].start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def _ask(self, host: RunningHost, face: "Face") -> None:
        try:
            with face(host) as ask:
                while not self._over.is_set():
                    version, value = ask()
                    if value != version:
                        self.failures.append(f"{face.__name__}: version {version} answered {value}")
                    self.answers[face.__name__, version] += 1
        except Exception as error:
            self.failures.append(f"{face.__name__}: {error!r}")


Ask = Callable[[], tuple[int, float]]
"""Returns the version that answered, and its answer."""

Face = Callable[[RunningHost], AbstractContextManager[Ask]]


@contextmanager
def over_rest(host: RunningHost) -> Iterator[Ask]:
    with http.InferenceServerClient(host.url.removeprefix("http://")) as client:
        yield _asking(http, client, {"Authorization": f"Bearer {host.token}"})


@contextmanager
def over_grpc(host: RunningHost) -> Iterator[Ask]:
    with grpc.InferenceServerClient(f"127.0.0.1:{host.grpc_port}") as client:
        yield _asking(grpc, client, {"authorization": f"Bearer {host.token}"})


@contextmanager
def over_json(host: RunningHost) -> Iterator[Ask]:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0, 0]}]}
    with httpx.Client(base_url=host.url, headers={"Authorization": f"Bearer {host.token}"}) as client:

        def ask() -> tuple[int, float]:
            answer = client.post(f"/v2/models/{NAME}/infer", json=body).raise_for_status().json()
            return int(answer["model_version"]), answer["outputs"][0]["data"][0]

        yield ask


def _asking(library: Any, client: Any, headers: dict[str, str]) -> Ask:
    tensor = library.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(ROW)

    def ask() -> tuple[int, float]:
        answer = client.infer(NAME, [tensor], headers=headers)
        response = answer.get_response()
        version = response["model_version"] if isinstance(response, dict) else response.model_version
        return int(version), float(answer.as_numpy("y")[0, 0])

    return ask


def test_a_model_is_swapped_every_second_and_no_request_fails(start, publisher: Publisher) -> None:
    with start(SANDSEAL_GRPC_PORT="0") as host, host.client() as client:
        client.push(publisher.seal(adding(1), NAME, 1))
        load = Load()
        for face in (over_rest, over_grpc, over_json, over_rest):
            load.ask(host, face)
        began, swaps, newest = time.monotonic(), 0, 1
        try:
            while (time.monotonic() < began + SECONDS or swaps < 7) and not load.failures:
                swaps += 1
                if swaps % 3:
                    client.load(NAME, 1 + swaps % newest)  # versions that were there before, newer and older
                else:
                    newest += 1
                    client.push(publisher.seal(adding(newest), NAME, newest))
                assert client.ready()
                time.sleep(max(0.0, began + swaps - time.monotonic()))
        finally:
            load.stop()
        assert load.failures == []
        assert {face for face, _ in load.answers} == {"over_rest", "over_grpc", "over_json"}
        assert len({version for _, version in load.answers}) > 2
        assert [m["state"] for m in client.models() if m["name"] == NAME].count("READY") == 1
        print(f"\n{swaps} swaps in {time.monotonic() - began:.0f} s, {load.answers.total()} answers, none failed")
