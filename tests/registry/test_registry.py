"""Uploads taken in whole or not at all, bundles verified again at every load, versions that only grow."""

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_host.errors import BundleUnknown, ModelInvalid, ModelUnknown, StoreError, VersionStale
from sandseal_host.registry.registry import RegistryStatistics
from sandseal_signing.bundle import Bundle
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import (
    DigestMismatch,
    FileMissing,
    FileUnexpected,
    JsonInvalid,
    PolicyRefused,
    SandsealError,
    SealInvalid,
    SealTruncated,
    SignatureInvalid,
    SignerUnknown,
    SizeMismatch,
    Unsigned,
)
from sandseal_signing.seal import render_header
from sandseal_signing.statement import Resource, Statement
from support.bundles import FILES, archive, members, seal, trust


def good(_: Bundle) -> None:
    pass


def push(data, archive: bytes, vet: Callable[[Bundle], None] = good):
    return data.registry.accept(io.BytesIO(archive), vet)


def refuse(data, archive: bytes, error: type[SandsealError], vet: Callable[[Bundle], None] = good) -> SandsealError:
    """Push what must be refused, and see that it left nothing in the folder or the catalog."""
    files, bundles = data.files(), data.registry.list()
    with pytest.raises(error) as refused:
        push(data, archive, vet)
    assert data.files() == files
    assert data.registry.list() == bundles
    return refused.value


# --- accepted ---


def test_an_accepted_bundle_says_who_signed_it_and_why_it_was_accepted(data, alice, bob):
    accepted = push(data, seal([alice, bob], version=3, release="0.3"))
    assert (accepted.name, accepted.version, accepted.release) == ("acme.tiny", 3, "0.3")
    assert [(signer.key, signer.fingerprint) for signer in accepted.signers] == [("alice", alice.public.fingerprint)]
    assert accepted.unknown == (bob.public.hint,)
    assert (accepted.rule, accepted.holders, accepted.threshold) == (0, ("alice@acme",), 1)
    assert {reason.check for reason in accepted.reasons if reason.holds} == {"rule", "signer", "threshold"}
    assert datetime.now(UTC) - accepted.accepted_at < timedelta(minutes=1)
    assert data.registry.get(accepted.id) == data.registry.find("acme.tiny") == accepted
    assert data.registry.find("acme.tiny", 3) == accepted
    assert data.registry.list() == (accepted,)


def test_vetting_sees_the_stored_bytes_before_anything_is_visible(data, alice):
    def vet(bundle: Bundle) -> None:
        assert {**bundle.files, "bundle.json": b""} == {**FILES, "bundle.json": b""}
        assert set(data.files().values()) == set(bundle.files.values())
        assert data.registry.list() == ()

    push(data, seal([alice]), vet)


def test_files_are_stored_once_by_digest_and_read_only(data, alice):
    push(data, seal([alice], version=1))
    push(data, seal([alice], version=2))
    assert len(data.files()) == 2 + 2  # two manifests, and the model and its card once
    for name, content in data.files().items():
        path = data.folder / "blobs" / name
        assert path.name == Digest.of(content).hex
        assert name.startswith(f"sha256/{path.name[:2]}/")
        assert path.stat().st_mode & 0o777 == 0o444
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_restart_keeps_everything(data, alice):
    accepted = push(data, seal([alice]))
    data.registry.intend("acme.tiny", 1)
    bundle = data.registry.open(accepted.id)
    data.restart()
    assert data.registry.list() == (accepted,)
    assert data.registry.intended() == {"acme.tiny": {1: 1}}
    assert data.registry.open(accepted.id) == bundle
    refuse(data, seal([alice], release="other bytes"), VersionStale)


def test_the_same_bundle_again_is_answered_with_its_acceptance(data, alice):
    accepted = push(data, seal([alice]))
    push(data, seal([alice], version=2))

    def never(_: Bundle) -> None:
        pytest.fail("an accepted bundle is not vetted again")

    assert push(data, seal([alice]), never) == accepted
    assert data.registry.statistics().uploads == {"accepted": 2, "repeated": 1}


def test_the_same_bundle_again_is_still_checked_to_its_end(data, alice):
    push(data, seal([alice]))
    refuse(data, seal([alice])[:-1], SealTruncated)
    refuse(data, seal([alice]) + b"\0", FileUnexpected)


# --- refused ---


def test_an_unsigned_bundle_is_refused(data):
    refuse(data, seal(), Unsigned)


