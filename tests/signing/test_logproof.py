from dataclasses import replace

import pytest

from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.errors import NoteInvalid, ProofInvalid
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import MerkleTree, encode_hash, inclusion_proof, leaf_hash, tree_head
from sandseal_signing.note import VerifierKey
from support.keys import ed25519_key

LOG = ed25519_key("log")
KEY = VerifierKey("example.com/log", LOG.public)
ENTRIES = [b"entry %d" % i for i in range(9)]
TREE = MerkleTree(map(leaf_hash, ENTRIES))


def proof(index: int, size: int) -> LogProof:
    checkpoint = Checkpoint(KEY.name, tree_head(size, TREE.read))
    return LogProof(index, inclusion_proof(index, size, TREE.read), checkpoint.sign(LOG))


PROOF = proof(5, 9)


def test_the_text_is_that_of_tlog_proof() -> None:
    hashes = "".join(f"{encode_hash(value)}\n" for value in PROOF.hashes)
    assert PROOF.render().decode() == f"c2sp.org/tlog-proof@v1\nindex 5\n{hashes}\n{PROOF.checkpoint.decode()}"
    assert len(PROOF.hashes) == 4


@pytest.mark.parametrize("size", range(1, 10))
def test_every_entry_of_every_log_is_shown_to_be_there(size: int) -> None:
    for index in range(size):
        read = LogProof.parse(proof(index, size).render())
        assert read == proof(index, size)
        assert read.verify(ENTRIES[index], KEY).head == tree_head(size, TREE.read)


def test_no_other_entry_place_or_key_is_shown() -> None:
    with pytest.raises(ProofInvalid, match="does not lead from this entry, as number 5, to the root of 9"):
        PROOF.verify(ENTRIES[4], KEY)
    with pytest.raises(ProofInvalid):
        replace(PROOF, index=4).verify(ENTRIES[5], KEY)
    with pytest.raises(ProofInvalid, match="there is no entry 9 in a tree of 9"):
        replace(PROOF, index=9).verify(ENTRIES[5], KEY)
    with pytest.raises(NoteInvalid):
        PROOF.verify(ENTRIES[5], VerifierKey(KEY.name, ed25519_key("other").public))
    with pytest.raises(ProofInvalid):
        replace(PROOF, checkpoint=proof(5, 8).checkpoint).verify(ENTRIES[5], KEY)


def test_every_flipped_byte_and_every_truncation_is_noticed() -> None:
    data = PROOF.render()
    for at in range(len(data)):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            with pytest.raises((ProofInvalid, NoteInvalid)):
                LogProof.parse(changed).verify(ENTRIES[5], KEY)


TOP = "c2sp.org/tlog-proof@v1\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c2sp.org/tlog-proof@v2\nindex 5\n\n",
        f"{TOP}\n",
        f"{TOP}index 5\n",
        f"{TOP}index 05\n\n",
        f"{TOP}index -5\n\n",
        f"{TOP}index 5 \n\n",
        f"{TOP}index {'9' * 17}\n\n",
        f"{TOP}extra AAAA\nindex 5\n\n",  # unauthenticated, and so not of our form
        f"{TOP}index 5\nAAAA\n\n",
        f"{TOP}index 5\n{'A' * 42}B=\n\n",
        f"{TOP}index 5\n" + f"{'A' * 43}=\n" * 54 + "\n",
        f"\n{TOP}index 5\n\n",
    ],
    ids=ascii,
)
def test_what_is_no_proof(text: str) -> None:
    with pytest.raises(ProofInvalid):
        LogProof.parse(text.encode() + PROOF.checkpoint)
