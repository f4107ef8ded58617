import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sandseal_signing.bundle import Bundle, Discard, InMemory, check_files, open_bundle, verify_statement
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope, pae
from sandseal_signing.errors import (
    DigestMismatch,
    EnvelopeInvalid,
    FileMissing,
    FileUnexpected,
    JsonInvalid,
    LimitExceeded,
    ManifestInvalid,
    NameInvalid,
    PolicyRefused,
    SealTruncated,
    SignatureInvalid,
    SignerUnknown,
    SigningError,
    SizeMismatch,
    StatementInvalid,
    Unsigned,
)
from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import Manifest, parse_manifest, render_manifest
from sandseal_signing.schema import canonical_json
from sandseal_signing.seal import SealReader
from sandseal_signing.statement import Resource, Statement, media_type
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment, State
from support.bundles import FILES, archive, manifest, members, seal, trust
from support.keys import ed25519_key, p256_key, p384_key

ALICE, BOB, EVE = map(ed25519_key, ("alice", "bob", "eve"))
NOW = datetime(2027, 6, 1, tzinfo=UTC)
PLUGIN = {"plugins/pre.wasm": b"\0asm"}
STAGE = {"plugin": "plugins/pre.wasm", "function": "run", "inputs": [{"name": "i", "dtype": "BYTES", "shape": ["n"]}]}

POLICY = trust({"alice": ALICE, "bob": BOB})


def opened(data: bytes, policy: TrustPolicy = POLICY, sink: Any = None) -> Bundle:
    return open_bundle(SealReader(io.BytesIO(data)), policy, lambda _: Moment(NOW), sink or InMemory())


def signed_as(payload: bytes, *keys: PrivateKey) -> list[tuple[str, bytes]]:
    """Signature members over any payload, in the order of an archive."""
    envelopes = [Envelope.sign(payload, key) for key in keys]
    return sorted((envelope.file_name, envelope.render()) for envelope in envelopes)


def statement(files: dict[str, bytes], subject: str = "acme.tiny") -> Statement:
    return Statement.of(subject, [Resource(n, Digest.of(d), len(d), media_type(n)) for n, d in files.items()])


def content(**changes: Any) -> dict[str, bytes]:
    """A bundle's files in transfer order."""
    files = {"bundle.json": render_manifest(manifest(**changes)), **FILES}
    return {resource.name: files[resource.name] for resource in statement(files).in_transfer_order}


def test_an_opened_bundle_is_what_was_signed() -> None:
    bundle = opened(seal([ALICE]))
    payload = statement(content()).render()
    assert bundle.id == Digest.of(payload)
    assert bundle.statement == statement(content())
    assert bundle.manifest == parse_manifest(content()["bundle.json"])
    assert dict(bundle.files) == content()
    assert [key.name for key in bundle.signers] == ["alice"]
    assert bundle.unknown == ()
    assert bundle.verdict.state is State.ACCEPTED
    assert dict(bundle.signatures) == dict(signed_as(payload, ALICE))


def test_discard_verifies_and_keeps_nothing() -> None:
    assert dict(opened(seal([ALICE]), sink=Discard()).files) == {}
    with pytest.raises(DigestMismatch):
        opened(seal([ALICE]).replace(b"not parsed", b"not parseD"), sink=Discard())


def test_two_signers_and_a_p256_co_signature_are_one_bundle() -> None:
    stock = p256_key("alice")
    policy = trust({"alice": ALICE, "bob": BOB, "stock": stock}, {"threshold": 2})
    bundle = opened(seal([ALICE, BOB, stock]), policy)
    assert {key.name for key in bundle.signers} == {"alice", "bob", "stock"}
    assert bundle.verdict.holders == ("alice@acme", "bob@acme", "stock@acme")
    assert bundle.id == opened(seal([ALICE])).id
    for key in (stock, p384_key("alice")):
        assert opened(seal([key]), trust({"stock": key})).id == bundle.id


def test_unknown_signers_are_ignored_and_reported() -> None:
    bundle = opened(seal([ALICE, EVE, p256_key("eve")]))
    assert [key.name for key in bundle.signers] == ["alice"]
    assert set(bundle.unknown) == {EVE.public.hint, p256_key("eve").public.hint}


