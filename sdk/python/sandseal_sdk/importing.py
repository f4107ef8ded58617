"""Models that others signed, taken in as bundle folders: verified first, then described by a manifest."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sandseal_sdk import publish
from sandseal_sdk.bundles.graph import summarise
from sandseal_sdk.errors import FileExists, ModelUnreadable
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import MAX_FILE_BYTES
from sandseal_signing.errors import FileMissing, ManifestInvalid
from sandseal_signing.folder import open_plain
from sandseal_signing.keys import PublicKey
from sandseal_signing.manifest import SCHEMA, render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.oms import SIGNATURE, OmsModel, copy_model, read_model_signature
from sandseal_signing.pack import Progress


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import wrote.

    Args:
        files: the names of the signed files, all of them verified and copied.
        left_out: what lay beside them, unsigned.
        remarks: what is odd about the signature.
        why_no_manifest: why no bundle.json was written; empty when the folder has one.
    """

    files: tuple[str, ...]
    left_out: tuple[str, ...]
    remarks: tuple[str, ...]
    why_no_manifest: str


def import_oms(
    folder: Path,
    key: PublicKey,
    out: Path,
    *,
    signature: Path | None = None,
    name: str | None = None,
    progress: Progress = lambda _: None,
) -> Imported:
    """Verify a model folder signed with OpenSSF Model Signing and write a bundle folder of its signed files.

    With one ONNX graph among them, `bundle.json` is written too; its metadata says whose signature was verified.

    Args:
        folder: the model as signed, its signature in `model.sig` unless `signature` says where.
        key: whose signature it must be.
        out: made here; nothing of it stays when this raises.
        name: the bundle's; made from the graph's file when absent.

    Raises:
        FileExists: `out` is already there.
        SigningError: the model is not what this key signed, or cannot be a bundle.
    """
    model = read_model_signature(_content(signature or folder / SIGNATURE), key)
    try:
        copied = copy_model(folder, model, out, progress)
    except FileExistsError:
        raise FileExists(f"{out} is already there", hint="give another --out, or move it away") from None
    why = "" if MANIFEST in copied.names else _describe(out, copied.names, name, model, key)
    return Imported(copied.names, copied.left_out, model.remarks, why)


def _content(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            return file.read(MAX_FILE_BYTES + 1)
    except FileMissing as error:
        error.hint = "give the signature's file with --signature"
        raise


def _describe(folder: Path, names: tuple[str, ...], name: str | None, model: OmsModel, key: PublicKey) -> str:
    """Write the manifest that `sandseal init` would; else say why there is none."""
    graphs = [file for file in names if file.endswith(".onnx")]
    if len(graphs) != 1:
        return f"the model has {len(graphs)} ONNX files, not one"
    path = folder / graphs[0]
    try:
        graph = summarise(path)
    except ModelUnreadable as error:
        return error.message
    inside = PurePosixPath(graphs[0]).parent
    external = [(inside / weights).as_posix() for weights in graph.external_data]
    if unsigned := sorted(set(external) - set(names)):
        return f"{graphs[0]} wants weights that nobody signed: {', '.join(unsigned)}"
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name or publish.name_of(path),
        "version": 1,
        "model": {"file": graphs[0], **graph.model, **({"external_data": external} if external else {})},
        "metadata": {"oms_key": key.fingerprint, "oms_statement": Digest.of(model.payload).hex},
    }
    try:
        (folder / MANIFEST).write_bytes(render_manifest(manifest))
    except ManifestInvalid as error:
        return error.message
    return ""