def test_a_strangers_bundle_is_refused(data, bob):
    refuse(data, seal([bob]), SignerUnknown)


def test_a_name_that_the_key_may_not_publish_is_refused(data, alice):
    assert "no rule covers" in str(refuse(data, seal([alice], name="other.tiny"), PolicyRefused))


def test_an_expired_bundle_is_refused(data, alice):
    assert "expired" in str(refuse(data, seal([alice], expires="2020-01-01T00:00:00Z"), PolicyRefused))


def test_an_older_or_equal_version_is_refused(data, alice):
    push(data, seal([alice], version=5))
    for version in (4, 5):
        error = refuse(data, seal([alice], version=version, release="new"), VersionStale)
        assert f"version {version} is not above 5" in str(error)


def test_a_stale_version_for_which_another_reason_counts_too_is_refused_by_policy(data, alice):
    push(data, seal([alice], version=5))
    refuse(data, seal([alice], version=4, expires="2020-01-01T00:00:00Z"), PolicyRefused)


def test_what_vetting_refuses_leaves_nothing(data, alice):
    def vet(_: Bundle) -> None:
        raise ModelInvalid("the graph does not load")

    refuse(data, seal([alice]), ModelInvalid, vet)
    push(data, seal([alice]))  # nor is its version used up


@pytest.mark.parametrize("member", range(4), ids=["signature", "manifest", "card", "model"])
@pytest.mark.parametrize("at", [0, 0.5, 1], ids=["first", "middle", "last"])
def test_a_changed_byte_is_refused_wherever_it_is(data, alice, member, at):
    parts = members(seal([alice]))
    name, content = parts[member]
    changed = bytearray(content)
    changed[int(at * (len(content) - 1))] ^= 1
    parts[member] = (name, bytes(changed))
    refuse(data, archive(parts), SandsealError if member == 0 else DigestMismatch)


def test_a_changed_signature_is_refused(data, alice, bob):
    (name, mine), *rest = members(seal([alice]))
    (_, other), *_ = members(seal([alice], version=2))
    refuse(data, archive([(name, mine.replace(b'"sig":"', b'"sig":"AAAA')), *rest]), SignatureInvalid)
    refuse(data, archive([(name, other), *rest]), DigestMismatch)
    refuse(data, archive([(name, b"{"), *rest]), JsonInvalid)


@pytest.mark.slow
def test_every_byte_of_the_archive_counts(data, alice):
    whole = seal([alice], files={"model.onnx": b"m" * 600})
    for at in range(0, len(whole), 199):
        changed = bytearray(whole)
        changed[at] ^= 0x20
        refuse(data, bytes(changed), SandsealError)


@pytest.mark.slow
def test_a_truncated_stream_is_refused_wherever_it_ends(data, alice):
    whole = seal([alice], files={"model.onnx": b"m" * 600})
    boundaries = range(0, len(whole), 512)
    for end in {
        0,
        1,
        *boundaries,
        *(at + 1 for at in boundaries),
        *(at - 1 for at in boundaries if at),
        len(whole) - 1,
    }:
        refuse(data, whole[:end], SealTruncated)


def test_a_missing_an_extra_and_a_misplaced_file_are_refused(data, alice):
    parts = members(seal([alice]))
    refuse(data, archive(parts[:-1]), FileMissing)
    refuse(data, archive(parts[:2] + parts[3:]), FileUnexpected)
    refuse(data, archive([*parts, ("zz.txt", b"more")]), FileUnexpected)
    refuse(data, archive([*parts, parts[-1]]), FileUnexpected)
    refuse(data, archive([parts[0], parts[1], parts[3], parts[2]]), FileUnexpected)


@pytest.mark.parametrize("change", [b"", b"more"])
def test_a_file_of_the_wrong_size_is_refused(data, alice, change):
    *parts, (name, content) = members(seal([alice]))
    refuse(data, archive([*parts, (name, content + change if change else content[:-1])]), SizeMismatch)


def test_bytes_that_are_no_archive_are_refused(data):
    refuse(data, b"x" * 4096, SealInvalid)


def test_a_stream_that_breaks_leaves_nothing_and_its_own_error_goes_through(data, alice):
    class Breaking(io.BytesIO):
        def readinto(self, buffer):
            if self.tell() > 3000:
                raise ConnectionResetError("gone")
            return super().readinto(buffer)

    with pytest.raises(ConnectionResetError):
        data.registry.accept(Breaking(seal([alice])), good)
    assert data.files() == {}
    assert data.registry.statistics().uploads == {"broken": 1}


