"""What is sent to a host's registry in the wrong order, twice, by others, or in place of something else."""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offers import Offers, Publisher
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.revocations import Revocations
from sandseal_host.registry.trust import Trust
from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.keys import PrivateKey
from sandseal_signing.permit import PERMIT_TYPE, Permit
from support.bundles import FILES, archive, trust, trust_text
from support.data_folder import DataFolder
from support.journal import JournalDouble
from vectors.hostile.case import ALICE, BOB, EVE, Case, bundle, content, statement_of

KEYS = {"alice": ALICE, "bob": BOB}
ROOT = '[root]\nkeys = ["alice", "bob"]\nthreshold = 2\n'
ROOTED = trust_text(KEYS, serial=2, tail=ROOT)
NEXT = trust_text(KEYS, serial=3, tail=ROOT)
MODEL = Digest.of(FILES["model.onnx"])
_BOB_REVOKED = f'[revoked]\nkeys = ["{BOB.public.fingerprint}"]\n'


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, document) in _POLICIES.items():
        yield f"root-{name}", _root_case(stands_for, document)
    yield (
        "root-where-there-is-none",
        _root_case("off unless the operator wants it", _HONEST, trust_text(KEYS, serial=2)),
    )
    yield "root-by-a-revoked-key", _root_case("revocation", _HONEST, ROOTED + _BOB_REVOKED)
    for name, (stands_for, attempt) in _AT_A_HOST.items():
        yield name, Case(stands_for, lambda folder, attempt=attempt: _at_a_host(folder, attempt))


# --- policies that [root] signed ---


def _signed(text: str, *keys: PrivateKey, kind: str = TRUST_TYPE) -> Document:
    return Document(text.encode(), kind).sign(keys or (ALICE, BOB))


def _root_case(stands_for: str, document: Document, before: str = ROOTED) -> Case:
    return Case(stands_for, lambda folder: _replace(folder, document.render(), before))


def _replace(folder: Path, envelope: bytes, before: str) -> None:
    """Bring a policy to a host that has this one, and see that a refused one changes nothing."""
    file = folder / "trust.toml"
    file.write_text(before)
    with Catalog("sqlite://") as catalog:
        held = Trust(PolicyFile(file), Revocations(catalog, JournalDouble()), JournalDouble())
        try:
            held.replace(envelope, "eve")
        finally:
            assert file.read_text() == before or held.current().serial == 3


_HONEST = _signed(NEXT)
_POLICIES = {
    "honest": ("what is right is taken", _HONEST),
    "one-of-two": ("a threshold that is not met", _signed(NEXT, ALICE)),
    "one-and-a-stranger": ("a threshold that is not met", _signed(NEXT, ALICE, EVE)),
    "signed-as-a-permit": (
        "DSSE: the payload type is signed",
        replace(_signed(NEXT, kind=PERMIT_TYPE), payload_type=TRUST_TYPE),
    ),
    "of-the-type-of-permits": ("one signature, two meanings", _signed(NEXT, kind=PERMIT_TYPE)),
    "payload-changed": ("a byte changed", replace(_HONEST, payload=NEXT.replace("acme.", "*.").encode())),
    "of-the-same-serial": ("rollback", _signed(ROOTED)),
    "of-an-older-serial": ("rollback", _signed(trust_text(KEYS, serial=1, tail=ROOT))),
    "that-is-none": ("a signature makes nothing valid", _signed("serial = ")),
    "that-names-a-file": (
        "what is signed is what counts",
        _signed(NEXT.replace(f'"""{ALICE.public.inline}"""', '"/etc/passwd"')),
    ),
    "signed-by-its-own-root": (
        "only the policy in force says who may",
        _signed(NEXT.replace('["alice", "bob"]\nthreshold = 2', '["alice"]\nthreshold = 1'), ALICE),
    ),
}


# --- permits and offers ---


