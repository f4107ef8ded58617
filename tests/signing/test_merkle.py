import hashlib
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.errors import LogIncomplete, ProofInvalid
from sandseal_signing.merkle import (
    EMPTY_HEAD,
    EMPTY_ROOT,
    MAX_SIZE,
    Frontier,
    MerkleTree,
    Subtree,
    TreeHead,
    consistency_proof,
    decode_hash,
    encode_hash,
    frontier_of,
    inclusion_proof,
    leaf_hash,
    node_hash,
    tree_head,
    verify_consistency,
    verify_inclusion,
)

# The definitions of RFC 9162 section 2.1, word for word: slow, recursive, and sharing nothing with the code.

ENTRIES = [b"entry %d" % i for i in range(600)]


def split(begin: int, end: int) -> int:
    k = 1
    while k * 2 < end - begin:
        k *= 2
    return begin + k


@cache
def mth(begin: int, end: int) -> bytes:
    """MTH(D[begin:end])."""
    if begin == end:
        return hashlib.sha256(b"").digest()
    if end - begin == 1:
        return hashlib.sha256(b"\0" + ENTRIES[begin]).digest()
    k = split(begin, end)
    return hashlib.sha256(b"\1" + mth(begin, k) + mth(k, end)).digest()


def path(m: int, begin: int, end: int) -> list[bytes]:
    """PATH(m, D[begin:end]), with m counted from 0."""
    if end - begin == 1:
        return []
    k = split(begin, end)
    return [*path(m, begin, k), mth(k, end)] if m < k else [*path(m, k, end), mth(begin, k)]


