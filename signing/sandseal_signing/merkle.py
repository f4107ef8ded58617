"""The log's Merkle tree (RFC 6962 and RFC 9162, section 2.1): hashes, appending, proofs and their verification.

A tree is stored as its perfect subtrees, about two for each leaf. Every subtree that a proof speaks of, also the ragged
ones at the right edge, falls into few of these, so that any proof takes one read of O(log n) stored hashes.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from sandseal_signing.errors import LogIncomplete, ProofInvalid
from sandseal_signing.schema import MAX_INTEGER

HASH_BYTES = 32
MAX_SIZE = MAX_INTEGER
EMPTY_ROOT = hashlib.sha256().digest()

_HASH = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\Z")  # the two bits left over are zero


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf; its prefix keeps an inner node from passing for a leaf."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def encode_hash(value: bytes) -> str:
    """A hash as proofs and checkpoints write it: base64."""
    return base64.b64encode(value).decode()


def decode_hash(text: str) -> bytes:
    """Read what `encode_hash` wrote.

    Raises:
        ProofInvalid: not the one base64 form of 32 bytes.
    """
    if not _HASH.match(text):
        raise ProofInvalid(f"{text[:80]!r} is not a SHA-256 hash in base64")
    return base64.b64decode(text)


class Subtree(NamedTuple):
    """The perfect subtree over the 2^level leaves from number position * 2^level on."""

    level: int
    position: int


Read = Callable[[Sequence[Subtree]], Mapping[Subtree, bytes]]
"""Looks up the stored hashes of, at least, the subtrees asked for."""


@dataclass(frozen=True, slots=True)
class TreeHead:
    """What a tree is in two facts: its number of leaves and its root hash."""

    size: int
    root: bytes


EMPTY_HEAD = TreeHead(0, EMPTY_ROOT)


@dataclass(frozen=True, slots=True)
class Frontier:
    """A tree's right edge: enough to append to the tree and to know its root.

    Args:
        size: the number of leaves.
        hashes: of the perfect subtrees that the tree falls into, from the left, each smaller than the one before.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    @classmethod
    def load(cls, size: int, read: Read) -> "Frontier":
        """The right edge of a stored tree.

        Raises:
            LogIncomplete: a hash is not there.
        """
        return cls(size, tuple(_stored(_subtrees(range(size)), read)))

    @property
    def head(self) -> TreeHead:
        """The tree's size and root."""
        return TreeHead(self.size, _root(self.hashes))

    def append(self, leaf: bytes) -> tuple["Frontier", dict[Subtree, bytes]]:
        """The tree with one more leaf hash, and the subtrees that it completes, to be stored: itself first."""
        hashes, subtree = list(self.hashes), Subtree(0, self.size)
        completed = {subtree: leaf}
        while subtree.position & 1:  # a right child completes its parent
            leaf = node_hash(hashes.pop(), leaf)
            subtree = Subtree(subtree.level + 1, subtree.position >> 1)
            completed[subtree] = leaf
        return Frontier(self.size + 1, (*hashes, leaf)), completed


