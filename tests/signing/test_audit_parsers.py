"""Whatever bytes come: every parser of the audit side answers, or raises an error of this package."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.auditor import AuditState, advance
from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import SigningError
from sandseal_signing.logentry import LogEntry, Role
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import TreeHead, leaf_hash
from sandseal_signing.note import Note, VerifierKey
from sandseal_signing.receipt import Receipt, make_receipt, verify_receipt
from support.keys import ed25519_key

LOG = ed25519_key("log")
KEY = VerifierKey("example.com/log", LOG.public)
ENTRY = LogEntry.rotation(Role.LOG, LOG, ed25519_key("new"), datetime(2026, 11, 30, tzinfo=UTC), "host").render()
CHECKPOINT = Checkpoint(KEY.name, TreeHead(1, leaf_hash(ENTRY)))
NOTE = CHECKPOINT.sign(LOG)
STATE = AuditState().watch(KEY)
DIGEST = Digest.of(b"")
RECEIPT = Receipt(DIGEST, {"pre": DIGEST}, DIGEST, DIGEST, datetime(2026, 11, 30, tzinfo=UTC), "batch", "", CHECKPOINT)

PARSERS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "verifier key": (KEY.render().encode(), lambda data: VerifierKey.parse(data.decode("latin-1"))),
    "note": (NOTE, Note.parse),
    "checkpoint": (CHECKPOINT.render().encode(), lambda data: Checkpoint.parse(data.decode("latin-1"))),
    "proof": (LogProof(0, (), NOTE).render(), lambda data: LogProof.parse(data).verify(ENTRY, KEY)),
    "entry": (ENTRY, LogEntry.parse),
    "receipt": (make_receipt(RECEIPT, LOG), lambda data: verify_receipt(data, LOG.public)),
    "state": (advance(STATE, NOTE).render(), AuditState.parse),
    "advance": (NOTE, lambda data: advance(STATE, data)),
}


@pytest.mark.parametrize(("whole", "parse"), PARSERS.values(), ids=PARSERS)
def test_what_is_whole_is_read(whole: bytes, parse: Callable[[bytes], Any]) -> None:
    assert parse(whole)


@pytest.mark.parametrize(("whole", "parse"), PARSERS.values(), ids=PARSERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_not_is_refused_in_words(whole: bytes, parse: Callable[[bytes], Any], data: st.DataObject) -> None:
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    put = data.draw(st.binary(max_size=8) | st.sampled_from([b"\n", b"\n\n", b'"', b"[" * 40, b"9" * 40, b"\xff"]))
    with suppress(SigningError):
        parse(whole[:begin] + put + whole[data.draw(st.sampled_from([begin, end])) :])
