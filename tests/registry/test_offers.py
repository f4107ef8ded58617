"""Offers: judged by their head, sent in pieces, hashed when finished, and no way to learn or to fill anything."""

import io
import shutil
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from sandseal_host.errors import (
    BlobUnknown,
    BundleUnknown,
    ModelInvalid,
    NotReady,
    OfferIncomplete,
    OffsetWrong,
    QuotaExceeded,
    StoreError,
    TooLarge,
    VersionStale,
)
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offers import Offers, Publisher
from sandseal_host.registry.pending import Pending
from sandseal_signing.digest import Digest
from sandseal_signing.errors import (
    DigestMismatch,
    FileMissing,
    FileUnexpected,
    SealTruncated,
    SignerUnknown,
    SizeMismatch,
    Unsigned,
)
from support.bundles import FILES, members, seal, trust
from support.data_folder import DataFolder

MODEL, README = (Digest.of(FILES[name]) for name in ("model.onnx", "README.md"))


def token(name: str = "one", pattern: str = "") -> Publisher:
    return Publisher(f"id-{name}", name, lambda model: model.startswith(pattern))


def vet(_) -> None:
    pass


def head(archive: bytes) -> bytes:
    """The archive up to the end of bundle.json."""
    at, ahead = 0, True
    for name, data in members(archive):
        if ahead:
            at += 512 + len(data) + -len(data) % 512
        ahead = ahead and name != "bundle.json"
    return archive[:at]


class Desk:
    """Offers on a data folder, and short ways to use them."""

    def __init__(self, data: DataFolder, **limits) -> None:
        self.data, self.limits = data, limits
        self.start()

    def start(self) -> None:
        limits = OfferLimits(**{"reserve": 0, **self.limits})
        self.folder = self.data.folder / "blobs" / "offers"
        self.offers = Offers(self.data.registry, self.data.store, lambda: self.data.policy, self.folder, limits)

    def make(self, archive: bytes, by: Publisher | None = None) -> dict[Digest, int]:
        """The id of the offer, and what is missing with its offset."""
        offer = self.offers.make(head(archive), by or token())
        self.id = offer.id
        return {blob.digest: blob.offset for blob in offer.missing}

    def send(self, digest: Digest, content: bytes, at: int = 0, by: Publisher | None = None) -> int:
        return self.offers.write(self.id, digest, at, io.BytesIO(content), by or token()).offset

    def finish(self, by: Publisher | None = None, vet=vet):
        return self.offers.finish(self.id, vet, by or token())

    def left(self) -> list[Path]:
        return sorted(self.folder.iterdir())


@pytest.fixture
def desk(data) -> Desk:
    return Desk(data)


def test_an_offer_becomes_what_an_upload_would_have_become(desk, data, alice):
    archive = seal([alice])
    assert desk.make(archive) == {MODEL: 0, README: 0}
    assert desk.send(MODEL, FILES["model.onnx"][:700]) == 700
    assert desk.make(archive) == {MODEL: 700, README: 0}
    assert desk.send(MODEL, FILES["model.onnx"][700:], 700) == len(FILES["model.onnx"])
    with pytest.raises(OfferIncomplete) as early:
        desk.finish()
    assert early.value.data["missing"] == [README.hex]
    desk.send(README, FILES["README.md"])
    seen = []
    taken = desk.finish(vet=lambda bundle: seen.append({resource.name for resource in bundle.statement.resources}))
    assert isinstance(taken, Accepted)
    assert taken == data.registry.find("acme.tiny")
    assert seen == [{*FILES, "bundle.json"}]
    stored = {path: (data.folder / "blobs" / path).stat() for path in data.files()}
    assert {status.st_mode & 0o777 for status in stored.values()} == {0o444}
    assert {status.st_nlink for status in stored.values()} == {1}
    assert desk.left() == []
    with pytest.raises(BundleUnknown):
        desk.finish()


def test_a_pending_bundle_can_be_offered_too(tmp_path, alice, bob):
    data = DataFolder(tmp_path, trust({"alice": alice, "bob": bob}, {"threshold": 2}))
    desk = Desk(data)
    desk.make(seal([alice]))
    for digest, name in ((MODEL, "model.onnx"), (README, "README.md")):
        desk.send(digest, FILES[name])
    assert isinstance(desk.finish(vet=lambda _: pytest.fail("nobody looks inside yet")), Pending)
    assert desk.left() == []
    data.stop()


@pytest.mark.parametrize(
    ("archive", "error"),
    [
        (lambda a, b: seal([]), Unsigned),
        (lambda a, b: seal([b]), SignerUnknown),
        (lambda a, b: seal([a])[:700], SealTruncated),
        (lambda a, b: seal([a], version=1), VersionStale),
    ],
)
def test_a_head_that_an_upload_would_fail_with_is_refused_and_leaves_nothing(desk, data, alice, bob, archive, error):
    data.registry.accept(io.BytesIO(seal([alice], version=1, files={**FILES, "x": b""})), vet)
    whole = archive(alice, bob)
    with pytest.raises(error):
        desk.offers.make(whole if error is SealTruncated else head(whole), token())
    assert desk.left() == []


