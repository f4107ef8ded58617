import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.errors import KeyInvalid, KeyUnsafe, NoteInvalid
from sandseal_signing.note import MAX_BYTES, MAX_SIGNATURES, Note, NoteSignature, VerifierKey
from support.keys import ed25519_key, p256_key, seeded_key

# The example of Go's sumdb/note, where the form comes from: seed, verifier key and signed note.
GO_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
GO_NOTE = f"{GO_TEXT}\n{GO_LINE}".encode()

LOG = ed25519_key("log")
KEY = VerifierKey("example.com/log", LOG.public)
NOTE = Note("a text\n\nof three lines\n").sign(KEY.name, LOG)


def test_the_note_of_go_is_read_verified_and_made_anew() -> None:
    key = VerifierKey.parse(GO_KEY)
    assert key.render() == GO_KEY
    assert (key.name, key.id.hex()) == ("PeterNeumann", "c74f20a3")
    note = Note.parse(GO_NOTE)
    assert note.verify(key) == GO_TEXT
    assert note.render() == GO_NOTE
    assert Note(GO_TEXT).sign("PeterNeumann", seeded_key(GO_SEED)).render() == GO_NOTE


def test_a_reader_that_shares_no_code_agrees() -> None:
    nacl = pytest.importorskip("nacl.signing")
    (line,) = NOTE.signatures
    assert nacl.VerifyKey(LOG.public.der[-32:]).verify(NOTE.text.encode(), line.signature) == NOTE.text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",  # '+' in the base64
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",  # signed-note's own example
    ],
)
def test_keys_of_others_are_read(text: str) -> None:
    assert VerifierKey.parse(text).render() == text


def test_no_part_and_no_change_of_a_key_is_a_key() -> None:
    whole = KEY.render()
    assert VerifierKey.parse(whole) == KEY
    parts = {whole[i:j] for i in range(len(whole)) for j in range(i, len(whole) + 1)} - {whole}
    changes = {whole[:i] + chr(ord(whole[i]) + 1) + whole[i + 1 :] for i in range(len(whole))}
    for text in parts | changes | {f"{whole}\n", f" {whole}", whole.upper(), whole.replace("+", "-")}:
        with pytest.raises(KeyInvalid):
            VerifierKey.parse(text)


def test_a_key_of_another_type_is_none() -> None:
    cosignature = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"  # type 0x04
    with pytest.raises(KeyInvalid, match="is not a verifier key of type Ed25519"):
        VerifierKey.parse(cosignature)
    with pytest.raises(KeyInvalid, match="notes are signed with Ed25519, not ecdsa-p256"):
        VerifierKey("x", p256_key("x").public)


def test_a_key_under_which_forgeries_verify_is_refused() -> None:
    typed = base64.b64encode(b"\x01" + bytes([1]) + bytes(31)).decode()
    with pytest.raises(KeyUnsafe):
        VerifierKey.parse(f"x+00000000+{typed}")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\tb", "a\u00a0b", "a\u3000b", "a\u2028b", "a\nb", "a\0b"])
def test_what_cannot_name_a_key(name: str) -> None:
    with pytest.raises(KeyInvalid, match="cannot name a key"):
        VerifierKey(name, LOG.public)
    with pytest.raises(NoteInvalid):
        Note.parse(NOTE.render().replace(KEY.name.encode(), name.encode()))


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=60).map(
    lambda text: text + "\n"
)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 3))
def test_render_and_parse_are_inverses(text: str, keys: int) -> None:
    note = Note(text)
    for number in range(keys):
        note = note.sign("log", ed25519_key(f"key {number}"))
    assert Note.parse(note.render()) == note
    assert note.verify(VerifierKey("log", ed25519_key("key 0").public)) == text