class MerkleTree:
    """A whole tree in memory, rebuilt from its leaf hashes: what a store must hold, or a log that was fetched whole."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.frontier = Frontier()
        self._subtrees: dict[Subtree, bytes] = {}
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        self.frontier, completed = self.frontier.append(leaf)
        self._subtrees |= completed

    def read(self, _: Sequence[Subtree] = ()) -> Mapping[Subtree, bytes]:
        """Every perfect subtree; a `Read` for the functions below."""
        return self._subtrees


def tree_head(size: int, read: Read) -> TreeHead:
    """What the tree was when it had `size` leaves.

    Raises:
        LogIncomplete: a hash is not there.
    """
    return Frontier.load(size, read).head


def inclusion_proof(index: int, size: int, read: Read) -> tuple[bytes, ...]:
    """The hashes that lead from leaf `index` to the root of the first `size` leaves (RFC 9162 section 2.1.3.1).

    Raises:
        ProofInvalid: there is no such leaf.
        LogIncomplete: a hash is not there.
    """
    return _hashes(_inclusion_path(index, size)[1], read)


def consistency_proof(old: int, new: int, read: Read) -> tuple[bytes, ...]:
    """The hashes that show the first `old` leaves to be those of the tree of `new` (RFC 9162 section 2.1.4.1).

    Raises:
        ProofInvalid: `old` is above `new`.
        LogIncomplete: a hash is not there.
    """
    if old in (0, new):
        return ()
    start, siblings = _consistency_path(old, new)
    return _hashes([start, *siblings] if start.start else siblings, read)


def verify_inclusion(leaf: bytes, index: int, head: TreeHead, proof: Sequence[bytes]) -> None:
    """Check that the leaf hash is number `index` (from 0) of the tree.

    Raises:
        ProofInvalid: it is not, or the proof does not show it.
    """
    start, siblings = _inclusion_path(index, head.size)
    _check_shape(proof, len(siblings))
    if _climb(start, siblings, [leaf, *proof]) != head.root:
        raise ProofInvalid(f"the proof does not lead from this entry, as number {index}, to the root of {head.size}")


def verify_consistency(old: TreeHead, new: TreeHead, proof: Sequence[bytes]) -> None:
    """Check that the new tree is the old one, or it with leaves appended.

    Raises:
        ProofInvalid: it is not, or the proof does not show it.
    """
    if old.size == new.size:
        _check_shape(proof, 0)
        if old != new:
            raise ProofInvalid(f"two trees of {old.size} have different roots")
        return
    frontier_of(old, new.size, proof)
    if old.size and _climb(*_opened(old, new.size, proof)) != new.root:
        raise ProofInvalid(f"the proof does not lead from the root of {old.size} to the root of {new.size}")


def frontier_of(old: TreeHead, size: int, proof: Sequence[bytes]) -> Frontier:
    """The old tree's right edge, out of its consistency proof with a larger tree of `size` leaves.

    Whoever appends leaves to it and comes to the larger tree's root has all the leaves that were added, in order.

    Raises:
        ProofInvalid: the proof does not begin at the old root.
    """
    if old.size == 0:
        _check_shape(proof, 0)
        frontier = Frontier()
    else:
        start, siblings, (first, *rest) = _opened(old, size, proof)
        left = [value for sibling, value in zip(siblings, rest, strict=True) if sibling.stop <= start.start]
        frontier = Frontier(old.size, (*reversed(left), first))
    if frontier.head != old:
        raise ProofInvalid(f"the proof does not begin at the root of {old.size}")
    return frontier


def _opened(old: TreeHead, size: int, proof: Sequence[bytes]) -> tuple[range, list[range], Sequence[bytes]]:
    """Where a consistency proof starts, the siblings on its way up, and the hashes of all of them.

    Where the old tree is a perfect one, its root is the start's hash, and the proof leaves it out.
    """
    start, siblings = _consistency_path(old.size, size)
    perfect = start.start == 0
    _check_shape(proof, len(siblings) + (not perfect))
    return start, siblings, [old.root, *proof] if perfect else proof


def _inclusion_path(index: int, size: int) -> tuple[range, list[range]]:
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofInvalid(f"there is no entry {index} in a tree of {size}", index=index, size=size)
    return _path(index, size, lambda here: len(here) == 1)


def _consistency_path(old: int, new: int) -> tuple[range, list[range]]:
    if not 0 < old < new <= MAX_SIZE:
        raise ProofInvalid(f"no tree of {new} grows out of one of {old}", old=old, new=new)
    return _path(old - 1, new, lambda here: here.stop == old)


def _path(leaf: int, size: int, arrived: Callable[[range], bool]) -> tuple[range, list[range]]:
    """Where going down from the root towards `leaf` arrives, and the siblings on the way back up; all as leaf ranges.

    The left child is the largest perfect subtree that leaves the right one something (RFC 9162 section 2.1.1).
    """
    here, siblings = range(size), []
    while not arrived(here):
        middle = here.start + (1 << (len(here) - 1).bit_length() - 1)
        left, right = range(here.start, middle), range(middle, here.stop)
        here, sibling = (left, right) if leaf < middle else (right, left)
        siblings.append(sibling)
    return here, siblings[::-1]


def _climb(start: range, siblings: Sequence[range], hashes: Sequence[bytes]) -> bytes:
    """The root over the hash of `start` and then those of its siblings on the way up."""
    root, *rest = hashes
    for sibling, value in zip(siblings, rest, strict=True):
        root = node_hash(value, root) if sibling.stop <= start.start else node_hash(root, value)
    return root


def _subtrees(leaves: range) -> list[Subtree]:
    """The perfect subtrees that a range on a path falls into, from the left, each smaller than the one before."""
    found, at = [], leaves.start
    for level in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> level & 1:
            found.append(Subtree(level, at >> level))
            at += 1 << level
    return found


def _root(hashes: Sequence[bytes]) -> bytes:
    """The root over neighbouring perfect subtrees, each smaller than the one before."""
    return reduce(lambda right, left: node_hash(left, right), reversed(hashes)) if hashes else EMPTY_ROOT


def _hashes(ranges: Sequence[range], read: Read) -> tuple[bytes, ...]:
    """The root over each range, with one read for all of them."""
    parts = [_subtrees(leaves) for leaves in ranges]
    found = iter(_stored([subtree for part in parts for subtree in part], read))
    return tuple(_root([next(found) for _ in part]) for part in parts)


def _stored(subtrees: Sequence[Subtree], read: Read) -> list[bytes]:
    found = read(subtrees)
    try:
        return [found[subtree] for subtree in subtrees]
    except KeyError as error:
        raise LogIncomplete(f"the stored log has no hash of {error.args[0]}") from None


def _check_shape(proof: Sequence[bytes], wanted: int) -> None:
    if len(proof) != wanted or any(len(value) != HASH_BYTES for value in proof):
        raise ProofInvalid(f"the proof has {len(proof)} hashes where {wanted} of {HASH_BYTES} bytes are needed")