def test_a_head_ends_with_the_manifest(desk, alice):
    archive = seal([alice])
    for data, error in ((archive, FileUnexpected), (head(archive) + bytes(512), FileUnexpected), (b"", SealTruncated)):
        with pytest.raises(error):
            desk.offers.make(data, token())
    assert desk.left() == []


def test_nothing_is_said_about_blobs_that_this_offer_does_not_expect(desk, data, alice):
    desk.make(seal([alice]), token("one"))
    stranger = Digest.of(b"nobody has this")
    with pytest.raises(BlobUnknown) as unknown:
        desk.offers.blob(desk.id, stranger, token("one"))
    with pytest.raises(BlobUnknown) as others:
        desk.offers.blob(desk.id, MODEL, token("two"))
    assert others.value.message.replace(MODEL.hex, "") == unknown.value.message.replace(stranger.hex, "")
    with pytest.raises(BundleUnknown):
        desk.finish(token("two"))
    with pytest.raises(BundleUnknown):
        desk.offers.withdraw(desk.id, token("two"))


def test_blobs_are_spared_only_within_what_the_rule_and_the_token_cover(tmp_path, alice, bob):
    rules = ({"models": ["acme.*"], "keys": ["alice"]}, {"models": ["other.*"], "keys": ["bob"]})
    data = DataFolder(tmp_path, trust({"alice": alice, "bob": bob}, *rules))
    data.registry.accept(io.BytesIO(seal([alice], version=1)), vet)
    desk = Desk(data)
    assert desk.make(seal([alice], version=2)) == {}  # the same rule
    assert desk.finish().version == 2
    assert desk.make(seal([alice], "acme.b")) == {}
    assert set(desk.make(seal([alice], "acme.c"), token("narrow", "acme.c"))) == {MODEL, README}
    assert set(desk.make(seal([bob], "other.a"), token("two"))) == {MODEL, README}
    wide = Desk(data, share=True)
    assert wide.make(seal([bob], "other.b"), token("two")) == {}
    assert wide.finish(token("two")).name == "other.b"
    data.stop()


def test_a_damaged_blob_alone_is_sent_again(desk, alice):
    archive = seal([alice])
    desk.make(archive)
    desk.send(README, FILES["README.md"])
    desk.send(MODEL, bytes(len(FILES["model.onnx"])))
    with pytest.raises(DigestMismatch):
        desk.finish()
    assert desk.make(archive) == {MODEL: 0}
    desk.send(MODEL, FILES["model.onnx"])
    assert desk.finish().name == "acme.tiny"


def test_a_spared_blob_that_is_damaged_or_gone_is_sent_after_all_and_repaired(desk, data, alice):
    data.registry.accept(io.BytesIO(seal([alice], version=1)), vet)
    stored = data.folder / "blobs" / "sha256" / MODEL.hex[:2] / MODEL.hex
    stored.chmod(0o644)
    stored.write_bytes(bytes(len(FILES["model.onnx"])))
    archive = seal([alice], version=2)
    assert desk.make(archive) == {}
    with pytest.raises(DigestMismatch):
        desk.finish()
    assert desk.make(archive) == {MODEL: 0}
    stored.unlink()
    desk.send(MODEL, FILES["model.onnx"])
    assert desk.finish().version == 2
    assert stored.read_bytes() == FILES["model.onnx"]
    data.registry.open(data.registry.find("acme.tiny", 1).id)


def test_refused_for_good_ends_the_offer_and_a_broken_host_does_not(desk, data, alice):
    def refuse(error):
        raise error

    for archive, error, left in (
        (seal([alice]), StoreError("the disk is gone"), 1),
        (seal([alice]), ModelInvalid("no model"), 0),
    ):
        for digest in desk.make(archive):
            desk.send(digest, FILES["model.onnx"] if digest == MODEL else FILES["README.md"])
        with pytest.raises(type(error)):
            desk.finish(vet=lambda _, error=error: refuse(error))
        assert len(desk.left()) == left
        assert not [path for path in data.files() if path.startswith("sha256")]


def test_pieces(desk, alice):
    desk.make(seal([alice]))
    content = FILES["model.onnx"]
    desk.send(MODEL, content[:100])
    for at in (50, 99, 101, len(content)):
        with pytest.raises(OffsetWrong) as wrong:
            desk.send(MODEL, b"x", at)
        assert wrong.value.data["offset"] == 100
    assert desk.send(MODEL, content[:10]) == 10  # from the first byte: it starts again
    with pytest.raises(SizeMismatch):
        desk.send(MODEL, content + b"more", 0)
    assert desk.send(MODEL, content) == len(content)
    assert desk.send(MODEL, b"", len(content)) == len(content)