def test_a_file_larger_than_the_disk_is_refused_with_the_figures(data, alice):
    huge = 1 << 52
    data.policy = trust({"alice": alice}, {"max_limits": Toml("{total_mib = 9007199254740991}")})
    error = refuse(data, claiming(alice, huge), StoreError)
    assert error.data["needed"] == huge
    assert 0 < error.data["free"] < huge


class Toml(str):
    """TOML text, written as it stands."""

    __slots__ = ()
    __repr__ = str.__str__


def claiming(key, size: int) -> bytes:
    """An archive whose signed model has `size` bytes, cut off after the model's header."""
    content = dict(members(seal()))["bundle.json"]
    statement = Statement.of(
        "acme.tiny",
        [
            Resource("bundle.json", Digest.of(content), len(content), "application/json"),
            Resource("model.onnx", Digest.of(b""), size, "application/vnd.onnx"),
        ],
    )
    envelope = Envelope.sign(statement.render(), key)
    whole = archive([(envelope.file_name, envelope.render()), ("bundle.json", content)])
    return whole[:-1024] + render_header("model.onnx", size)


# --- loaded ---


def test_a_tampered_blob_is_found_at_load(data, alice):
    accepted = push(data, seal([alice]))
    path = blob(data, FILES["model.onnx"])
    path.chmod(0o644)
    path.write_bytes(FILES["model.onnx"][:-1] + b"!")
    with pytest.raises(DigestMismatch, match=r"model\.onnx") as caught:
        data.registry.open(accepted.id)
    assert "push the same" in caught.value.hint
    path.write_bytes(FILES["model.onnx"] + b"!")
    with pytest.raises(SizeMismatch):
        data.registry.open(accepted.id)


def test_a_missing_blob_is_found_at_load(data, alice):
    accepted = push(data, seal([alice]))
    blob(data, FILES["model.onnx"]).unlink()
    with pytest.raises(FileMissing):
        data.registry.open(accepted.id)


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_pushing_a_damaged_bundle_again_repairs_it(data, alice, damage):
    accepted = push(data, seal([alice]))
    path = blob(data, FILES["model.onnx"])
    path.unlink()
    if damage == "changed":
        path.write_bytes(b"other")
    assert push(data, seal([alice])) == accepted
    assert data.registry.open(accepted.id).files["model.onnx"] == FILES["model.onnx"]


def test_signatures_swapped_in_the_catalog_are_found_at_load(data, alice):
    one, two = push(data, seal([alice])), push(data, seal([alice], version=2))
    with data.catalog.database.writing() as session:
        connection = session.connection()
        for source, target in ((two, one),):
            connection.exec_driver_sql(
                "UPDATE signatures SET data = (SELECT data FROM signatures WHERE bundle_id = ?) WHERE bundle_id = ?",
                (source.id.hex, target.id.hex),
            )
    with pytest.raises(DigestMismatch, match="signatures of bundle"):
        data.registry.open(one.id)
    data.registry.open(two.id)


def test_a_load_is_judged_by_todays_policy(data, alice):
    accepted = push(data, seal([alice]))
    data.policy = trust({"alice": alice}, tail=f'[revoked]\nbundles = ["{accepted.id}"]')
    with pytest.raises(PolicyRefused, match="revoked"):
        data.registry.open(accepted.id)
    refuse(data, seal([alice]), PolicyRefused)


def test_an_older_accepted_version_still_loads(data, alice):
    older = push(data, seal([alice], version=1))
    push(data, seal([alice], version=2))
    assert data.registry.open(older.id).manifest.version == 1


def blob(data, content: bytes):
    digest = Digest.of(content).hex
    return data.folder / "blobs" / "sha256" / digest[:2] / digest


# --- deleted ---


def test_deleting_takes_the_files_that_no_other_bundle_uses(data, alice):
    one, two = push(data, seal([alice], version=1)), push(data, seal([alice], version=2))
    data.registry.delete(one.id)
    assert set(FILES.values()) < set(data.files().values())
    assert data.registry.open(two.id).id == two.id
    data.registry.delete(two.id)
    assert data.files() == {}
    assert data.registry.list() == ()


def test_a_deleted_version_stays_used(data, alice):
    accepted = push(data, seal([alice], version=5))
    data.registry.delete(accepted.id)
    refuse(data, seal([alice], version=5), VersionStale)
    data.restart()
    refuse(data, seal([alice], version=4), VersionStale)
    push(data, seal([alice], version=6))