def test_a_strangers_signature_need_not_even_verify() -> None:
    payload = statement(content()).render()
    forged = Envelope(payload, PAYLOAD_TYPE, bytes(64), EVE.public.hint)
    signatures = sorted([*signed_as(payload, ALICE), (forged.file_name, forged.render())])
    bundle = opened(archive([*signatures, *content().items()]))
    assert bundle.unknown == (EVE.public.hint,)


def test_steps_1_to_7_give_a_verified_statement() -> None:
    signatures = dict(signed_as(statement(content()).render(), ALICE, EVE))
    verified = verify_statement(signatures, POLICY)
    assert verified.statement == statement(content())
    assert verified.id == Digest.of(verified.payload)
    assert [key.name for key in verified.signers] == ["alice"]
    assert verified.unknown == (EVE.public.hint,)


def resealed(payload: bytes | None = None, files: dict[str, bytes] | None = None, *keys: PrivateKey) -> bytes:
    """An archive whose signatures are over `payload`, holding `files` in the order given."""
    files = content() if files is None else files
    return archive([*signed_as(payload or statement(files).render(), *(keys or (ALICE,))), *files.items()])


def edited(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """An archive with a well signed statement that was changed before signing."""
    document = json.loads(statement(content()).render())
    change(document)
    return resealed(canonical_json(document))


def other_type() -> bytes:
    payload = statement(content()).render()
    envelope = Envelope(payload, "text/plain", ALICE.sign(pae("text/plain", payload)), ALICE.public.hint)
    return archive([(envelope.file_name, envelope.render()), *content().items()])


def two_payloads() -> bytes:
    one, two = statement(content()).render(), statement(content(), subject="other").render()
    return archive([*sorted([*signed_as(one, ALICE), *signed_as(two, EVE)]), *content().items()])


def misnamed() -> bytes:
    ((_, data),) = signed_as(statement(content()).render(), ALICE)
    return archive([("signatures/0123456789abcdef.sig", data), *content().items()])


def tampered(name: str, data: bytes) -> bytes:
    """A signed archive in which one file was replaced afterwards."""
    return archive([(n, data if n == name else d) for n, d in members(seal([ALICE]))])


def two_in_one() -> bytes:
    ((name, data),) = signed_as(statement(content()).render(), ALICE)
    document = json.loads(data)
    document["dsseEnvelope"]["signatures"] *= 2
    return archive([(name, canonical_json(document)), *content().items()])


REFUSED: dict[str, tuple[Callable[[], bytes], type[SigningError], str]] = {
    # 1 to 5: signature files, keys, signatures.
    "1 no signature": (lambda: seal(), Unsigned, "carries no signature"),
    "1 seventeen signatures": (
        lambda: resealed(None, None, ALICE, *(ed25519_key(f"key {i}") for i in range(16))),
        LimitExceeded,
        "more than 16 signatures",
    ),
    "2 not JSON": (
        lambda: archive([("signatures/x.sig", b"{"), *content().items()]),
        JsonInvalid,
        r"signatures/x\.sig",
    ),
    "2 two signatures in one file": (two_in_one, EnvelopeInvalid, "exactly one signature, not 2"),
    "3 a misnamed signature file": (misnamed, EnvelopeInvalid, "must be called"),
    "3 two payloads": (two_payloads, EnvelopeInvalid, "signs another statement than"),
    "4 strangers only": (lambda: seal([EVE]), SignerUnknown, f"key hints: {EVE.public.hint[:16]}"),
    "5 a signature that does not verify": (
        lambda: resealed_with_signature_of(EVE),
        SignatureInvalid,
        "the signature by key 'alice' of alice@acme does not verify",
    ),
    "5 one bad signature beside a good one": (
        lambda: resealed_with_signature_of(EVE, BOB),
        SignatureInvalid,
        "by key 'alice'",
    ),
    # 6, 7: the statement.
    "6 a statement that is no JSON": (lambda: resealed(b"{"), JsonInvalid, "statement: not strict JSON"),
    "6 an overlong statement": (lambda: resealed(b" " * (4 << 20) + b"{}"), LimitExceeded, "the statement has 4194306"),
    "6 an unsafe name": (
        lambda: edited(lambda d: d["predicate"]["resources"][1].update(name="../x")),
        NameInvalid,
        r"'\.\./x' has a part",
    ),
    "6 a name twice": (
        lambda: edited(lambda d: d["predicate"]["resources"].append(d["predicate"]["resources"][0])),
        NameInvalid,
        "stands twice",
    ),
    "7 another payload type": (other_type, StatementInvalid, "the payload type is 'text/plain'"),
    "7 another statement type": (lambda: edited(lambda d: d.update(_type="x")), StatementInvalid, "_type: must be"),
    "7 another predicate type": (
        lambda: edited(lambda d: d.update(predicateType="https://slsa.dev/provenance/v1")),
        StatementInvalid,
        "predicateType: must be",
    ),
    # 9: the manifest.
    "9 a manifest that changed": (
        lambda: tampered("bundle.json", render_manifest(manifest(version=2))),
        DigestMismatch,
        r"'bundle\.json' has SHA-256",
    ),
    "9 a manifest that grew": (
        lambda: tampered("bundle.json", content()["bundle.json"] + b" "),
        SizeMismatch,
        r"'bundle\.json' has \d+ bytes",
    ),
    "9 an overlong manifest": (
        lambda: resealed(None, {"bundle.json": b" " * (256 * 1024) + b"{}", **FILES}),
        LimitExceeded,
        r"bundle\.json has 262146 bytes",
    ),
    "9 a manifest that is none": (
        lambda: resealed(None, {"bundle.json": b"{}", **FILES}),
        ManifestInvalid,
        "schema: is missing",
    ),
    "9 a file that is not signed": (
        lambda: resealed(None, {"bundle.json": render_manifest(manifest())}),
        FileMissing,
        r"names files that the bundle does not hold: model\.onnx",
    ),
    # 10: the policy.
    "10 another name": (lambda: seal([ALICE], "other.tiny"), PolicyRefused, "no rule covers the name 'other.tiny'"),
    "10 expired": (lambda: seal([ALICE], expires="2027-06-01T00:00:00Z"), PolicyRefused, "the bundle expired at"),
    "10 an import not granted": (
        lambda: seal([ALICE], files=FILES | PLUGIN, pre=STAGE | {"imports": ["log"]}),
        PolicyRefused,
        r"asks for \['log'\]",
    ),
    # 11: the other files.
    "11 a file that changed": (
        lambda: tampered("model.onnx", FILES["model.onnx"].swapcase()),
        DigestMismatch,
        r"'model\.onnx' has",
    ),
    "11 a file that shrank": (lambda: tampered("model.onnx", b"short"), SizeMismatch, r"'model\.onnx' has 5 bytes"),
    "11 a file that is missing": (
        lambda: archive(members(seal([ALICE]))[:-1]),
        FileMissing,
        "is signed but not in the archive",
    ),
    "11 a file too many": (
        lambda: archive([*members(seal([ALICE])), ("z", b"")]),
        FileUnexpected,
        "the archive has 'z', which nobody signed",
    ),
    "11 a file twice": (
        lambda: archive([*members(seal([ALICE])), members(seal([ALICE]))[-1]]),
        FileUnexpected,
        "which nobody signed",
    ),
    "11 another order": (
        lambda: archive([*members(seal([ALICE]))[:2], *reversed(members(seal([ALICE]))[2:])]),
        FileUnexpected,
        "must come",
    ),
    "11 a truncated stream": (lambda: seal([ALICE])[:-1], SealTruncated, "before the end of the archive"),
    "11 bytes after the end": (lambda: seal([ALICE]) + b"x", FileUnexpected, "bytes follow the end"),
}


def resealed_with_signature_of(forger: PrivateKey, *others: PrivateKey) -> bytes:
    """An archive with a signature file that claims to be alice's but was made with another key."""
    payload = statement(content()).render()
    forged = Envelope(payload, PAYLOAD_TYPE, Envelope.sign(payload, forger).signature, ALICE.public.hint)
    signatures = sorted([(forged.file_name, forged.render()), *signed_as(payload, *others)])
    return archive([*signatures, *content().items()])


@pytest.mark.parametrize(("make", "error", "why"), REFUSED.values(), ids=REFUSED)
def test_each_step_refuses(make: Callable[[], bytes], error: type[SigningError], why: str) -> None:
    with pytest.raises(error, match=why) as caught:
        opened(make())
    assert caught.value.hint
    assert caught.value.message.isprintable()


def test_step_8_refuses_before_any_file_is_read() -> None:
    signatures_only = archive(members(seal([ALICE]))[:1])
    nowhere = trust({"alice": ALICE, "bob": BOB}, {"keys": ["bob"]})
    with pytest.raises(SignerUnknown, match="no rule lets alice sign any model"):
        opened(signatures_only, nowhere)
    revoked = trust({"alice": ALICE, "bob": BOB}, tail=f'[revoked]\nkeys = ["{ALICE.public.fingerprint}"]')
    with pytest.raises(SignerUnknown, match="every key that signed is revoked: alice"):
        opened(signatures_only, revoked)
    with pytest.raises(FileMissing, match=r"'bundle\.json' is signed but not in the archive"):
        opened(signatures_only)


def test_step_10_refuses_before_any_other_file_is_read() -> None:
    manifest_only = archive(members(seal([ALICE], "other.tiny"))[:2])
    with pytest.raises(PolicyRefused):
        opened(manifest_only)


def test_a_revoked_signer_beside_a_good_one_does_no_harm() -> None:
    policy = trust({"alice": ALICE, "bob": BOB}, tail=f'[revoked]\nkeys = ["{BOB.public.fingerprint}"]')
    bundle = opened(seal([ALICE, BOB]), policy)
    assert bundle.verdict.holders == ("alice@acme",)


def test_a_pending_bundle_is_not_opened() -> None:
    with pytest.raises(PolicyRefused, match="pending: 1 of 2 holders") as caught:
        opened(seal([ALICE]), trust({"alice": ALICE, "bob": BOB}, {"threshold": 2}))
    assert caught.value.data["verdict"]["state"] == "pending"


def test_the_moment_is_asked_for_with_the_manifest() -> None:
    asked: list[tuple[str, int]] = []

    def moment(manifest: Manifest) -> Moment:
        asked.append((manifest.name, manifest.version))
        return Moment(NOW, newest=manifest.version)

    with pytest.raises(PolicyRefused, match="version 3 is not above 3"):
        open_bundle(SealReader(io.BytesIO(seal([ALICE], version=3))), POLICY, moment, Discard())
    assert asked == [("acme.tiny", 3)]


def test_plugins_are_limited_to_64_mib() -> None:
    with_plugin = parse_manifest(render_manifest(manifest(pre=STAGE)))
    sizes = {"model.onnx": 1, "plugins/pre.wasm": 64 << 20}
    check_files(with_plugin, sizes)
    with pytest.raises(LimitExceeded, match=r"'plugins/pre\.wasm' has 67108865 bytes, over 67108864"):
        check_files(with_plugin, {**sizes, "plugins/pre.wasm": (64 << 20) + 1})


class Recorder:
    """A sink that records what it is given and may stop early."""

    def __init__(self, most: int = 1 << 60) -> None:
        self.written: list[str] = []
        self._most = most

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        taken = 0
        while taken < self._most and (chunk := next(chunks, None)) is not None:
            taken += len(chunk)
        self.written.append(resource.name)


def test_the_sink_gets_every_file_in_transfer_order() -> None:
    sink = Recorder()
    opened(seal([ALICE]), sink=sink)
    assert sink.written == list(content())


def test_a_sink_that_stops_early_skips_no_check() -> None:
    large = {**FILES, "model.onnx": bytes(3 << 20)}
    good = seal([ALICE], files=large)
    opened(good, sink=Recorder(most=1))
    bad = bytearray(good)
    bad[-1536 - 512] ^= 1  # in the last chunk of the model
    with pytest.raises(SigningError):
        opened(bytes(bad), sink=Recorder(most=1))


def test_a_sink_never_sees_a_file_through_whose_digest_is_wrong() -> None:
    sink = Recorder()
    with pytest.raises(DigestMismatch):
        opened(tampered("model.onnx", FILES["model.onnx"].swapcase()), sink=sink)
    assert "model.onnx" not in sink.written
