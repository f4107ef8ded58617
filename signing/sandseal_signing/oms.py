"""Model folders that others signed with OpenSSF Model Signing (OMS v1.0), read for import and never served as they are.

More is taken than of our own bundles: older media types, statements without sizes, digests in upper case, any order.
Less than the stock tool takes: one key that the caller names decides, PAE is the DSSE one and no other, names and JSON
are as strict as ours, nothing is a link, and only signed files are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandseal_signing.digest import Digest, is_hex_digest, read_chunks
from sandseal_signing.envelope import MAX_FILE_BYTES, MEDIA_TYPE, PAYLOAD_TYPE, Envelope, read_base64
from sandseal_signing.errors import (
    EnvelopeInvalid,
    FileUnexpected,
    LimitExceeded,
    NameInvalid,
    SignatureInvalid,
    SignerUnknown,
    StatementInvalid,
)
from sandseal_signing.folder import list_files, open_plain
from sandseal_signing.keys import PublicKey
from sandseal_signing.names import check_names
from sandseal_signing.pack import Progress
from sandseal_signing.schema import Node, parse_json
from sandseal_signing.statement import (
    MAX_BYTES,
    MAX_RESOURCES,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Resource,
    media_type,
)
from sandseal_signing.unpack import new_folder, write_new

SIGNATURE = "model.sig"
ONE_FILE = "."
"""The name that a model of a single file has in its own statement."""

_MEDIA_TYPES = (
    MEDIA_TYPE,
    *(f"application/vnd.dev.sigstore.bundle+json;version={version}" for version in ("0.1", "0.2", "0.3")),
)
_ALWAYS_IGNORED = (".git", ".gitattributes", ".github", ".gitignore")


@dataclass(frozen=True, slots=True)
class OmsModel:
    """What a foreign signature says; its files are not looked at yet.

    Args:
        payload: the statement as signed.
        files: SHA-256 by name; one file called `.` for a model of a single file.
        ignored: paths that the signature says it leaves out; None when it says nothing about that, as before v1.1.
        remarks: what is odd about it, one sentence each.
    """

    payload: bytes
    files: Mapping[str, Digest]
    ignored: tuple[str, ...] | None
    remarks: tuple[str, ...]

    def leaves_out(self, name: str) -> bool:
        """Whether the signature says that it does not cover this path."""
        paths = (*(self.ignored or ()), *_ALWAYS_IGNORED)
        return any(name == path or name.startswith(f"{path}/") for path in paths)


@dataclass(frozen=True, slots=True)
class Copied:
    """What `copy_model` wrote, and what it left where it was because nobody signed it."""

    names: tuple[str, ...]
    left_out: tuple[str, ...]


def read_model_signature(data: bytes, key: PublicKey) -> OmsModel:
    """Verify a foreign signature file in key or certificate mode.

    Of certificates nothing is looked at: the caller names the key, and no chain or date makes another one right.

    Args:
        data: the file, `model.sig` as a rule.
        key: whose signature it must be.

    Raises:
        SignerUnknown, SignatureInvalid: another key signed, or other bytes were signed.
        LimitExceeded, JsonInvalid, EnvelopeInvalid, StatementInvalid, NameInvalid: malformed, or of a kind that
            cannot be imported.
    """
    envelope, remarks = _envelope(data, key)
    if not envelope.verifies(key):
        raise SignatureInvalid(f"{SIGNATURE} is not this {key.algorithm} key's signature", key=key.fingerprint)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise StatementInvalid(f"the payload type is {envelope.payload_type[:80]!r}, not {PAYLOAD_TYPE!r}")
    return _model(envelope.payload, remarks)


def copy_model(folder: Path, model: OmsModel, out: Path, progress: Progress = lambda _: None) -> Copied:
    """Copy the signed files into a new folder, hashing what is copied.

    Args:
        folder: the model as signed.
        out: made here; removed again when this raises.

    Raises:
        FileExistsError: `out` is already there.
        FileMissing, FileUnexpected, DigestMismatch: the folder is not what was signed, with the names.
    """
    present = list_files(folder, lambda name: name == SIGNATURE or model.leaves_out(name))
    files = _named(model.files, present)
    left_out = tuple(sorted(set(present) - files.keys()))
    if left_out and model.ignored is not None:
        raise FileUnexpected(
            f"in the folder but not signed: {', '.join(map(repr, left_out[:10]))}",
            hint="the signature says what it leaves out, and this is not among it: take the model from its publisher",
            names=list(left_out),
        )
    with new_folder(out):
        for name, digest in files.items():
            with open_plain(folder / name) as file:
                size = file.seek(0, 2)
                file.seek(0)
                resource = Resource(name, digest, size, media_type(name))
                write_new(out / name, resource.check(read_chunks(file)))
            progress(size)
    return Copied(tuple(files), left_out)


def _named(files: Mapping[str, Digest], present: list[str]) -> dict[str, Digest]:
    """The signed files by the names that they have in the folder."""
    if ONE_FILE not in files:
        return dict(files)
    if len(present) != 1:
        raise FileUnexpected(
            f"the signature is over a single file, and beside it the folder has {len(present)} files",
            hint="put that file and its signature into a folder of their own",
            names=present,
        )
    check_names(present)
    return {present[0]: files[ONE_FILE]}


def _envelope(data: bytes, key: PublicKey) -> tuple[Envelope, list[str]]:
    if len(data) > MAX_FILE_BYTES:
        raise LimitExceeded(f"{SIGNATURE} has {len(data)} bytes, over {MAX_FILE_BYTES}", size=len(data))
    root = Node(parse_json(data, SIGNATURE), SIGNATURE, EnvelopeInvalid)
    kind = root.text("mediaType", valid=_MEDIA_TYPES.__contains__, rule=f"one of {', '.join(_MEDIA_TYPES)}")
    remarks = [] if kind == MEDIA_TYPE else [f"its media type is an old one, {kind}"]
    remarks += _material(root.child("verificationMaterial"), key)
    dsse = root.child("dsseEnvelope")
    root.close()
    signatures = dsse.children("signatures")
    if len(signatures) != 1:
        dsse.fail("signatures", f"must hold exactly one signature, not {len(signatures)}")
    return Envelope(
        read_base64(dsse, "payload"), dsse.text("payloadType"), read_base64(signatures[0], "sig"), key.hint
    ), remarks


def _material(material: Node, key: PublicKey) -> list[str]:
    """Check that the signature does not claim to be by another key; what to remark about it."""
    if material.has("x509CertificateChain"):
        return ["it carries certificates, of which nothing was checked but that the given key signed"]
    if not material.has("publicKey"):
        material.fail("publicKey", "is missing; keyless (Sigstore) signatures cannot be imported")
    hint = material.child("publicKey").text("hint", "", valid=lambda _: True)
    if hint and hint != key.hint:
        raise SignerUnknown(
            f"{SIGNATURE} is by the key with the hint {hint[:80]!r}, not {key.hint!r}",
            hint="give the public key of whoever signed the model",
        )
    return []


def _model(payload: bytes, remarks: list[str]) -> OmsModel:
    if len(payload) > MAX_BYTES:
        raise LimitExceeded(f"the statement has {len(payload)} bytes, over {MAX_BYTES}", size=len(payload))
    root = Node(parse_json(payload, "statement"), "statement", StatementInvalid)
    for name, wanted in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        root.text(name, valid=wanted.__eq__, rule=repr(wanted))
    root.children("subject")  # its name is for people, its digest covers no names
    predicate = root.child("predicate")
    root.close()
    ignored = _ignored(predicate.child("serialization"))
    listed = predicate.children("resources")
    predicate.close()
    if not listed:
        raise StatementInvalid("the statement lists no files")
    if len(listed) > MAX_RESOURCES:
        raise LimitExceeded(f"the statement lists {len(listed)} files, over {MAX_RESOURCES}")
    resources = [_resource(node) for node in listed]
    names = [name for name, _ in resources]
    if names != [ONE_FILE]:
        _check_names(names)
    if names != sorted(names):
        remarks.append("its files are not in code-point order")
    if ignored is None:
        remarks.append("it does not say which files it leaves out, so unsigned ones were let lie and not taken")
    return OmsModel(payload, dict(resources), ignored, tuple(remarks))


def _ignored(serialization: Node) -> tuple[str, ...] | None:
    """The paths left out; of how the files were hashed, only the one way is taken that a bundle can keep."""
    for name, wanted in (("method", "files"), ("hash_type", "sha256")):
        serialization.text(name, valid=wanted.__eq__, rule=f"{wanted!r}, the only one that can be imported")
    ignored: tuple[str, ...] | None = serialization.texts("ignore_paths", None, rule="paths")
    return ignored


def _resource(node: Node) -> tuple[str, Digest]:
    node.text("algorithm", valid="sha256".__eq__, rule="'sha256'")
    name: str = node.text("name")
    digest = node.text("digest", valid=lambda text: is_hex_digest(text.lower()), rule="64 hex digits")
    return name, Digest(digest.lower())


def _check_names(names: list[str]) -> None:
    try:
        check_names(names)
    except NameInvalid as error:
        error.hint = "a bundle cannot hold this name: ask the publisher for a model without it"
        raise
