"""The proof that an entry is in a log, whole in one text file (C2SP tlog-proof)."""

import re
from dataclasses import dataclass

from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
from sandseal_signing.errors import ProofInvalid
from sandseal_signing.merkle import decode_hash, encode_hash, leaf_hash, verify_inclusion
from sandseal_signing.note import VerifierKey

FORM = "c2sp.org/tlog-proof@v1"

_TOP = re.compile(rb"c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]{0,15})\n((?:[A-Za-z0-9+/=]{44}\n){0,53})\n")


@dataclass(frozen=True, slots=True)
class LogProof:
    """Where an entry stands in a log, and why.

    Args:
        index: the entry's number, from 0.
        hashes: the inclusion proof, from the leaf's sibling up.
        checkpoint: the signed note, verbatim.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes

    def render(self) -> bytes:
        """The proof as text; by convention in a file whose name ends in `.tlog-proof`."""
        lines = (FORM, f"index {self.index}", *map(encode_hash, self.hashes))
        return "".join(f"{line}\n" for line in lines).encode() + b"\n" + self.checkpoint

    @classmethod
    def parse(cls, data: bytes) -> "LogProof":
        """Read a proof; nothing of it is verified yet.

        Raises:
            ProofInvalid: not this form. An `extra` line, which nothing authenticates, is not read either.
        """
        found = _TOP.match(data)
        if not found:
            raise ProofInvalid(f"this is not a proof of form {FORM}")
        hashes = map(decode_hash, found[2].decode().split())
        return cls(int(found[1]), tuple(hashes), data[found.end() :])

    def verify(self, entry: bytes, key: VerifierKey) -> Checkpoint:
        """The checkpoint of the log that `key` belongs to, in which the entry stands at `index`.

        Raises:
            NoteInvalid, CheckpointInvalid: see `open_checkpoint`.
            ProofInvalid: the entry is not there.
        """
        checkpoint = open_checkpoint(self.checkpoint, key)
        verify_inclusion(leaf_hash(entry), self.index, checkpoint.head, self.hashes)
        return checkpoint