class _Host:
    """A data folder with `acme.tiny` version 7 in it, and offers."""

    def __init__(self, folder: Path) -> None:
        self.data = DataFolder(folder, trust(KEYS))
        self.offers = Offers(
            self.data.registry,
            self.data.store,
            lambda: self.data.policy,
            folder / "blobs" / "offers",
            OfferLimits(open=1, bundle=4096, reserve=0),
        )
        self.push(SEVEN)

    def close(self) -> None:
        self.data.stop()

    def push(self, files: Mapping[str, bytes]) -> Digest:
        taken = self.data.registry.accept(io.BytesIO(archive(bundle(files=files))), lambda _: None)
        return taken.id

    def bring(self, permit: Permit, *keys: PrivateKey) -> None:
        self.data.registry.permits.add(Document(permit.render(), PERMIT_TYPE).sign(keys or (ALICE,)).render(), "eve")

    def offer(self, by: Publisher, files: Mapping[str, bytes], *keys: PrivateKey) -> Digest:
        return self.offers.make(_head(files, *keys), by).id

    def send(self, offer: Digest, by: Publisher, data: bytes, at: int = 0, digest: Digest = MODEL) -> None:
        self.offers.write(offer, digest, at, io.BytesIO(data), by)


SEVEN, SIX, FIVE = (content({"model.onnx": b"%d" % version}, version=version) for version in (7, 6, 5))
NEW = content(version=8)
PERMIT = Permit(
    "acme.tiny",
    Digest.of(statement_of(SEVEN).render()),
    Digest.of(statement_of(SIX).render()),
    datetime(2999, 1, 1, tzinfo=UTC),
    "a-nonce-of-16-or-more",
)
ONE, OTHER = (Publisher(name, name, lambda _: True) for name in ("one", "other"))


def _at_a_host(folder: Path, attempt: Callable[[_Host], object]) -> None:
    with closing(_Host(folder)) as host:
        attempt(host)


def _head(files: Mapping[str, bytes], *keys: PrivateKey) -> bytes:
    """The front of an archive, to the end of bundle.json."""
    front = [member for member in bundle(*keys, files=files) if member[0] not in FILES]
    return archive(front)[:-1024]


def _steps(*steps: Callable[[_Host], object]) -> Callable[[_Host], object]:
    """One after the other; the last is the attack."""
    return lambda host: [step(host) for step in steps]


def _in_offer(*steps: Callable[[_Host, Digest], object]) -> Callable[[_Host], object]:
    def attempt(host: _Host) -> None:
        offer = host.offer(ONE, NEW)
        for step in steps:
            step(host, offer)

    return attempt


def _bring(host: _Host) -> None:
    host.bring(PERMIT)


def _six(host: _Host) -> Digest:
    return host.push(SIX)


def _another_manifest(host: _Host) -> None:
    """A front whose bundle.json has one bit more than was signed."""
    *signatures, (name, manifest) = [member for member in bundle(files=NEW) if member[0] not in FILES]
    host.offers.make(archive([*signatures, (name, manifest.replace(b"8", b"9"))])[:-1024], ONE)