def subproof(m: int, begin: int, end: int, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[begin:end], b), with m counted from 0."""
    if m == end:
        return [] if whole else [mth(begin, end)]
    k = split(begin, end)
    if m <= k:
        return [*subproof(m, begin, k, whole), mth(k, end)]
    return [*subproof(m, k, end, False), mth(begin, k)]


def rfc_includes(leaf: bytes, index: int, head: TreeHead, proof: Sequence[bytes]) -> bool:
    """The algorithm of RFC 9162 section 2.1.3.2."""
    if index >= head.size:
        return False
    fn, sn, r = index, head.size - 1, leaf
    for p in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == head.root


def rfc_consistent(old: TreeHead, new: TreeHead, proof: Sequence[bytes]) -> bool:
    """The algorithm of RFC 9162 section 2.1.4.2, for 0 < old.size < new.size."""
    if not proof:
        return False
    fn, sn = old.size - 1, new.size - 1
    if old.size & fn == 0:
        proof = [old.root, *proof]
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = proof[0]
    for c in proof[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and (fr, sr) == (old.root, new.root)


TREE = MerkleTree(map(leaf_hash, ENTRIES))


def head(size: int) -> TreeHead:
    return TreeHead(size, mth(0, size))


def test_the_tree_head_of_every_size() -> None:
    frontier = Frontier()
    for size in range(len(ENTRIES) + 1):
        assert frontier.head == head(size) == tree_head(size, TREE.read)
        assert frontier == Frontier.load(size, TREE.read)
        if size < len(ENTRIES):
            frontier, _ = frontier.append(leaf_hash(ENTRIES[size]))
    assert TREE.frontier == frontier
    assert head(0) == EMPTY_HEAD


def test_inclusion_in_every_tree() -> None:
    for size in range(1, 131):
        for index in range(size):
            proof = inclusion_proof(index, size, TREE.read)
            assert list(proof) == path(index, 0, size)
            verify_inclusion(leaf_hash(ENTRIES[index]), index, head(size), proof)
            assert rfc_includes(leaf_hash(ENTRIES[index]), index, head(size), proof)


@pytest.mark.slow
def test_consistency_of_every_two_trees() -> None:
    for new in range(131):
        for old in range(new + 1):
            proof = consistency_proof(old, new, TREE.read)
            assert list(proof) == (subproof(old, 0, new, True) if old else [])
            verify_consistency(head(old), head(new), proof)
            if 0 < old < new:
                assert rfc_consistent(head(old), head(new), proof)
            if old < new:
                assert frontier_of(head(old), new, proof) == Frontier.load(old, TREE.read)


# The well-known test tree of Certificate Transparency.

CT_ENTRIES = [
    *(b"", b"\x00", b"\x10", b"\x20\x21", b"\x30\x31", bytes(range(0x40, 0x44))),
    *(bytes(range(0x50, 0x58)), bytes(range(0x60, 0x70))),
]
CT_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAF_0 = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
LEAF_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
LEAF_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
NODE_0_2 = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
NODE_2_4 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
NODE_4_6 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
NODE_6_8 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
NODE_0_4 = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"
NODE_4_8 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
CT_TREE = MerkleTree(map(leaf_hash, CT_ENTRIES))


def test_the_roots_of_certificate_transparency() -> None:
    assert [tree_head(size, CT_TREE.read).root.hex() for size in range(9)] == CT_ROOTS
    assert CT_ROOTS[0] == EMPTY_ROOT.hex()


@pytest.mark.parametrize(
    ("index", "size", "proof"),
    [
        (0, 1, []),
        (0, 8, [LEAF_1, NODE_2_4, NODE_4_8]),
        (5, 8, [LEAF_4, NODE_6_8, NODE_0_4]),
        (2, 3, [NODE_0_2]),
        (1, 5, [LEAF_0, NODE_2_4, LEAF_4]),
    ],
)
def test_the_inclusion_proofs_of_certificate_transparency(index: int, size: int, proof: list[str]) -> None:
    assert [value.hex() for value in inclusion_proof(index, size, CT_TREE.read)] == proof
    verify_inclusion(leaf_hash(CT_ENTRIES[index]), index, tree_head(size, CT_TREE.read), [*map(bytes.fromhex, proof)])


@pytest.mark.parametrize(
    ("old", "new", "proof"),
    [
        (1, 1, []),
        (1, 8, [LEAF_1, NODE_2_4, NODE_4_8]),
        (6, 8, [NODE_4_6, NODE_6_8, NODE_0_4]),
        (2, 5, [NODE_2_4, LEAF_4]),
    ],
)
def test_the_consistency_proofs_of_certificate_transparency(old: int, new: int, proof: list[str]) -> None:
    assert [value.hex() for value in consistency_proof(old, new, CT_TREE.read)] == proof
    verify_consistency(tree_head(old, CT_TREE.read), tree_head(new, CT_TREE.read), [*map(bytes.fromhex, proof)])


# What does not hold.


def mutations(proof: Sequence[bytes]) -> st.SearchStrategy[list[bytes]]:
    """The proof itself, or one that differs from it in one place, in length or in order."""
    return st.one_of(
        st.just([*proof]),
        st.permutations(proof),
        st.integers(0, len(proof)).map(lambda n: [*proof[:n]]),
        st.just([*proof, mth(0, 1)]),
        st.just([*proof, EMPTY_ROOT]),
        st.just([mth(0, 1), *proof]),
        st.tuples(st.integers(0, max(0, len(proof) - 1)), st.binary(min_size=31, max_size=33)).map(
            lambda change: [*proof[: change[0]], change[1], *proof[change[0] + 1 :]]
        ),
    )


def holds(check: object, *args: object) -> bool:
    try:
        check(*args)  # type: ignore[operator]
    except ProofInvalid:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_inclusion_holds_exactly_where_the_rfc_says(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(ENTRIES)))
    index = data.draw(st.integers(0, size - 1))
    proof = data.draw(mutations(inclusion_proof(index, size, TREE.read)))
    claimed = data.draw(st.sampled_from([index, index ^ 1, 0, size - 1, size]))
    shown = data.draw(st.sampled_from([head(size), head(size - 1), TreeHead(size + 1, mth(0, size))]))
    leaf = leaf_hash(ENTRIES[index])
    found = holds(verify_inclusion, leaf, claimed, shown, proof)
    assert found == rfc_includes(leaf, claimed, shown, proof)
    if (claimed, shown, proof) == (index, head(size), path(index, 0, size)):
        assert found
    if found:
        assert mth(claimed, claimed + 1) == leaf


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_consistency_holds_exactly_where_the_rfc_says(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, len(ENTRIES)))
    old = data.draw(st.integers(1, new - 1))
    proof = data.draw(mutations(consistency_proof(old, new, TREE.read)))
    before = data.draw(st.sampled_from([head(old), TreeHead(old, mth(0, old - 1)), TreeHead(old, mth(0, new))]))
    after = data.draw(st.sampled_from([head(new), head(new - 1), TreeHead(new, mth(1, new))]))
    if before.size < after.size:
        found = holds(verify_consistency, before, after, proof)
        assert found == rfc_consistent(before, after, proof)
        assert not found or (before == head(old) and after in (head(new), head(new - 1)))


@pytest.mark.parametrize(
    ("old", "new", "proof"),
    [
        (head(5), head(4), []),
        (head(5), TreeHead(5, mth(0, 4)), []),
        (head(5), head(5), [mth(0, 1)]),
        (TreeHead(0, mth(0, 1)), head(5), []),
        (head(0), TreeHead(0, mth(0, 1)), []),
        (head(0), head(5), [mth(0, 5)]),
        (TreeHead(-1, mth(0, 1)), head(5), []),
        (head(5), TreeHead(MAX_SIZE + 1, mth(0, 5)), []),
        (head(5), TreeHead(2**70, mth(0, 5)), []),
        (head(5), head(6), []),
    ],
)
def test_trees_that_do_not_grow_out_of_each_other(old: TreeHead, new: TreeHead, proof: list[bytes]) -> None:
    with pytest.raises(ProofInvalid):
        verify_consistency(old, new, proof)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (5, 5), (-1, 5), (2**70, 2**71)])
def test_entries_that_are_not_there(index: int, size: int) -> None:
    with pytest.raises(ProofInvalid, match=f"there is no entry {index} in a tree of {size}"):
        inclusion_proof(index, size, TREE.read)
    with pytest.raises(ProofInvalid, match="there is no entry"):
        verify_inclusion(mth(0, 1), index, TreeHead(size, EMPTY_ROOT), [])


def test_no_tree_shrinks() -> None:
    with pytest.raises(ProofInvalid, match="no tree of 4 grows out of one of 5"):
        consistency_proof(5, 4, TREE.read)
    with pytest.raises(ProofInvalid, match="no tree of 5 grows out of one of 5"):
        frontier_of(head(5), 5, [])


def test_the_largest_tree_is_verified_as_fast_as_a_small_one() -> None:
    siblings = [leaf_hash(b"%d" % i) for i in range(53)]
    leaf = root = leaf_hash(b"")
    for sibling in siblings:
        root = node_hash(root, sibling)
    verify_inclusion(leaf, 0, TreeHead(MAX_SIZE, root), siblings)


# Storage.


def test_a_proof_takes_one_read_of_few_hashes() -> None:
    asked: list[Sequence[Subtree]] = []

    def read(subtrees: Sequence[Subtree]) -> dict[Subtree, bytes]:
        asked.append(subtrees)
        return {subtree: TREE.read()[subtree] for subtree in subtrees}

    for index, size in ((0, 600), (599, 600), (300, 511), (17, 599)):
        assert inclusion_proof(index, size, read) == inclusion_proof(index, size, TREE.read)
        assert consistency_proof(index + 1, size, read) == consistency_proof(index + 1, size, TREE.read)
        Frontier.load(size, read)
    assert len(asked) == 4 * 3 - 1  # nothing is to be read for two trees of one size
    assert max(map(len, asked)) <= 2 * (600).bit_length()


def test_what_is_stored_is_every_perfect_subtree_once() -> None:
    stored: dict[Subtree, bytes] = {}
    frontier = Frontier()
    for entry in ENTRIES:
        frontier, completed = frontier.append(leaf_hash(entry))
        assert not stored.keys() & completed.keys()
        stored |= completed
    assert stored == {
        Subtree(level, at): mth(at << level, at + 1 << level)
        for level in range(10)
        for at in range(len(ENTRIES) >> level)
    }
    assert len(stored) < 2 * len(ENTRIES)


def test_a_store_that_lost_a_hash_says_so() -> None:
    lossy = {key: value for key, value in TREE.read().items() if key != Subtree(3, 1)}
    with pytest.raises(LogIncomplete, match=r"the stored log has no hash of Subtree\(level=3, position=1\)"):
        inclusion_proof(0, 16, lambda _: lossy)
    with pytest.raises(LogIncomplete):
        tree_head(len(ENTRIES) + 1, TREE.read)


@given(st.binary(min_size=32, max_size=32))
def test_hashes_have_one_text(value: bytes) -> None:
    assert decode_hash(encode_hash(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", "AAAA", "A" * 43, "A" * 44, "A" * 42 + "B=", "-" * 43 + "=", "A" * 43 + "=\n", " " + "A" * 42 + "="],
)
def test_what_is_no_hash(text: str) -> None:
    with pytest.raises(ProofInvalid, match="is not a SHA-256 hash in base64"):
        decode_hash(text)
