"""Log entries: what happened, when, by whom and to what, as canonical JSON (sandseal.log/1).

A log lasts and is shown to auditors, so an entry has no place for a secret: its members are closed, and free text goes
through `sentence` first.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sandseal_signing.digest import Digest, is_hex_digest
from sandseal_signing.envelope import pae
from sandseal_signing.errors import KeyInvalid, LogEntryInvalid
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.names import MODEL_NAME_RULE, is_model_name
from sandseal_signing.schema import Node, canonical_json, parse_json

SCHEMA = "sandseal.log/1"
ROTATION_TYPE = "application/vnd.sandseal.key-rotation+json"
MAX_BYTES = 64 << 10
MAX_TEXT = 500  # characters

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{86}==\Z")
# A private key, an Authorization header, a token of the host.
_SECRET = re.compile(r"-----BEGIN.*|\bbearer\s+[\w.~+/=-]{16,}|\bsst_[\w-]{16,}", re.IGNORECASE | re.DOTALL)


class Kind(StrEnum):
    """What happened."""

    ACCEPT = "accept"
    REJECT = "reject"
    PENDING = "pending"
    LOAD = "load"
    UNLOAD = "unload"
    REVOKE = "revoke"
    POLICY = "policy"
    KEY_ROTATION = "key-rotation"


class Role(StrEnum):
    """What a host's key signs: checkpoints or receipts; it has one key for each."""

    LOG = "log"
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class Subject:
    """What it happened to; which members there are, the kind says.

    Args:
        bundle: its id, with its name and version as `bundle.json` has them.
        key: a publisher's, by fingerprint.
        blob: a file's digest.
        serial: of the policy that now holds, whose text has the digest `policy`.
        role: of the host's key `old`, whose place `new` takes.
    """

    bundle: Digest | None = None
    name: str | None = None
    version: int | None = None
    key: Digest | None = None
    blob: Digest | None = None
    serial: int | None = None
    policy: Digest | None = None
    role: Role | None = None
    old: PublicKey | None = None
    new: PublicKey | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """What else is to be known about it; any of these, with any kind.

    Args:
        code: of the error, when there was one.
        reason: a sentence made by `sentence`.
        serial: of the policy that was in force.
        rule: number of the rule that decided, from 0.
        threshold: how many holders the rule wants.
        holders: whose signatures counted.
        keys: the fingerprints of the keys that they signed with.
        permit: digest of the downgrade permit that was used up.
        device: where the model was loaded.
    """

    code: str | None = None
    reason: str | None = None
    serial: int | None = None
    rule: int | None = None
    threshold: int | None = None
    holders: tuple[str, ...] = ()
    keys: tuple[Digest, ...] = ()
    permit: Digest | None = None
    device: str | None = None


_A_BUNDLE = (frozenset({"bundle", "name", "version"}),)
_SUBJECTS: dict[Kind, tuple[frozenset[str], ...]] = {
    Kind.ACCEPT: _A_BUNDLE,
    Kind.PENDING: _A_BUNDLE,
    Kind.REJECT: (frozenset(), frozenset({"bundle"}), *_A_BUNDLE),  # as far as it could be read
    Kind.LOAD: _A_BUNDLE,
    Kind.UNLOAD: _A_BUNDLE,
    Kind.REVOKE: (frozenset({"key"}), frozenset({"bundle"}), frozenset({"blob"})),
    Kind.POLICY: (frozenset({"serial", "policy"}),),
    Kind.KEY_ROTATION: (frozenset({"role", "old", "new"}),),
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the log.

    Args:
        time: with zone; to the microsecond.
        actor: who did it, such as a token's name, never the token: 1 to 500 printable characters.
        signatures: by the old and the new key, of a key rotation only.
    """

    kind: Kind
    time: datetime
    actor: str
    subject: Subject = Subject()
    detail: Detail = Detail()
    signatures: tuple[bytes, ...] = ()

    @classmethod
    def rotation(
        cls, role: Role, old: PrivateKey, new: PrivateKey, time: datetime, actor: str, detail: Detail = Detail()
    ) -> "LogEntry":
        """The entry by which the host's key for `role` is replaced, signed by both keys."""
        entry = cls(Kind.KEY_ROTATION, time, actor, Subject(role=role, old=old.public, new=new.public), detail)
        return replace(entry, signatures=tuple(key.sign(entry._to_sign()) for key in (old, new)))

    def render(self) -> bytes:
        """The leaf's bytes, as RFC 8785 canonical JSON.

        Raises:
            LogEntryInvalid: `parse` would refuse them.
        """
        if self.time.tzinfo is None:
            raise LogEntryInvalid("time: has no zone")
        data = canonical_json(self._members())
        LogEntry.parse(data)
        return data

    @classmethod
    def parse(cls, data: bytes) -> "LogEntry":
        """Read a leaf; a key rotation's two signatures are verified.

        Raises:
            JsonInvalid: not strict JSON.
            LogEntryInvalid: not schema sandseal.log/1, or not in canonical form; the message names the member.
        """
        if len(data) > MAX_BYTES:
            raise LogEntryInvalid(f"the entry has {len(data)} bytes, over {MAX_BYTES}")
        root = Node(parse_json(data, "log entry"), "", LogEntryInvalid)
        root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
        kind = Kind(root.text("kind", valid=[*Kind].__contains__, rule=f"one of {', '.join(Kind)}"))
        entry = cls(
            kind=kind,
            time=read_time(root, "time"),
            actor=_text(root, "actor"),
            subject=_subject(root.child("subject"), kind),
            detail=_detail(root.child("detail")),
            signatures=_signatures(root) if kind is Kind.KEY_ROTATION else (),
        )
        root.close()
        if canonical_json(entry._members()) != data:
            root.fail("", "is not in canonical form")
        if not entry._is_signed():
            root.fail("signatures", "are not by the old and the new key over this entry")
        return entry

    def _members(self) -> dict[str, Any]:
        members = {
            "schema": SCHEMA,
            "kind": self.kind,
            "time": render_time(self.time),
            "actor": self.actor,
            "subject": _plain(self.subject),
            "detail": _plain(self.detail),
        }
        if self.signatures:
            members["signatures"] = [base64.b64encode(signature).decode() for signature in self.signatures]
        return members

    def _to_sign(self) -> bytes:
        return pae(ROTATION_TYPE, canonical_json(replace(self, signatures=())._members()))

    def _is_signed(self) -> bool:
        """Whether both keys of a rotation signed it: the old one says who comes, the new one that it is really held."""
        keys = [key for key in (self.subject.old, self.subject.new) if key]
        return all(key.verifies(by, self._to_sign()) for key, by in zip(keys, self.signatures, strict=True))


def sentence(text: str) -> str:
    """A text made fit for an entry: printable, at most 500 characters, without what looks like a key or a token."""
    shown = _SECRET.sub("[removed]", text)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)[:MAX_TEXT]