def test_of_two_writers_the_later_one_goes_on(desk, alice):
    desk.make(seal([alice]))
    reading, go_on = threading.Event(), threading.Event()

    class Slow(io.RawIOBase):
        pieces = 0

        def readinto(self, buffer):
            self.pieces += 1
            if self.pieces == 2:
                reading.set()
                go_on.wait(60)
            buffer[:100] = b"s" * 100
            return 100

    errors = []

    def slow():
        try:
            desk.offers.write(desk.id, MODEL, 0, Slow(), token())
        except OffsetWrong as error:
            errors.append(error)

    thread = threading.Thread(target=slow)
    thread.start()
    assert reading.wait(60)
    assert desk.send(MODEL, FILES["model.onnx"], 0) == len(FILES["model.onnx"])
    go_on.set()
    thread.join(60)
    assert len(errors) == 1
    desk.send(README, FILES["README.md"])
    assert desk.finish().name == "acme.tiny"


def test_while_it_is_finished_nobody_writes_finishes_or_withdraws(desk, alice):
    desk.make(seal([alice]))
    desk.send(MODEL, FILES["model.onnx"])
    desk.send(README, FILES["README.md"])

    def look(_):
        for forbidden in (
            partial(desk.send, MODEL, b"x"),
            desk.finish,
            lambda: desk.offers.withdraw(desk.id, token()),
        ):
            with pytest.raises(NotReady):
                forbidden()
        desk.offers.expire()

    assert desk.finish(vet=look).name == "acme.tiny"


def test_quotas(data, alice):
    size = sum(map(len, FILES.values()))
    desk = Desk(data, open=2, bytes=2 * size)
    desk.make(seal([alice], "acme.a"))
    desk.make(seal([alice], "acme.a"))
    desk.make(seal([alice], "acme.b"))
    with pytest.raises(QuotaExceeded, match="2 open offers"):
        desk.make(seal([alice], "acme.c"))
    desk.make(seal([alice], "acme.c"), token("two"))
    desk.offers.withdraw(desk.id, token("two"))
    few = Desk(data, bytes=2 * size - 1)
    with pytest.raises(QuotaExceeded, match="are over"):
        few.make(seal([alice], "acme.b", version=2))
    with pytest.raises(TooLarge):
        Desk(data, bundle=size - 1).make(seal([alice], "acme.b"))


def test_the_disks_reserve_is_kept_before_a_byte_is_taken(data, alice, monkeypatch):
    size = sum(map(len, FILES.values()))
    desk = Desk(data, reserve=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 1000 + 2 * size - 1))
    desk.make(seal([alice], "acme.a"))
    with pytest.raises(StoreError, match="bytes more") as refused:
        desk.make(seal([alice], "acme.b"))
    assert refused.value.data["needed"] == size
    assert len(desk.left()) == 1


def test_offers_expire_with_all_that_arrived(data, alice):
    desk = Desk(data, life=timedelta(0))
    desk.make(seal([alice]))
    with pytest.raises(BlobUnknown):
        desk.send(MODEL, b"x")
    desk.offers.expire()
    assert desk.left() == []
    assert desk.offers.statistics().offers == 0


def test_an_offer_survives_a_restart_of_the_host(desk, data, alice):
    archive = seal([alice])
    desk.make(archive)
    desk.send(MODEL, FILES["model.onnx"][:100])
    (desk.folder / ("0" * 32 + "." + "1" * 64)).mkdir()
    (desk.folder / "rubbish").mkdir()
    data.restart()
    desk.start()
    assert len(desk.left()) == 1
    statistics = desk.offers.statistics()
    assert (statistics.offers, statistics.bytes - statistics.outstanding) == (1, 100)
    assert desk.send(MODEL, FILES["model.onnx"][100:], 100) == len(FILES["model.onnx"])
    assert desk.make(archive) == {README: 0}
    desk.send(README, FILES["README.md"])
    assert desk.finish().name == "acme.tiny"


def test_a_policy_that_changed_meanwhile_counts(desk, data, alice, bob):
    desk.make(seal([alice]))
    desk.send(MODEL, FILES["model.onnx"])
    desk.send(README, FILES["README.md"])
    data.policy = trust({"bob": bob})
    with pytest.raises(SignerUnknown):
        desk.finish()
    assert desk.left() == []


def test_empty_files_need_not_be_sent(desk, alice):
    assert set(desk.make(seal([alice], files={**FILES, "empty": b""}))) == {MODEL, README}
    desk.send(MODEL, FILES["model.onnx"])
    desk.send(README, FILES["README.md"])
    assert desk.finish().name == "acme.tiny"


def test_a_blob_that_vanished_from_the_store_is_expected_again(desk, data, alice):
    data.registry.accept(io.BytesIO(seal([alice], version=1)), vet)
    archive = seal([alice], version=2)
    desk.make(archive)
    (data.folder / "blobs" / "sha256" / MODEL.hex[:2] / MODEL.hex).unlink()
    with pytest.raises(FileMissing):
        desk.finish()
    assert desk.make(archive) == {MODEL: 0}
