"""What a signature says: an in-toto Statement that lists every file by name, size and SHA-256 (OMS v1.0)."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandseal_signing.digest import Digest
from sandseal_signing.errors import LimitExceeded, SigningError, StatementInvalid
from sandseal_signing.names import MANIFEST, SIGNATURES, check_names
from sandseal_signing.schema import Node, canonical_json, parse_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MAX_BYTES = 4 << 20
MAX_RESOURCES = 4096
IGNORED = (".git", ".gitattributes", ".github", ".gitignore", "model.sig", SIGNATURES)

_MEDIA_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".onnx": "application/vnd.onnx",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
}


def media_type(name: str) -> str:
    """The media type that a file's ending stands for."""
    return _MEDIA_TYPES.get(name[name.rfind(".") :], "application/octet-stream")


@dataclass(frozen=True, slots=True)
class Resource:
    """One signed file: name, SHA-256, size in bytes, media type."""

    name: str
    digest: Digest
    size: int
    media_type: str


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


_SERIALIZATION = {
    "method": "files",
    "hash_type": "sha256",
    "allow_symlinks": False,
    "ignore_paths": list(IGNORED),
}


def parse_statement(payload: bytes) -> Statement:
    """Read a payload whose signature was verified.

    Raises:
        LimitExceeded: over 4 MiB or 4,096 resources.
        JsonInvalid, StatementInvalid, NameInvalid: the place and the rule.
    """
    if len(payload) > MAX_BYTES:
        raise LimitExceeded(f"the statement has {len(payload)} bytes, over {MAX_BYTES}")
    root = Node(parse_json(payload, "statement"), "statement", StatementInvalid)
    for name, wanted in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        if root.take(name) != wanted:
            root.fail(name, f"must be {wanted!r}")
    subject, predicate = root.children("subject"), root.child("predicate")
    root.close()
    if len(subject) != 1:
        root.fail("subject", "must hold exactly one subject")
    _check_serialization(predicate.child("serialization"))
    resources = [_resource(node) for node in predicate.children("resources")]
    predicate.close()
    return Statement.of(subject[0].text("name"), resources)


def _check_serialization(node: Node) -> None:
    ignored = node.take("ignore_paths", [])
    if not isinstance(ignored, list) or not set(map(str, ignored)) <= set(IGNORED):
        node.fail("ignore_paths", f"may only name {', '.join(IGNORED)}")
    found: dict[str, Any] = {name: node.take(name) for name in ("method", "hash_type", "allow_symlinks")}
    if any(found[name] != _SERIALIZATION[name] for name in found):
        node.fail("", "must be method files, hash_type sha256, allow_symlinks false")
    node.close()


def _resource(node: Node) -> Resource:
    if node.take("algorithm") != "sha256":
        node.fail("algorithm", "must be 'sha256'")
    text = node.text("digest")
    try:
        digest = Digest(text)
    except SigningError as error:
        node.fail("digest", error.message)
    resource = Resource(
        name=node.text("name"),
        digest=digest,
        size=node.integer("size"),
        media_type=node.text("mediaType", valid=lambda value: len(value) <= 255),
    )
    node.close()
    return resource
