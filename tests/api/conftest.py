from collections.abc import Iterator

import pytest

from api.double import HostDouble, ModelsDouble, identity, mlp, pair
from api.web import Web
from sandseal_host.api.settings import ApiSettings
from sandseal_host.observe.observers import Observers
from sandseal_host.settings import Settings


def standard_host(settings: ApiSettings | None = None, observers: Observers | None = None) -> HostDouble:
    """A host with a model of every kind."""
    models = [
        identity("identity", "FP32", "batch", 16),
        identity("versions", "FP32", "batch", 16),
        identity("versions", "FP32", "batch", 16, version=3),
        identity("fixed", "FP32", 2, 3),
        identity("flags", "BOOL", "batch", 4),
        identity("bytes8", "UINT8", "batch", "n"),
        identity("wide", "INT64", "batch", "n"),
        identity("half", "FP16", "batch", 4),
        identity("brain", "BF16", "batch", 4),
        identity("text", "BYTES", "batch", "n"),
        identity("image", "BYTES", "batch", raw=("image/*", "application/pdf")),
        pair(),
        mlp(),
    ]
    return HostDouble(ModelsDouble(*models), settings or ApiSettings(), observers or Observers(Settings()))


@pytest.fixture
def host() -> HostDouble:
    return standard_host()


@pytest.fixture
def client(host: HostDouble) -> Iterator[Web]:
    with Web(host.app, "root") as client:
        yield client


# Making the application takes 20 ms; tests that change nothing about the host share one per module.


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[HostDouble, Web]]:
    host = standard_host()
    with Web(host.app, "root") as client:
        yield host, client
