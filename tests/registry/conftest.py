"""A registry on a fresh data folder that trusts alice for acme.*."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandseal_signing.keys import PrivateKey
from support.bundles import trust
from support.data_folder import DataFolder


@pytest.fixture(scope="session")
def alice() -> PrivateKey:
    return PrivateKey.generate()


@pytest.fixture(scope="session")
def bob() -> PrivateKey:
    return PrivateKey.generate()


@pytest.fixture
def data(tmp_path: Path, alice: PrivateKey) -> Iterator[DataFolder]:
    data = DataFolder(tmp_path, trust({"alice": alice}))
    yield data
    data.stop()
