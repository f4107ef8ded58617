"""A foreign model folder becomes a bundle folder that can be packed; the stock tool itself is in tests/e2e."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import FileExists
from sandseal_sdk.importing import import_oms
from sandseal_signing.envelope import MEDIA_TYPE, PAYLOAD_TYPE, pae
from sandseal_signing.errors import FileMissing, KeyInvalid
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.pack import pack_folder
from sandseal_signing.statement import PREDICATE_TYPE, STATEMENT_TYPE
from support.keys import p256_key
from support.onnx_models import mlp
from support.shared import vectors

KEY = p256_key("foreign")


def sign(folder: Path) -> None:
    """Sign every file of a folder as the stock tool does."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    resources = [
        {"name": n, "algorithm": "sha256", "digest": hashlib.sha256((folder / n).read_bytes()).hexdigest()}
        for n in names
    ]
    payload = json.dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "m", "digest": {"sha256": "0" * 64}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "resources": resources,
                "serialization": {"method": "files", "hash_type": "sha256", "ignore_paths": ["model.sig"]},
            },
        }
    ).encode()
    signature = base64.b64encode(KEY.sign(pae(PAYLOAD_TYPE, payload))).decode()
    dsse = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"sig": signature}],
    }
    material = {"publicKey": {"hint": KEY.public.hint}, "tlogEntries": []}
    document = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": dsse}
    (folder / "model.sig").write_text(json.dumps(document))


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "net.onnx").write_bytes(mlp().data)
    (folder / "README.md").write_text("# A model\n")
    return folder


def test_a_model_with_a_graph_becomes_a_bundle(theirs: Path, tmp_path: Path) -> None:
    sign(theirs)
    out = tmp_path / "ours"
    imported = import_oms(theirs, KEY.public, out, name="acme.net")
    assert imported.files == ("README.md", "onnx/net.onnx")
    assert imported.why_no_manifest == ""
    manifest = parse_manifest((out / "bundle.json").read_bytes())
    assert (manifest.name, manifest.version, manifest.model.file) == ("acme.net", 1, "onnx/net.onnx")
    assert manifest.metadata["oms_key"] == KEY.public.fingerprint
    with (tmp_path / "x.seal").open("wb") as file:
        assert pack_folder(out, file).manifest == manifest


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"onnx/net.onnx": None}, "has 0 ONNX files"),
        ({"two.onnx": b""}, "has 2 ONNX files"),
        ({"onnx/net.onnx": b"\xff"}, "cannot be read as ONNX"),
    ],
)
def test_without_one_graph_there_is_no_manifest(
    theirs: Path, tmp_path: Path, files: dict[str, bytes | None], why: str
) -> None:
    for name, data in files.items():
        (theirs / name).unlink() if data is None else (theirs / name).write_bytes(data)
    sign(theirs)
    imported = import_oms(theirs, KEY.public, tmp_path / "ours")
    assert why in imported.why_no_manifest
    assert not (tmp_path / "ours" / "bundle.json").exists()
    assert (tmp_path / "ours" / "README.md").exists()


def test_the_command(theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sign(theirs)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "their.pub").write_text(KEY.public.pem)
    done = CliRunner().invoke(build_app(), ("import", "oms", "theirs", "--key", "their.pub", "-o", "ours"))
    assert done.exit_code == 0
    assert "ours  2 files verified" in done.stdout
    assert "sandseal pack ours --key KEY" in done.stdout


def test_nothing_is_written_over(theirs: Path, tmp_path: Path) -> None:
    sign(theirs)
    with pytest.raises(FileExists):
        import_oms(theirs, KEY.public, theirs)
    (theirs / "model.sig").rename(tmp_path / "their.sig")
    with pytest.raises(FileMissing, match=r"model\.sig"):
        import_oms(theirs, KEY.public, tmp_path / "ours")
    assert import_oms(theirs, KEY.public, tmp_path / "ours", signature=tmp_path / "their.sig").files


def test_public_keys_are_read_with_text_around_them(tmp_path: Path) -> None:
    key = read_public_key(vectors("oms/signed-models/keys/signing-key-pub.pem"))
    assert key.algorithm == "ecdsa-p384"
    (tmp_path / "one-line").write_text(p256_key("x").public.inline)
    assert read_public_key(tmp_path / "one-line") == p256_key("x").public
    with pytest.raises(KeyInvalid):
        read_public_key(tmp_path)
