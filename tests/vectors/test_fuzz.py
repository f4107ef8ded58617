"""Every parser under mutated documents for a set time: it returns, or says no with a SandsealError, and nothing else.

`SANDSEAL_FUZZ_SECONDS` is the time for all parsers together; the slow test has a time of its own for CI.
"""

import io
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import sandseal_signing
from sandseal_host.registry.offer_source import OfferHead
from sandseal_host.vetting.outcome import Report
from sandseal_signing.auditor import AuditState, WatchedLog
from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.document import Document
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import SandsealError
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.logentry import Kind, LogEntry, Subject
from sandseal_signing.logproof import LogProof
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.merkle import EMPTY_HEAD
from sandseal_signing.note import VerifierKey
from sandseal_signing.oms import read_model_signature
from sandseal_signing.pack import read_seal
from sandseal_signing.permit import PERMIT_TYPE, Permit, check_permit, read_permit
from sandseal_signing.receipt import Receipt, make_receipt, verify_receipt
from sandseal_signing.schema import parse_json
from sandseal_signing.seal import SealReader
from sandseal_signing.statement import parse_statement
from sandseal_signing.trust import TrustPolicy
from support.bundles import archive, trust_text
from support.keys import ed25519_key
from vectors.hostile.case import ALICE, AT_NOW, BOB, NOW, POLICY, bundle, content, statement_of

SECONDS = float(os.environ.get("SANDSEAL_FUZZ_SECONDS", "3"))
CI_SECONDS = 30.0

LOG = VerifierKey("log.example", ed25519_key("log").public)
NOTE = Checkpoint(LOG.name, EMPTY_HEAD).sign(ed25519_key("log"))
TIME = datetime(2027, 6, 1, tzinfo=UTC)
D = Digest("ab" * 32)
ENVELOPE = bundle()[0][1]


@dataclass(frozen=True, slots=True)
class Parser:
    """A reader of outside bytes, and a document that it takes."""

    read: Callable[[bytes], object]
    sample: bytes


def _no_file(name: str) -> str:
    raise FileNotFoundError(name)


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _opened(data: bytes) -> object:
    return open_bundle(SealReader(io.BytesIO(data)), POLICY, lambda _: AT_NOW, Discard())


RECEIPT = make_receipt(Receipt(D, {"pre": D}, D, D, TIME, "standard", "n", Checkpoint(LOG.name, EMPTY_HEAD)), BOB)
SIGNED = (
    Document(Permit("acme.tiny", D, Digest("cd" * 32), NOW + timedelta(1), "n" * 16).render(), PERMIT_TYPE)
    .sign([ALICE])
    .render()
)
# Those of the package by their module, then others.
PARSERS = {
    "schema": Parser(lambda data: parse_json(data, "x"), content()["bundle.json"]),
    "envelope": Parser(lambda data: Envelope.parse(data, "x"), ENVELOPE),
    "statement": Parser(parse_statement, statement_of(content()).render()),
    "manifest": Parser(parse_manifest, content()["bundle.json"]),
    "trust": Parser(
        _text(lambda text: TrustPolicy.parse(text, _no_file)), trust_text({"alice": ALICE, "bob": BOB}).encode()
    ),
    "keys": Parser(_text(PublicKey.parse), ALICE.public.pem.encode()),
    "seal": Parser(lambda data: read_seal(io.BytesIO(data)), archive(bundle())),
    "bundle": Parser(_opened, archive(bundle(ALICE, BOB))),
    "oms": Parser(lambda data: read_model_signature(data, ALICE.public), ENVELOPE),
    "checkpoint": Parser(lambda data: open_checkpoint(data, LOG), NOTE),
    "note": Parser(_text(VerifierKey.parse), LOG.render().encode()),
    "logentry": Parser(
        LogEntry.parse, LogEntry(Kind.ACCEPT, TIME, "ci", Subject(bundle=D, name="acme.tiny", version=1)).render()
    ),
    "logproof": Parser(LogProof.parse, LogProof(0, (bytes(32),), NOTE).render()),
    "receipt": Parser(lambda data: verify_receipt(data, BOB.public), RECEIPT),
    "auditor": Parser(AuditState.parse, AuditState((WatchedLog(LOG, NOTE),)).render()),
    "document": Parser(lambda data: Document.parse(data, PERMIT_TYPE, "x"), SIGNED),
    "permit": Parser(lambda data: check_permit(read_permit(data)[0], POLICY, NOW), SIGNED),
    "private key": Parser(PrivateKey.parse, ALICE.pem()),
    "offer's head": Parser(OfferHead.parse, archive(bundle()[:2])[:-1024]),
    "vetting's report": Parser(Report.read, b'{"step":"parse","file":"m"}\n{"refused":{"code":"model_invalid"}}\n'),
}
# What tends to matter to parsers, to be put in anywhere.
_WORDS = (
    *(b'"', b"{", b"[", b"}", b"]", b",", b":", b"\\u0000", b"\\ud800", b"null", b"NaN", b"-0", b"1e999", b"\xff"),
    *(b"9007199254740993", b"9" * 5000, b"[" * 20, b"\n", b"\0", b"=", b"-----BEGIN", b"\xe2\x80\x94 ", b"Z"),
)
_PIECES = st.one_of(st.sampled_from(_WORDS), st.binary(max_size=8), st.just(b""))
_EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), _PIECES), min_size=1, max_size=4)


def _edited(sample: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """The sample with a few stretches replaced, each given by place (0 to 1), length and new content."""
    for place, length, piece in edits:
        at = int(place * len(sample))
        sample = sample[:at] + piece + sample[at + length :]
    return sample


def _survives(parser: Parser, data: bytes) -> None:
    with suppress(SandsealError):
        parser.read(data)


def _fuzz(parser: Parser, seconds: float) -> None:
    """Run fresh examples, those of one seed after another, until the time is over."""

    @settings(max_examples=50, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(_EDITS.map(lambda edits: _edited(parser.sample, edits)), st.binary(max_size=200)))
    def examples(data: bytes) -> None:
        _survives(parser, data)

    end, seeds = time.monotonic() + seconds, count()
    while time.monotonic() < end:
        seed(next(seeds))(examples)()


def test_no_module_that_parses_is_left_out() -> None:
    sources = Path(sandseal_signing.__file__).parent.glob("*.py")
    parsing = {
        path.stem for path in sources if re.search(r"^ *def parse\b|^def parse_", path.read_text(), re.MULTILINE)
    }
    assert parsing <= PARSERS.keys()


@pytest.mark.parametrize("name", PARSERS)
def test_the_sample_is_what_the_parser_takes(name: str) -> None:
    PARSERS[name].read(PARSERS[name].sample)


@pytest.mark.parametrize("name", PARSERS)
def test_fuzz(name: str) -> None:
    _fuzz(PARSERS[name], SECONDS / len(PARSERS))


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_fuzz_for_long(name: str) -> None:
    _fuzz(PARSERS[name], CI_SECONDS / len(PARSERS))
