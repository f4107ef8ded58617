"""What a signature says: an in-toto Statement that lists every file by name, size and SHA-256 (OMS v1.0)."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sandseal_signing.digest import Digest, is_hex_digest
from sandseal_signing.errors import DigestMismatch, LimitExceeded, SizeMismatch, StatementInvalid
from sandseal_signing.names import MANIFEST, SIGNATURES, check_names
from sandseal_signing.schema import Node, canonical_json, parse_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MAX_BYTES = 4 << 20
MAX_RESOURCES = 4096
IGNORED = (".git", ".gitattributes", ".github", ".gitignore", "model.sig", SIGNATURES)

_SERIALIZATION: dict[str, Any] = {
    "method": "files",
    "hash_type": "sha256",
    "allow_symlinks": False,
    "ignore_paths": list(IGNORED),
}
_MEDIA_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".onnx": "application/vnd.onnx",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
}


def media_type(name: str) -> str:
    """The media type that a file's ending stands for."""
    return _MEDIA_TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")


@dataclass(frozen=True, slots=True)
class Resource:
    """One signed file: name, SHA-256, size in bytes, media type."""

    name: str
    digest: Digest
    size: int
    media_type: str

    def check(self, chunks: Iterable[memoryview]) -> Iterator[memoryview]:
        """Pass on this file's content while hashing it; after the last chunk comes the comparison.

        Raises:
            SizeMismatch: more or fewer bytes than were signed; reading stops at the first chunk too many.
            DigestMismatch: other bytes than were signed.
        """
        sha, size = hashlib.sha256(), 0
        for chunk in chunks:
            size += len(chunk)
            if size > self.size:
                break
            sha.update(chunk)
            yield chunk
        if size != self.size:
            count = f"more than {self.size}" if size > self.size else f"only {size}"
            raise SizeMismatch(f"{self.name!r} has {count} bytes, {self.size} were signed", name=self.name)
        if sha.hexdigest() != self.digest.hex:
            raise DigestMismatch(
                f"{self.name!r} has SHA-256 {sha.hexdigest()}, {self.digest} was signed", name=self.name
            )


@dataclass(frozen=True, slots=True)
class Statement:
    """The signed list of a bundle's files, in code-point order, `bundle.json` among them.

    Args:
        subject: the bundle's name as the publisher wrote it; informational, never trusted.
    """

    subject: str
    resources: tuple[Resource, ...]

    @classmethod
    def of(cls, subject: str, resources: Iterable[Resource]) -> "Statement":
        """A statement over `resources`, sorted and checked.

        Raises:
            NameInvalid: a name that a bundle may not hold.
            LimitExceeded: more than 4,096 files.
            StatementInvalid: no bundle.json.
        """
        ordered = tuple(sorted(resources, key=lambda resource: resource.name))
        if len(ordered) > MAX_RESOURCES:
            raise LimitExceeded(f"the bundle has {len(ordered)} files, over {MAX_RESOURCES}")
        check_names(resource.name for resource in ordered)
        statement = cls(subject, ordered)
        if MANIFEST not in statement.by_name:
            raise StatementInvalid(f"the bundle has no {MANIFEST}")
        return statement

    @property
    def by_name(self) -> dict[str, Resource]:
        """The resources by name."""
        return {resource.name: resource for resource in self.resources}

    @property
    def sizes(self) -> dict[str, int]:
        """The files' sizes in bytes by name."""
        return {resource.name: resource.size for resource in self.resources}

    @property
    def in_transfer_order(self) -> tuple[Resource, ...]:
        """The order of every wire form: bundle.json first, then the others in code-point order."""
        return (self.by_name[MANIFEST], *(r for r in self.resources if r.name != MANIFEST))

    def render(self) -> bytes:
        """The payload to sign, as RFC 8785 canonical JSON; its SHA-256 is the bundle id."""
        root = hashlib.sha256(b"".join(bytes.fromhex(r.digest.hex) for r in self.resources)).hexdigest()
        resources = [
            {
                "name": r.name,
                "algorithm": "sha256",
                "digest": r.digest.hex,
                "size": r.size,
                "mediaType": r.media_type,
            }
            for r in self.resources
        ]
        return canonical_json(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": self.subject, "digest": {"sha256": root}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": {"serialization": _SERIALIZATION, "resources": resources},
            }
        )


def parse_statement(payload: bytes) -> Statement:
    """Read a payload whose signature was verified; the order of its resources carries no meaning.

    Raises:
        LimitExceeded: over 4 MiB or 4,096 resources.
        JsonInvalid, StatementInvalid, NameInvalid: the place and the rule.
    """
    if len(payload) > MAX_BYTES:
        raise LimitExceeded(f"the statement has {len(payload)} bytes, over {MAX_BYTES}", size=len(payload))
    root = Node(parse_json(payload, "statement"), "statement", StatementInvalid)
    for name, wanted in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        root.text(name, valid=wanted.__eq__, rule=repr(wanted))
    subjects, predicate = root.children("subject"), root.child("predicate")
    root.close()
    if len(subjects) != 1:
        root.fail("subject", f"must hold exactly one subject, not {len(subjects)}")
    _check_serialization(predicate.child("serialization"))
    resources = [_resource(node) for node in predicate.children("resources")]
    predicate.close()
    return Statement.of(_subject(subjects[0]), resources)


def _subject(node: Node) -> str:
    """The subject's name; its digest leaves out the files' names, so nothing is derived from it."""
    name: str = node.text("name")
    node.child("digest")
    node.close()
    return name


def _check_serialization(node: Node) -> None:
    node.texts("ignore_paths", (), valid=IGNORED.__contains__, rule=f"some of {', '.join(IGNORED)}")
    for name in ("method", "hash_type", "allow_symlinks"):
        wanted, found = _SERIALIZATION[name], node.take(name)
        if type(found) is not type(wanted) or found != wanted:  # in Python, 0 == False
            node.fail(name, f"must be {canonical_json(wanted).decode()}")
    node.close()


def _resource(node: Node) -> Resource:
    node.text("algorithm", valid="sha256".__eq__, rule="'sha256'")
    resource = Resource(
        name=node.text("name"),
        digest=Digest(node.text("digest", valid=is_hex_digest, rule="64 lower-case hex digits")),
        size=node.integer("size"),
        media_type=node.text("mediaType", valid=lambda text: 0 < len(text) <= 255, rule="1 to 255 characters"),
    )
    node.close()
    return resource
