from collections.abc import Iterator

import pytest

from sandseal_host.sandbox import SandboxEngine


@pytest.fixture(scope="session")
def engine() -> Iterator[SandboxEngine]:
    with SandboxEngine() as engine:
        yield engine
