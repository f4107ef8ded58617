"""Sign, then change the archive: whatever is still accepted says exactly what was signed.

The only bytes of an accepted archive that may differ from what was packed lie in signature files:
the signature of a stranger, which nobody verifies, and the spelling of base64 in either alphabet.
"""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.bundle import Bundle, InMemory, open_bundle
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import SigningError
from sandseal_signing.seal import SealReader
from sandseal_signing.verdict import Moment
from support.bundles import seal, trust
from support.keys import ed25519_key, p256_key

ALICE, STOCK, STRANGER = ed25519_key("alice"), p256_key("alice"), ed25519_key("stranger")
POLICY = trust({"alice": ALICE, "stock": STOCK}, {"threshold": 2})
FILES = {"model.onnx": bytes(range(256)) * 2, "empty": b"", "README.md": b"# A model\n"}
ARCHIVE = seal([ALICE, STOCK, STRANGER], files=FILES)
KNOWN = {ALICE.public.hint, STOCK.public.hint}


def opened(data: bytes) -> Bundle | None:
    """The bundle, or None when it is refused; any other error goes through."""
    moment = Moment(datetime(2027, 6, 1, tzinfo=UTC))
    try:
        return open_bundle(SealReader(io.BytesIO(data)), POLICY, lambda _: moment, InMemory())
    except SigningError:
        return None


ORIGINAL = opened(ARCHIVE)
assert ORIGINAL is not None


def check(changed: bytes) -> bool:
    """Whether a changed archive is accepted; if so, that nothing trusted differs."""
    bundle = opened(changed)
    if bundle is None:
        return False
    assert replace(bundle, signatures=ORIGINAL.signatures) == ORIGINAL
    assert bundle.signatures.keys() == ORIGINAL.signatures.keys()
    for name, data in bundle.signatures.items():
        now, then = Envelope.parse(data, name), Envelope.parse(ORIGINAL.signatures[name], name)
        assert now == then if then.hint in KNOWN else replace(now, signature=then.signature) == then
    return True


def signature_spans() -> list[range]:
    """Where the signature files' contents lie in the archive."""
    return [range(at := ARCHIVE.index(data), at + len(data)) for data in ORIGINAL.signatures.values()]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_changes_nothing_that_is_trusted(at: int, flip: int) -> None:
    changed = bytearray(ARCHIVE)
    changed[at] ^= flip
    if check(bytes(changed)):
        assert any(at in span for span in signature_spans())


@pytest.mark.slow
@pytest.mark.parametrize("flip", [0x01, 0x06, 0x80])  # 0x06 turns '+' into '-'
def test_no_byte_at_all_can_be_changed(flip: int) -> None:
    accepted = []
    for at in range(len(ARCHIVE)):
        changed = bytearray(ARCHIVE)
        changed[at] ^= flip
        accepted += [at] * check(bytes(changed))
    assert all(any(at in span for span in signature_spans()) for at in accepted)
    assert len(accepted) <= 100  # the stranger's 86 significant base64 digits, and lone '+' or '/'


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(ARCHIVE)), st.binary(min_size=1, max_size=3))
def test_inserted_bytes_are_refused(at: int, data: bytes) -> None:
    assert not check(ARCHIVE[:at] + data + ARCHIVE[at:])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 1024))
def test_removed_bytes_are_refused(at: int, count: int) -> None:
    assert not check(ARCHIVE[:at] + ARCHIVE[at + count :])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(ARCHIVE) // 512 - 1), st.integers(0, len(ARCHIVE) // 512 - 1))
def test_blocks_that_change_places_are_refused(one: int, two: int) -> None:
    blocks = [ARCHIVE[at : at + 512] for at in range(0, len(ARCHIVE), 512)]
    blocks[one], blocks[two] = blocks[two], blocks[one]
    changed = b"".join(blocks)
    assert check(changed) is (changed == ARCHIVE)


def test_a_truncated_archive_is_refused_wherever_it_ends() -> None:
    ends = {*range(0, len(ARCHIVE), 37), *range(0, len(ARCHIVE), 512), len(ARCHIVE) - 1}
    assert not any(check(ARCHIVE[:end]) for end in ends)


def test_the_spelling_of_base64_changes_nothing() -> None:
    for data in ORIGINAL.signatures.values():
        (text,) = [entry["sig"] for entry in json.loads(data)["dsseEnvelope"]["signatures"]]
        respelled = text.replace("+", "-").replace("/", "_")
        assert check(ARCHIVE.replace(text.encode(), respelled.encode()))