_AT_A_HOST: dict[str, tuple[str, Callable[[_Host], object]]] = {
    "downgrade-without-permit": ("rollback", _six),
    "downgrade-with-permit": ("what is right is taken", _steps(_bring, _six)),
    "downgrade-of-another-bundle": ("a permit for one bundle", _steps(_bring, lambda host: host.push(FIVE))),
    "downgrade-replayed": (
        "replay",
        _steps(_bring, lambda host: host.data.registry.delete(host.push(SIX)), _six),
    ),
    "downgrade-permit-brought-again": (
        "replay",
        _steps(_bring, lambda host: host.data.registry.delete(host.push(SIX)), _bring),
    ),
    "downgrade-permit-signed-again": ("replay", _steps(_bring, _six, lambda host: host.bring(PERMIT, BOB))),
    "downgrade-overtaken": ("a permit for one state", _steps(_bring, lambda host: host.push(NEW), _six)),
    "downgrade-from-elsewhere": (
        "a permit for one state",
        lambda host: host.bring(replace(PERMIT, source=Digest("0" * 64))),
    ),
    "downgrade-signer-revoked-meanwhile": (
        "revocation",
        _steps(
            lambda host: host.bring(PERMIT, BOB),
            lambda host: setattr(host.data, "policy", trust(KEYS, tail=_BOB_REVOKED)),
            _six,
        ),
    ),
    "downgrade-by-a-stranger": ("who may publish what", lambda host: host.bring(PERMIT, EVE)),
    "downgrade-to-what-is-there": (
        "a step that is none",
        _steps(lambda host: host.push(NEW), lambda host: host.bring(
            replace(PERMIT, source=Digest.of(statement_of(NEW).render()), target=PERMIT.source)
        )),
    ),
    "offer-honest": (
        "what is right is taken",
        _in_offer(
            lambda host, offer: host.send(offer, ONE, FILES["model.onnx"]),
            lambda host, offer: host.send(offer, ONE, FILES["README.md"], digest=Digest.of(FILES["README.md"])),
            lambda host, offer: host.offers.finish(offer, lambda _: None, ONE),
        ),
    ),
    "offer-by-a-stranger": ("nothing is taken from nobody", lambda host: host.offer(ONE, NEW, EVE)),
    "offer-of-an-older-version": ("rollback", lambda host: host.offer(ONE, SIX)),
    "offer-cut-short": ("truncation", lambda host: host.offers.make(_head(NEW)[:-600], ONE)),
    "offer-with-more": ("bytes that nobody asked for", lambda host: host.offers.make(_head(NEW) + bytes(512), ONE)),
    "offer-with-another-manifest": ("a manifest that nobody signed", _another_manifest),
    "offer-beyond-the-limit": (
        "filling the disk",
        lambda host: host.offer(ONE, content({"model.onnx": bytes(5000)}, version=8)),
    ),
    "offer-one-too-many": (
        "filling the disk",
        _in_offer(lambda host, _: host.offer(ONE, content({"model.onnx": b"other"}, version=9))),
    ),
    "offer-blob-not-in-it": (
        "an oracle: is this blob stored?",
        _in_offer(lambda host, offer: host.offers.blob(offer, Digest.of(b"7"), ONE)),
    ),
    "offer-blob-by-another-token": (
        "an oracle: is this offered?",
        _in_offer(lambda host, offer: host.offers.blob(offer, MODEL, OTHER)),
    ),
    "offer-blob-too-long": (
        "filling the disk",
        _in_offer(lambda host, offer: host.send(offer, ONE, FILES["model.onnx"] + b"!")),
    ),
    "offer-blob-with-a-gap": ("holes", _in_offer(lambda host, offer: host.send(offer, ONE, b"x", at=100))),
    "offer-blob-with-other-bytes": (
        "bytes that nobody signed",
        _in_offer(
            lambda host, offer: host.send(offer, ONE, FILES["model.onnx"][::-1]),
            lambda host, offer: host.send(offer, ONE, FILES["README.md"], digest=Digest.of(FILES["README.md"])),
            lambda host, offer: host.offers.finish(offer, lambda _: None, ONE),
        ),
    ),
    "offer-finished-early": (
        "holes",
        _in_offer(lambda host, offer: host.offers.finish(offer, lambda _: None, ONE)),
    ),
    "offer-finished-by-another-token": (
        "taking over what another sent",
        _in_offer(lambda host, offer: host.offers.finish(offer, lambda _: None, OTHER)),
    ),
    "offer-withdrawn-by-another-token": (
        "ending what another sends",
        _in_offer(lambda host, offer: host.offers.withdraw(offer, OTHER)),
    ),
}  # fmt: skip
