"""Checkpoints: a log's signed word for its size and root (C2SP tlog-checkpoint)."""

import re
from dataclasses import dataclass

from sandseal_signing.errors import CheckpointInvalid, ProofInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.merkle import EMPTY_HEAD, MAX_SIZE, TreeHead, decode_hash, encode_hash
from sandseal_signing.note import Note, VerifierKey

_SIZE = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's state.

    Args:
        origin: the log's name, which is also the name of its key.
        head: how many entries it has, and the root over them.
        extensions: further lines; this package writes none, since no auditor can check them.
    """

    origin: str
    head: TreeHead
    extensions: tuple[str, ...] = ()

    def render(self) -> str:
        """The note's text."""
        lines = (self.origin, str(self.head.size), encode_hash(self.head.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """Read a note's text.

        Raises:
            CheckpointInvalid: fewer than three lines, an empty one, or not a size and a root in their one form.
        """
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() or not all(lines):
            raise CheckpointInvalid("the checkpoint is not three or more full lines, each with its newline")
        origin, size, root, *extensions = lines
        return cls(origin, _head(size, root), tuple(extensions))

    def sign(self, *keys: PrivateKey) -> bytes:
        """The signed note; with the old and the new key where the one replaces the other.

        Raises:
            KeyInvalid: the origin cannot name a key, or a key is not Ed25519.
        """
        note = Note(self.render())
        for key in keys:
            note = note.sign(self.origin, key)
        return note.render()


def open_checkpoint(data: bytes, key: VerifierKey) -> Checkpoint:
    """Verify a signed checkpoint of the log that `key` belongs to.

    Raises:
        NoteInvalid: not a signed note, or not signed by the key.
        CheckpointInvalid: its text is not a checkpoint, or one of another log.
    """
    checkpoint = Checkpoint.parse(Note.parse(data).verify(key))
    if checkpoint.origin != key.name:
        raise CheckpointInvalid(f"the checkpoint is of log {checkpoint.origin[:200]!r}, not of {key.name!r}")
    return checkpoint


def _head(size: str, root: str) -> TreeHead:
    if not _SIZE.match(size) or int(size) > MAX_SIZE:
        raise CheckpointInvalid(f"the checkpoint's size {size[:40]!r} is not a number below 2^53 in plain digits")
    try:
        head = TreeHead(int(size), decode_hash(root))
    except ProofInvalid as error:
        raise CheckpointInvalid(f"the checkpoint's root: {error.message}") from None
    if head.size == 0 and head != EMPTY_HEAD:
        raise CheckpointInvalid("the checkpoint is of an empty log, but its root is not that of an empty tree")
    return head
