"""Importing what released versions of the stock tool signed; the hostile side of it is in tests/vectors."""

from pathlib import Path

import pytest

from sandseal_signing.errors import DigestMismatch, FileUnexpected, SignatureInvalid, SignerUnknown
from sandseal_signing.keys import PublicKey
from sandseal_signing.oms import copy_model, read_model_signature
from support.keys import p384_key
from support.shared import vectors


@pytest.fixture(scope="module")
def key() -> PublicKey:
    text = vectors("oms/signed-models/keys/signing-key-pub.pem").read_text()
    return PublicKey.parse(text[text.index("-----BEGIN PUBLIC KEY") :])


@pytest.mark.parametrize(
    ("version", "names", "left_out"),
    [
        ("v0.3.1-elliptic-key", ("signme-1",), ()),
        ("v1.0.0-elliptic-key", ("signme-1",), ()),
        ("v1.0.1-elliptic-key", ("signme-1", "signme-2"), ("ignore-me",)),
        ("v1.1.0-elliptic-key", ("signme-1", "signme-2"), ()),
        ("v1.1.0-certificate", ("signme-1", "signme-2"), ()),
    ],
)
def test_published_models(
    version: str, names: tuple[str, ...], left_out: tuple[str, ...], key: PublicKey, tmp_path: Path
) -> None:
    folder = vectors(f"oms/signed-models/{version}")
    model = read_model_signature((folder / "model.sig").read_bytes(), key)
    copied = copy_model(folder, model, tmp_path / "out")
    assert copied.names == names
    assert copied.left_out == left_out
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        name: (folder / name).read_bytes() for name in names
    }
    assert (model.ignored is None) is (version < "v1.1")
    assert any("certificates" in remark for remark in model.remarks) is version.endswith("certificate")


@pytest.mark.parametrize("version", ["v1.0.0-elliptic-key", "v1.1.0-elliptic-key"])
def test_another_key_did_not_sign(version: str) -> None:
    data = (vectors(f"oms/signed-models/{version}") / "model.sig").read_bytes()
    with pytest.raises((SignerUnknown, SignatureInvalid)):
        read_model_signature(data, p384_key("other").public)


def test_a_model_of_one_file_is_told_from_a_folder(key: PublicKey, tmp_path: Path) -> None:
    data = (vectors("oms/signed-models/v1.0.0-elliptic-key") / "model.sig").read_bytes()
    model, folder = read_model_signature(data, key), tmp_path / "model"
    folder.mkdir()
    (folder / "any name is right.bin").write_bytes(b"")
    (folder / "two").write_bytes(b"")
    with pytest.raises(FileUnexpected, match="beside it the folder has 2 files"):
        copy_model(folder, model, tmp_path / "out")
    (folder / "any name is right.bin").unlink()
    with pytest.raises(DigestMismatch):
        copy_model(folder, model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
