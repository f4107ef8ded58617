"""What the end-to-end tests share: a folder with a model's bundles, and a host that trusts their key."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandseal_sdk import publish
from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import render_manifest
from sandseal_signing.pack import pack_folder
from support.hosts import RunningHost, running_host
from support.onnx_models import OnnxModel, mlp


@dataclass(frozen=True)
class Publisher:
    """Someone whom the host's trust policy lets publish models called `acme.*`."""

    folder: Path
    key: PrivateKey

    @property
    def trust(self) -> Path:
        """The policy."""
        return self.folder / "trust.toml"

    def seal(
        self,
        model: OnnxModel,
        name: str = "acme.mlp",
        version: int = 1,
        members: dict[str, object] | None = None,
        model_members: dict[str, object] | None = None,
        **options: object,
    ) -> Path:
        """A signed .seal file of this model; `members` are added to its bundle.json, and those of its `model`."""
        stem = f"{name}-{version}"
        onnx = self.folder / f"{stem}.onnx"
        onnx.write_bytes(model.data)
        bundle = publish.write_bundle(onnx, self.folder / stem, name=name, version=version, **options)
        manifest = json.loads((bundle / "bundle.json").read_bytes())
        manifest |= members or {}
        manifest["model"] |= model_members or {}
        (bundle / "bundle.json").write_bytes(render_manifest(manifest))
        seal = self.folder / f"{stem}.seal"
        with seal.open("wb") as file:
            pack_folder(bundle, file, [self.key])
        return seal


def _publisher(folder: Path) -> Publisher:
    folder.mkdir()
    publisher = Publisher(folder, PrivateKey.generate())
    publisher.trust.write_text(
        f"""schema = "sandseal.trust/1"
serial = 1
[keys.alice]
holder = "alice"
public = "{publisher.key.public.inline}"
[[rules]]
models = ["acme.*"]
keys = ["alice"]
imports = ["log"]
"""
    )
    return publisher


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return _publisher(tmp_path / "publisher")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    """A publisher whom all tests of a module share."""
    return _publisher(tmp_path_factory.mktemp("lasting") / "publisher")


@pytest.fixture
def start(publisher: Publisher, tmp_path: Path) -> Callable[..., "Iterator[RunningHost]"]:
    """Starts a host on the same data folder each time it is called."""

    def again(**settings: str):
        return running_host(publisher.trust, tmp_path / "data", settings)

    return again


@pytest.fixture
def host(start: Callable[..., "Iterator[RunningHost]"], publisher: Publisher) -> Iterator[RunningHost]:
    """A host that serves `acme.mlp` version 1."""
    with start() as running:
        with running.client() as client:
            client.push(publisher.seal(mlp()))
        yield running
