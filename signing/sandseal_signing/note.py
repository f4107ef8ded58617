"""Signed notes: a text under the Ed25519 signatures of named keys (C2SP signed-note)."""

import base64
import hashlib
import re
from dataclasses import dataclass, replace

from sandseal_signing.errors import KeyInvalid, NoteInvalid
from sandseal_signing.keys import PrivateKey, PublicKey

MAX_BYTES = 256 << 10
MAX_SIGNATURES = 32  # readers must take 16; what cosigners add is for others

_ED25519 = b"\x01"  # the signature type
_KEY_ID_BYTES = 4
_NAME = re.compile(r"[^\s+\x00-\x1f]+\Z")
_NO_TEXT = re.compile(r"[\x00-\x09\x0b-\x1f]")
_LINE = re.compile(r"\u2014 ([^ ]+) ([A-Za-z0-9+/]+={0,2})\Z")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under the name that its signatures carry; written `name+<key id in hex>+<base64 of type and key>`.

    Args:
        name: without spaces and '+'; of a log, its origin.

    Raises:
        KeyInvalid: not such a name, or not an Ed25519 key.
    """

    name: str
    public: PublicKey

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise KeyInvalid(f"{self.name[:80]!r} cannot name a key", hint="write it without spaces and '+'")
        if self.public.algorithm != "ed25519":
            raise KeyInvalid(f"notes are signed with Ed25519, not {self.public.algorithm}")

    @property
    def id(self) -> bytes:
        """The four bytes that tell this key from others of its name."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._typed).digest()[:_KEY_ID_BYTES]

    @property
    def _typed(self) -> bytes:
        return _ED25519 + self.public.der[-32:]  # RFC 8410: the raw key ends the SubjectPublicKeyInfo

    def render(self) -> str:
        """The text that `parse` reads."""
        return f"{self.name}+{self.id.hex()}+{_encode(self._typed)}"

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Read a verifier key.

        Raises:
            KeyInvalid: not in its one form, a key of another kind, or with the id of another key.
            KeyUnsafe: a signature under this key proves nothing.
        """
        name, _, rest = text.partition("+")
        typed = _decode(rest.partition("+")[2])
        if typed[:1] == _ED25519:
            key = cls(name, PublicKey.parse(f"ed25519:{_encode(typed[1:])}"))
            if key.render() == text:
                return key
        raise KeyInvalid(
            f"{text[:200]!r} is not a verifier key of type Ed25519",
            hint="copy it whole: NAME+<8 hex digits of its id>+<base64>",
        )


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: whose it says it is, by name and key id, and the signature."""

    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A text, its final newline included, and the signatures over its UTF-8 bytes.

    Raises:
        NoteInvalid: no final newline, or a control character other than newline.
    """

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.endswith("\n") or _NO_TEXT.search(self.text):
            raise NoteInvalid("the note's text does not end in a newline, or holds another control character")

    def sign(self, name: str, key: PrivateKey) -> "Note":
        """The note with one more signature.

        Raises:
            KeyInvalid: not a name for a key, or not an Ed25519 key.
        """
        line = NoteSignature(name, VerifierKey(name, key.public).id, key.sign(self.text.encode()))
        return replace(self, signatures=(*self.signatures, line))

    def verify(self, key: VerifierKey) -> str:
        """The text, if it is signed by `key`; what other keys signed does not count.

        Raises:
            NoteInvalid: no signature is by this key, or one that says it is does not verify.
        """
        lines = [line for line in self.signatures if (line.name, line.key_id) == (key.name, key.id)]
        if not lines:
            others = ", ".join(f"{line.name} {line.key_id.hex()}" for line in self.signatures)[:200] or "nobody"
            raise NoteInvalid(f"the note is not signed by {key.name} {key.id.hex()}, but by {others}")
        if not all(key.public.verifies(line.signature, self.text.encode()) for line in lines):
            raise NoteInvalid(f"a signature by {key.name} {key.id.hex()} does not verify over the note's text")
        return self.text

    def render(self) -> bytes:
        """The note's bytes."""
        lines = (f"\u2014 {line.name} {_encode(line.key_id + line.signature)}\n" for line in self.signatures)
        return f"{self.text}\n{''.join(lines)}".encode()

    @classmethod
    def parse(cls, data: bytes) -> "Note":
        """Read a signed note; nothing of it is verified yet.

        Raises:
            NoteInvalid: over 256 KiB or 32 signatures, not UTF-8, no signature, a malformed line.
        """
        if len(data) > MAX_BYTES:
            raise NoteInvalid(f"the note has {len(data)} bytes, over {MAX_BYTES}")
        try:
            text, blank, lines = data.decode("utf-8").rpartition("\n\n")
        except UnicodeDecodeError as error:
            raise NoteInvalid(f"the note is not UTF-8 ({error})") from None
        if not blank or not lines.endswith("\n"):
            raise NoteInvalid("the note is not a text, an empty line and signature lines, each with its newline")
        signatures = lines.removesuffix("\n").split("\n")
        if len(signatures) > MAX_SIGNATURES:
            raise NoteInvalid(f"the note has {len(signatures)} signatures, over {MAX_SIGNATURES}")
        return cls(text + "\n", tuple(map(_signature, signatures)))


def _signature(line: str) -> NoteSignature:
    found = _LINE.match(line)
    blob = _decode(found[2]) if found and _NAME.match(found[1]) else b""
    if found is None or len(blob) <= _KEY_ID_BYTES:
        raise NoteInvalid(f"{line[:200]!r} is not a signature line: em dash, space, name, space, base64")
    return NoteSignature(found[1], blob[:_KEY_ID_BYTES], blob[_KEY_ID_BYTES:])


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    """The bytes of a text in its one base64 form; empty when it is not."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return data if _encode(data) == text else b""
