import sys
from collections.abc import Iterator

import pytest

from sandbox.worker_host import WorkerHost
from sandseal_host.sandbox import SandboxEngine


@pytest.fixture(scope="session")
def engine() -> Iterator[SandboxEngine]:
    with SandboxEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def host(engine: SandboxEngine) -> Iterator[WorkerHost]:
    """Two sandbox workers, for tests that leave them as they are."""
    if sys.platform != "linux":
        pytest.skip("sandbox workers need Linux")
    with WorkerHost(engine) as host:
        yield host