def render_time(moment: datetime) -> str:
    """A time with zone as logs and receipts write it: in UTC, with microseconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def read_time(node: Node, name: str) -> datetime:
    """The time that `render_time` wrote as member `name`."""
    text = node.text(name, valid=_TIME.match, rule="a time such as '2027-12-31T00:00:00.000000Z'")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        node.fail(name, f"{text!r} is not a time that exists")


def read_digest(node: Node, name: str) -> Digest:
    """The digest that stands as member `name`."""
    return Digest(node.text(name, valid=is_hex_digest, rule="64 lower-case hex digits"))


def _subject(node: Node, kind: Kind) -> Subject:
    names = frozenset(node.rest())
    if names not in _SUBJECTS[kind]:
        allowed = " or ".join(f"[{', '.join(sorted(some))}]" for some in _SUBJECTS[kind])
        node.fail("", f"of {kind!r} must have the members {allowed}, not [{', '.join(sorted(names))[:200]}]")
    subject = Subject(**{name: _READ[name](node, name) for name in names})
    if subject.old and subject.old == subject.new:
        node.fail("new", "is the old key")
    return subject


def _detail(node: Node) -> Detail:
    names = [field.name for field in fields(Detail) if node.has(field.name)]
    detail = Detail(**{name: _READ[name](node, name) for name in names})
    node.close()
    return detail


def _signatures(node: Node) -> tuple[bytes, ...]:
    texts = node.texts("signatures", valid=_BASE64.match, rule="Ed25519 signatures in base64", least=2)
    if len(texts) > 2:
        node.fail("signatures", "must be two, by the old and by the new key")
    return tuple(map(base64.b64decode, texts))


def _text(node: Node, name: str) -> str:
    text: str = node.text(name, valid=_is_fit, rule=f"1 to {MAX_TEXT} printable characters without key or token")
    return text


def _texts(node: Node, name: str) -> tuple[str, ...]:
    texts: tuple[str, ...] = node.texts(name, valid=_is_fit, rule="printable texts without key or token")
    return texts


def _is_fit(text: str) -> bool:
    return bool(text) and sentence(text) == text


def _digests(node: Node, name: str) -> tuple[Digest, ...]:
    return tuple(map(Digest, node.texts(name, valid=is_hex_digest, rule="digests of 64 lower-case hex digits")))


def _public_key(node: Node, name: str) -> PublicKey:
    text = node.text(name, valid=lambda text: text.startswith("ed25519:"), rule="ed25519:<base64 of 32 bytes>")
    try:
        return PublicKey.parse(text)
    except KeyInvalid as error:
        node.fail(name, error.message)


_READ: dict[str, Callable[[Node, str], Any]] = {
    "bundle": read_digest,
    "name": lambda node, name: node.text(name, valid=is_model_name, rule=MODEL_NAME_RULE),
    "version": lambda node, name: node.integer(name, low=1),
    "key": read_digest,
    "blob": read_digest,
    "serial": lambda node, name: node.integer(name, low=1),
    "policy": read_digest,
    "role": lambda node, name: Role(node.text(name, valid=[*Role].__contains__, rule="log or receipt")),
    "old": _public_key,
    "new": _public_key,
    "code": lambda node, name: node.text(name, valid=_CODE.match, rule="the code of an error"),
    "reason": _text,
    "rule": lambda node, name: node.integer(name),
    "threshold": lambda node, name: node.integer(name, low=1),
    "holders": _texts,
    "keys": _digests,
    "permit": read_digest,
    "device": _text,
}


def _plain(part: Subject | Detail) -> dict[str, Any]:
    """The members that are set, as JSON has them."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {name: _json(value) for name, value in values.items() if value not in (None, ())}


def _json(value: Any) -> Any:
    match value:
        case Digest():
            return value.hex
        case PublicKey():
            return value.inline
        case tuple():
            return [_json(item) for item in value]
    return value