def test_what_is_not_there_is_said_so(data, alice):
    nothing = Digest.of(b"")
    for call in (data.registry.get, data.registry.open, data.registry.delete):
        with pytest.raises(BundleUnknown):
            call(nothing)
    push(data, seal([alice]))
    for version in (None, 2):
        with pytest.raises(ModelUnknown):
            data.registry.find("acme.tiny" if version else "acme.other", version)


def test_intentions_follow_what_is_there(data, alice):
    accepted = push(data, seal([alice]))
    push(data, seal([alice], version=2))
    with pytest.raises(ModelUnknown):
        data.registry.intend("acme.tiny", 3)
    data.registry.intend("acme.tiny", 1)
    data.registry.intend("acme.tiny", 2)
    data.registry.intend("acme.tiny", 1)
    assert data.registry.intended() == {"acme.tiny": {2: 2, 1: 3}}
    data.registry.dismiss("acme.tiny", 2)
    data.registry.dismiss("acme.tiny", 3)
    assert data.registry.intended() == {"acme.tiny": {2: 0, 1: 3}}
    data.registry.delete(accepted.id)
    assert data.registry.intended() == {"acme.tiny": {2: 0}}
    data.registry.intend("acme.tiny", 2)
    data.registry.dismiss("acme.tiny")
    data.registry.dismiss("acme.other")
    assert data.registry.intended() == {"acme.tiny": {2: 0}}


def test_what_is_put_into_service_may_take_another_s_place(data, alice):
    for version in (1, 2, 3):
        push(data, seal([alice], version=version))
        data.registry.intend("acme.tiny", version, {version - 1})
    assert data.registry.intended() == {"acme.tiny": {3: 3}}


# --- at the same time ---


def test_of_two_uploads_of_one_version_the_first_completed_wins(data, alice):
    inside, go = threading.Event(), threading.Event()

    def slow(_: Bundle) -> None:
        inside.set()
        assert go.wait(60)

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(push, data, seal([alice], release="late"), slow)
        assert inside.wait(60)
        winner = push(data, seal([alice], release="early"))
        go.set()
        with pytest.raises(VersionStale):
            late.result(60)
    assert data.registry.list() == (winner,)
    assert set(data.files().values()) == set(data.registry.open(winner.id).files.values())


def test_the_same_bundle_twice_at_once_is_accepted_once_and_answered_twice(data, alice):
    barrier = threading.Barrier(2)
    archive = seal([alice])
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(push, data, archive, lambda _: barrier.wait(60) and None) for _ in range(2)]
        one, two = (future.result(60) for future in futures)
    assert one == two
    assert data.registry.list() == (one,)
    assert data.registry.statistics().uploads == {"accepted": 1, "repeated": 1}


def test_deleting_never_takes_a_file_that_an_upload_just_found_there(data, alice):
    one = push(data, seal([alice], version=1))
    two = push(data, seal([alice], version=2), lambda _: data.registry.delete(one.id))
    assert data.registry.open(two.id).id == two.id

    def vet(_: Bundle) -> None:
        data.registry.delete(two.id)
        raise ModelInvalid("no")

    with pytest.raises(ModelInvalid):
        push(data, seal([alice], version=3), vet)
    assert data.files() == {}


@pytest.mark.slow
def test_many_uploads_and_deletions_at_once_keep_the_folder_and_the_catalog_together(data, alice):
    archives = [seal([alice], name=f"acme.m{i % 4}", version=i // 4 + 1, release=str(i)) for i in range(24)]

    def one(archive: bytes) -> None:
        try:
            accepted = push(data, archive)
        except VersionStale:
            return
        assert data.registry.open(accepted.id).files["model.onnx"] == FILES["model.onnx"]
        if accepted.version % 2:
            data.registry.delete(accepted.id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, archives))
    bundles = [data.registry.open(accepted.id) for accepted in data.registry.list()]
    assert set(data.files().values()) == {content for bundle in bundles for content in bundle.files.values()}


# --- counted ---


def test_statistics_count_what_is_held_and_how_uploads_ended(data, alice, bob):
    push(data, seal([alice]))
    for bad, error in ((seal([bob]), SignerUnknown), (seal(), Unsigned), (b"", SealTruncated)):
        refuse(data, bad, error)
    sizes = list(map(len, data.files().values()))
    assert data.registry.statistics() == RegistryStatistics(
        bundles=1,
        blobs=3,
        bytes=sum(sizes),
        uploads={"accepted": 1, "signer_unknown": 1, "unsigned": 1, "seal_truncated": 1},
    )
