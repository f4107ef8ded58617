"""Recordings of arrivals: what they hold, how many there are at once, and when they end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from api.test_control import as_
from api.test_infer import refused
from sandseal_host.api.control_recording import MAX_RECORDINGS
from sandseal_host.serving.recording import Recording

PATH = "/v1/models/mlp/recordings"


def test_times_classes_and_shapes(client):
    answer = client.post(PATH, params={"seconds": 0.01})
    assert answer.json() == {
        "schema": "sandseal.profile/1",
        "model": "mlp",
        "version": 1,
        "seconds": 0.01,
        "shapes": [[[1, 4]], [[2, 4]]],
        "arrivals": [[500_000, "standard", 0], [750_000, "batch", 1]],
    }


def test_refusals(client):
    for seconds in (0, 3601, "x"):
        refused(client.post(PATH, params={"seconds": seconds}), 400, "seconds")
    path = "/v1/models/{}/recordings?seconds=0.01"
    refused(client.post(path.format("nope")), 404, code="model_unknown")
    refused(client.post(path.format("mlp"), headers=as_("caller")), 403, code="not_permitted")
    refused(client.post(path.format("identity"), headers=as_("narrow")), 404, code="model_unknown")


class Caller:
    """Asks for a recording of an hour, and leaves when it is told to; `status` is what was sent back."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.status, self.headers = 0, {}

    async def receive(self) -> dict:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])

    async def ask(self, app) -> None:
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": PATH, "raw_path": PATH.encode(),
            "root_path": "", "scheme": "http", "query_string": b"seconds=3600", "server": ("host", 80),
            "client": ("127.0.0.1", 1), "headers": [(b"authorization", b"Bearer root")],
        }  # fmt: skip
        await app(scope, self.receive, self.send)


class Recorded:
    """Counts the recordings under way, in place of a model's own."""

    def __init__(self) -> None:
        self.running, self.full = 0, asyncio.Event()

    @contextmanager
    def __call__(self) -> Iterator[Recording]:
        self.running += 1
        if self.running == MAX_RECORDINGS:
            self.full.set()
        try:
            yield Recording(0.0)
        finally:
            self.running -= 1


def test_one_ends_when_its_client_leaves_and_more_than_a_few_are_refused(host):
    async def main() -> None:
        host.models.get("mlp").recorded = recorded = Recorded()
        callers = [Caller() for _ in range(MAX_RECORDINGS)]
        asking = [asyncio.create_task(caller.ask(host.app)) for caller in callers]
        await recorded.full.wait()
        late = Caller()
        await late.ask(host.app)
        assert late.status == 503
        assert 3500 < int(late.headers[b"retry-after"]) <= 3600
        callers[0].leaves.set()
        await asking[0]
        assert (callers[0].status, recorded.running) == (499, MAX_RECORDINGS - 1)
        again = Caller()
        again.leaves.set()
        await again.ask(host.app)
        assert again.status == 499
        for caller in callers:
            caller.leaves.set()
        await asyncio.gather(*asking)
        assert recorded.running == 0

    asyncio.run(asyncio.wait_for(main(), 30))
