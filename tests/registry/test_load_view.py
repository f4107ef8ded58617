"""Weights that are loaded by path: the file that was hashed is the one that is mapped, or the load is refused."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandseal_host.errors import StoreError, Tampered
from sandseal_host.registry.load_view import Bound, LoadViews
from sandseal_host.registry.registry import Registry
from sandseal_signing.bundle import Bundle
from sandseal_signing.digest import Digest
from sandseal_signing.errors import DigestMismatch
from support.bundles import FILES, manifest, seal
from support.leases import listening, needs_leases

WEIGHTS = {"weights.bin": b"w" * 5000, "more/weights.bin": b"v" * 100, "twin.bin": b"w" * 5000}
MODEL = manifest()["model"] | {"external_data": list(WEIGHTS)}


class Loads:
    """A registry that loads weights of over `limit` bytes by path, with one bundle in it."""

    def __init__(self, data, key, limit: int = 1000, rule: str = "require") -> None:
        self.views = LoadViews(data.store, data.folder / "loads", rule=rule, bytes_limit=limit)
        self.registry = Registry(data.store, data.catalog, lambda: data.policy, views=self.views)
        self.store = data.store
        self.vetted: list[Bound] = []
        archive = seal([key], files=FILES | WEIGHTS, model=MODEL)
        self.accepted = self.registry.accept(io.BytesIO(archive), self.vetted.append)

    def open(self) -> Bound:
        return self.registry.open(self.accepted.id)

    def blob(self, name: str = "weights.bin") -> Path:
        path = self.store._path(Digest.of(WEIGHTS[name]))
        path.chmod(0o644)
        return path


@pytest.fixture
def loads(data, alice) -> Iterator[Loads]:
    with listening():
        yield Loads(data, alice)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@needs_leases
def test_weights_lie_under_their_signed_names_and_everything_else_is_bytes(loads: Loads):
    with loads.open() as bundle:
        assert bundle.folder is not None
        assert {name: (bundle.folder / name).read_bytes() for name in WEIGHTS} == WEIGHTS
        assert bundle.files.keys() == {"bundle.json", *FILES}
        assert loads.views.bound(bundle.id)
        assert bundle.folder.stat().st_mode & 0o777 == 0o700
        bundle.check()
    assert not loads.views.bound(bundle.id)
    assert not bundle.folder.exists()
    assert loads.vetted[0].folder is not None


@needs_leases
def test_nothing_stays_behind(loads: Loads):
    loads.open().close()
    before = descriptors()
    for _ in range(3):
        loads.open().close()
    assert descriptors() == before
    assert list((loads.blob().parents[3] / "loads").iterdir()) == []
    with loads.blob().open("r+b"):  # at once: no lease is left
        pass


def test_few_weights_are_bytes(data, alice):
    loads = Loads(data, alice, limit=20_000)
    bundle = loads.open()
    assert bundle.view is None
    assert bundle.files["weights.bin"] == WEIGHTS["weights.bin"]


@needs_leases
def test_a_blob_that_was_changed_before_is_refused(loads: Loads):
    loads.blob().write_bytes(b"x" * 5000)
    before = descriptors()
    with pytest.raises(DigestMismatch) as refused:
        loads.open()
    assert "push the same .seal file again" in refused.value.hint
    assert descriptors() == before


@needs_leases
def test_no_load_begins_while_somebody_can_write(loads: Loads):
    with loads.blob().open("r+b"), pytest.raises(StoreError, match="open for writing"):
        loads.open()


@needs_leases
def test_opening_a_file_for_writing_during_the_load_is_noticed(loads: Loads):
    with loads.open() as bundle:
        with pytest.raises(BlockingIOError):
            os.open(loads.blob("more/weights.bin"), os.O_WRONLY | os.O_NONBLOCK)
        assert loads.views.broken() == {bundle.id: "more/weights.bin"}
        with pytest.raises(Tampered, match=r"'more/weights.bin' was opened for writing"):
            bundle.check()


@needs_leases
@pytest.mark.parametrize("name", ["weights.bin", "more/weights.bin"])
def test_exchanging_a_link_and_putting_it_back_is_noticed(loads: Loads, name: str):
    with loads.open() as bundle:
        link = bundle.folder / name
        link.rename(link.with_suffix(".aside"))
        link.write_bytes(b"evil")
        link.with_suffix(".aside").rename(link)
        assert link.read_bytes() == WEIGHTS[name]
        with pytest.raises(Tampered, match="replaced or changed"):
            bundle.check()


@needs_leases
def test_other_loads_of_the_same_blobs_are_no_tampering(loads: Loads):
    with loads.open() as one:
        with loads.open() as two:
            one.check()
            two.check()
        one.check()


@needs_leases
def test_a_file_opened_during_vetting_refuses_the_upload(loads, alice):
    def vet(_: Bundle) -> None:
        with pytest.raises(BlockingIOError):
            os.open(loads.blob(), os.O_WRONLY | os.O_NONBLOCK)

    with pytest.raises(Tampered):
        loads.registry.accept(io.BytesIO(seal([alice], version=2, files=FILES | WEIGHTS, model=MODEL)), vet)
    assert [accepted.version for accepted in loads.registry.list()] == [1]


def test_where_no_lease_is_granted_the_rule_decides(data, alice, caplog):
    """Nobody handles SIGIO here, so there is none."""
    with pytest.raises(StoreError) as refused:
        Loads(data, alice)
    assert "SANDSEAL_LEASE=warn" in refused.value.hint
    with Loads(data, alice, rule="warn").open() as bundle:
        assert "nobody would notice" in caplog.text
        bundle.check()
        Path(bundle.folder / "weights.bin").chmod(0o644)
        (bundle.folder / "weights.bin").write_bytes(b"x" * 5000)
        with pytest.raises(Tampered):
            bundle.check()


@needs_leases
def test_a_weight_that_a_plugin_reads_too_stays_bytes(data, alice):
    stage = {"plugin": "post.wasm", "function": "run", "outputs": [{"name": "z", "dtype": "FP32", "shape": ["batch"]}]}
    with listening():
        loads = Loads(data, alice)
        files = FILES | WEIGHTS | {"post.wasm": b"\0asm"}
        archive = seal([alice], version=2, files=files, model=MODEL, post=stage | {"assets": ["weights.bin"]})
        accepted = loads.registry.accept(io.BytesIO(archive), loads.vetted.append)
        assert loads.registry.open(accepted.id).view is None
