"""Every guest of the zoo ends in its exact error, and nothing else on the host is any the worse for it."""

import re
from collections.abc import Iterator

import pytest

from sandbox.animal import Animal
from sandbox.guests import floats, guest, stage_spec
from sandbox.worker_host import WorkerHost
from sandbox.zoo import ZOO
from sandseal_host.errors import ClientError, HostError
from sandseal_host.sandbox import Plugin, SandboxEngine

INPUT = floats(1, 2, 3)


@pytest.fixture(scope="module")
def neighbour(engine: SandboxEngine) -> Iterator[Plugin]:
    """A plugin of somebody else's on the same engine."""
    with engine.compile(guest(), stage_spec(), label="good") as plugin:
        yield plugin


def provoke(engine: SandboxEngine, animal: Animal) -> HostError:
    """The error that it ends in."""
    if not animal.loads:
        with pytest.raises(HostError) as refused:
            engine.compile(animal.module, animal.spec, label="bad")
        return refused.value
    with engine.compile(animal.module, animal.spec, label="bad") as plugin, pytest.raises(HostError) as caught:
        plugin.call([INPUT])
    statistics = plugin.statistics()
    refusing = isinstance(caught.value, ClientError)
    assert (statistics.calls, statistics.refused, statistics.failed) == (1, refusing, not refusing)
    return caught.value


def check(error: HostError, animal: Animal) -> None:
    assert type(error) is animal.error, error
    assert re.fullmatch(animal.message, error.message), error.message
    assert error.message.isprintable()
    assert error.hint
    assert error.data["plugin"] == "bad"
    assert animal.data.items() <= error.data.items()
    assert len(error.data.get("frames", ())) <= 16


@pytest.mark.parametrize("name", ZOO)
def test_a_guest(engine: SandboxEngine, neighbour: Plugin, name: str) -> None:
    check(provoke(engine, ZOO[name]), ZOO[name])
    assert neighbour.call([floats(1, 2)])[0].data.tolist() == [1, 2]


@pytest.mark.slow
def test_all_of_them_in_a_worker(engine: SandboxEngine, host: WorkerHost) -> None:
    """The same errors arrive from another process, which none of them ends."""
    restarts = host.workers.statistics().restarts
    for animal in filter(lambda animal: animal.loads, ZOO.values()):
        stage = host.stage(animal.module, animal.spec, label="bad")
        with pytest.raises(HostError) as caught:
            host.call(stage, INPUT)
        check(caught.value, animal)
        stage.close()
    assert host.workers.statistics().restarts == restarts
