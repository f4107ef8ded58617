import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
from sandseal_signing.errors import CheckpointInvalid, KeyInvalid, NoteInvalid
from sandseal_signing.merkle import EMPTY_HEAD, MAX_SIZE, TreeHead, encode_hash
from sandseal_signing.note import Note, VerifierKey
from support.keys import ed25519_key, p256_key

OLD, NEW = ed25519_key("old"), ed25519_key("new")
KEY = VerifierKey("example.com/log", OLD.public)
CHECKPOINT = Checkpoint("example.com/log", TreeHead(7, bytes(range(32))))
ROOT = encode_hash(bytes(range(32)))

# The example of C2SP's tlog-checkpoint.
C2SP = """\
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa \
Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""


def test_the_text_is_origin_size_and_root() -> None:
    assert CHECKPOINT.render() == f"example.com/log\n7\n{ROOT}\n"


def test_the_example_of_c2sp_is_read() -> None:
    note = Note.parse(C2SP.encode())
    checkpoint = Checkpoint.parse(note.text)
    assert (checkpoint.origin, checkpoint.head.size) == ("example.com/behind-the-sofa", 20852163)
    assert checkpoint.head.root.hex().startswith("0ac5186a91863e8e")
    assert checkpoint.render() == note.text
    assert note.render().decode() == C2SP


HEADS = st.builds(TreeHead, st.integers(1, MAX_SIZE), st.binary(min_size=32, max_size=32)) | st.just(EMPTY_HEAD)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@settings(max_examples=100, deadline=None)
@given(LINES, HEADS, st.lists(LINES, max_size=3))
def test_render_and_parse_are_inverses(origin: str, head: TreeHead, extensions: list[str]) -> None:
    checkpoint = Checkpoint(origin, head, tuple(extensions))
    assert Checkpoint.parse(checkpoint.render()) == checkpoint


def test_a_signed_checkpoint_opens_with_its_log_s_key() -> None:
    assert open_checkpoint(CHECKPOINT.sign(OLD), KEY) == CHECKPOINT
    with pytest.raises(NoteInvalid, match=r"is not signed by example\.com/log"):
        open_checkpoint(CHECKPOINT.sign(NEW), KEY)


def test_where_keys_change_both_sign() -> None:
    note = CHECKPOINT.sign(OLD, NEW)
    assert open_checkpoint(note, KEY) == CHECKPOINT
    assert open_checkpoint(note, VerifierKey(KEY.name, NEW.public)) == CHECKPOINT


def test_a_checkpoint_of_another_log_is_refused_though_its_key_signed() -> None:
    other = Note(Checkpoint("example.com/other", CHECKPOINT.head).render()).sign(KEY.name, OLD)
    with pytest.raises(CheckpointInvalid, match=r"is of log 'example\.com/other', not of"):
        open_checkpoint(other.render(), KEY)


def test_an_origin_that_can_name_no_key_signs_nothing() -> None:
    with pytest.raises(KeyInvalid, match="cannot name a key"):
        Checkpoint("two words", CHECKPOINT.head).sign(OLD)
    with pytest.raises(KeyInvalid, match="not ecdsa-p256"):
        CHECKPOINT.sign(p256_key("x"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "x\n7\n",
        f"x\n7\n{ROOT}",
        f"\n7\n{ROOT}\n",
        f"x\n\n{ROOT}\n",
        f"x\n7\n{ROOT}\n\n",
        f"x\n7\n{ROOT}\nextension",
        f"x\n7\n{ROOT}\n\nextension\n",
        *(f"x\n{size}\n{ROOT}\n" for size in ("07", "-7", "+7", "7 ", " 7", "7.0", "0x7", "7_0", "seven", "\u0667")),
        f"x\n{MAX_SIZE + 1}\n{ROOT}\n",
        f"x\n{'9' * 5000}\n{ROOT}\n",
        f"x\n0\n{ROOT}\n",
        f"x\n00\n{encode_hash(EMPTY_HEAD.root)}\n",
        *(f"x\n7\n{root}\n" for root in (ROOT[:-1], ROOT + "A", " " + ROOT, ROOT + " ", "AAAA", "-" + ROOT[1:])),
        f"x\n7\n{'A' * 42}B=\n",
    ],
    ids=lambda text: ascii(text[:60]),
)
def test_what_is_no_checkpoint(text: str) -> None:
    with pytest.raises(CheckpointInvalid):
        Checkpoint.parse(text)


def test_a_note_that_is_no_checkpoint_does_not_open() -> None:
    with pytest.raises(CheckpointInvalid, match="three or more full lines"):
        open_checkpoint(Note("some text\n").sign(KEY.name, OLD).render(), KEY)