def test_what_unknown_keys_signed_does_not_count() -> None:
    other = ed25519_key("other")
    same_name, same_id = NoteSignature(KEY.name, b"\0\0\0\0", b"x"), NoteSignature("other", KEY.id, b"x")
    note = Note(NOTE.text, (same_name, same_id)).sign("other", other)
    with pytest.raises(
        NoteInvalid, match=r"is not signed by example\.com/log [0-9a-f]{8}, but by example\.com/log 00000000"
    ):
        note.verify(KEY)
    assert note.sign(KEY.name, LOG).verify(KEY) == NOTE.text
    assert note.verify(VerifierKey("other", other.public)) == NOTE.text


def test_what_the_key_itself_signed_must_verify_every_time() -> None:
    forged = NoteSignature(KEY.name, KEY.id, bytes(64))
    for signatures in ((forged,), (forged, *NOTE.signatures), (*NOTE.signatures, forged)):
        with pytest.raises(NoteInvalid, match="does not verify"):
            Note(NOTE.text, signatures).verify(KEY)
    with pytest.raises(NoteInvalid, match="does not verify"):
        Note("another text\n", NOTE.signatures).verify(KEY)


def test_sixteen_signatures_and_some_more_are_read() -> None:
    lines = tuple(NoteSignature(f"witness{i}.example", bytes(4), bytes(5000)) for i in range(MAX_SIGNATURES - 1))
    note = Note(NOTE.text, (*lines, *NOTE.signatures))
    assert Note.parse(note.render()).verify(KEY) == NOTE.text
    with pytest.raises(NoteInvalid, match="the note has 33 signatures, over 32"):
        Note.parse(note.sign("one.more", LOG).render())
    with pytest.raises(NoteInvalid, match=f"the note has {MAX_BYTES + 1} bytes"):
        Note.parse(bytes(MAX_BYTES + 1))


def test_every_flipped_byte_is_noticed() -> None:
    data = NOTE.render()
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(NoteInvalid):
                Note.parse(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]).verify(KEY)


def test_every_truncation_is_noticed() -> None:
    data = NOTE.render()
    for end in range(len(data)):
        with pytest.raises(NoteInvalid):
            Note.parse(data[:end]).verify(KEY)


LINE = NOTE.render().decode().split("\n\n")[-1]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "is not a text, an empty line"),
        ("\n\n", "is not a text, an empty line"),
        (f"text\n{LINE}", "is not a text, an empty line"),
        (f"text\n\n{LINE}"[:-1], "is not a text, an empty line"),
        (f"text\n\n{LINE}\n", "is not a text, an empty line"),
        (f"text\n\n{LINE}more\n", "is not a signature line"),
        (f"text\n\n{LINE} {LINE}", "is not a signature line"),
        (f"text\n\n{LINE}".replace("— ", "- "), "is not a signature line"),
        (f"text\n\n{LINE}".replace("— ", "—  "), "is not a signature line"),
        (f"text\n\n{LINE}".replace("— ", "—\u00a0"), "is not a signature line"),
        (f"text\n\n{LINE}".replace("\n— ", "\n — "), "is not a signature line"),
        (f"text\n\n{LINE}".replace("\n", "\r\n"), "is not a text, an empty line"),
        ("text\n\n— name AAAAAA==\n", "is not a signature line"),  # a key id and nothing else
        ("text\n\n— name AAAAAAB=\n", "is not a signature line"),  # bits set in the padding
        ("text\n\n— name AAAAA\n", "is not a signature line"),
        ("text\n\n— name -AAAAAAA\n", "is not a signature line"),
        (f"te\txt\n\n{LINE}", "another control character"),
        (f"te\0xt\n\n{LINE}", "another control character"),
        (f"text\r\n\n{LINE}", "another control character"),
    ],
    ids=ascii,
)
def test_what_is_no_note(data: str, why: str) -> None:
    with pytest.raises(NoteInvalid, match=why):
        Note.parse(data.encode())


def test_a_note_is_utf8_and_its_text_ends_in_a_newline() -> None:
    with pytest.raises(NoteInvalid, match="is not UTF-8"):
        Note.parse(NOTE.render().replace(b"text", b"te\xfft"))
    with pytest.raises(NoteInvalid, match="does not end in a newline"):
        Note("text")
    assert Note.parse(f"\n\n{LINE}".encode()).text == "\n"  # the last empty line separates
