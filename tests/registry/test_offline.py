"""A bundle is read out of a data folder while the host runs and after it stopped, and nothing there changes."""

import io
from pathlib import Path

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.registry.offline import open_stored
from sandseal_host.registry.revocations import Revocations, Target
from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.digest import Digest
from sandseal_signing.errors import DigestMismatch, FileMissing, SignerUnknown
from sandseal_signing.trust import Revoked
from sandseal_signing.verdict import Moment
from support.bundles import FILES, seal, trust
from support.journal import JournalDouble


@pytest.fixture
def accepted(data, alice):
    return data.registry.accept(io.BytesIO(seal([alice])), lambda _: None)


def opened(root: Path, accepted, policy):
    stored = open_stored(root, accepted.id)
    moment = Moment.current(accepted_at=stored.accepted_at)
    return open_bundle(stored.source, policy, lambda _: moment, Discard(), threads=2)


def blob(root: Path, data: bytes) -> Path:
    digest = Digest.of(data).hex
    return root / "blobs" / "sha256" / digest[:2] / digest


def state(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in root.rglob("*") if "shm" not in p.name}


def test_while_the_host_runs_and_after_it_stopped(data, accepted, alice):
    policy = trust({"alice": alice})
    before = state(data.folder)
    assert opened(data.folder, accepted, policy).id == accepted.id
    assert state(data.folder) == before
    data.stop()
    before = state(data.folder)
    assert opened(data.folder, accepted, policy).id == accepted.id
    assert state(data.folder) == before
    assert open_stored(data.folder, accepted.id).accepted_at == accepted.accepted_at


def test_what_is_stored_is_worth_nothing_until_verified(data, accepted, alice, bob):
    path = blob(data.folder, FILES["README.md"])
    path.chmod(0o644)
    path.write_bytes(b"# B model\n")
    with pytest.raises(DigestMismatch):
        opened(data.folder, accepted, trust({"alice": alice}))
    path.unlink()
    with pytest.raises(FileMissing):
        opened(data.folder, accepted, trust({"alice": alice}))
    with pytest.raises(SignerUnknown):
        opened(data.folder, accepted, trust({"bob": bob}))


def test_what_is_not_there(data, accepted, tmp_path):
    assert open_stored(data.folder, Digest("0" * 64)) is None
    with pytest.raises(StoreError, match="is not there"):
        open_stored(tmp_path / "nowhere", accepted.id)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "catalog.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(StoreError, match="cannot be read"):
        open_stored(tmp_path / "else", accepted.id)


def test_what_the_host_was_told_to_refuse_comes_along(data, accepted):
    assert open_stored(data.folder, accepted.id).revoked == Revoked()
    revocations = Revocations(data.catalog, JournalDouble())
    digests = {target: Digest(digit * 64) for target, digit in zip(Target, "abc", strict=True)}
    revocations.add(digests.items(), "ops")
    assert open_stored(data.folder, accepted.id).revoked == revocations.unite(Revoked())
