"""`sandseal verify` on an archive, a folder and a host's store; `unpack`; the keys that `sign` takes."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sandseal_host.registry.revocations import Revocations, Target
from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import BundleNotFound, FileExists
from sandseal_signing.errors import KeyInvalid, PolicyRefused, SandsealError, SignerUnknown
from support.bundles import seal, trust, trust_text
from support.data_folder import DataFolder
from support.journal import JournalDouble
from support.keys import ed25519_key, p256_key

ALICE, STOCK = ed25519_key("alice"), p256_key("alice")
Run = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.seal").write_bytes(seal([ALICE, STOCK]))
    (tmp_path / "trust.toml").write_text(trust_text({"alice": ALICE}))
    (tmp_path / "others.toml").write_text(trust_text({"bob": ed25519_key("bob")}))
    (tmp_path / "alice.key").write_bytes(ALICE.pem())
    (tmp_path / "stock.key").write_bytes(STOCK.pem())
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(build_app(), arguments)
        if isinstance(done.exception, SandsealError):
            raise done.exception
        return done

    return invoke


def report(run: Run, where: str) -> dict:
    done = run("verify", where, "--trust", "trust.toml", "--json")
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_the_same_bundle_in_three_places(here: Path, run: Run) -> None:
    run("unpack", "x.seal", "x")
    data = DataFolder(here / "sandseal-data", trust({"alice": ALICE}))
    accepted = data.registry.accept(io.BytesIO((here / "x.seal").read_bytes()), lambda _: None)
    try:
        reports = {kind: report(run, where) for kind, where in (("seal", "x.seal"), ("folder", "x"))}
        reports["store"] = report(run, accepted.id.hex)
    finally:
        data.stop()
    for kind, found in reports.items():
        assert found["result"] == "accepted"
        assert found["kind"] == kind
        assert found["id"] == accepted.id.hex
        assert [(s["holder"], s["algorithm"], s["fingerprint"]) for s in found["signers"]] == [
            ("alice@acme", "ed25519", ALICE.public.fingerprint)
        ]
        assert found["unknown"] == [STOCK.public.hint]
        assert any(STOCK.public.hint[:16] in line for line in found["not_checked"])
        assert any("not parsed, compiled or run" in line for line in found["not_checked"])
    assert any("newer one" in line for line in reports["seal"]["not_checked"])
    assert any("judged as accepted at" in line for line in reports["store"]["checked"])


def test_a_store_s_own_revocations_count(here: Path, run: Run) -> None:
    data = DataFolder(here / "sandseal-data", trust({"alice": ALICE}))
    try:
        accepted = data.registry.accept(io.BytesIO((here / "x.seal").read_bytes()), lambda _: None)
        Revocations(data.catalog, JournalDouble()).add([(Target.BUNDLE, accepted.id)], "ops")
        with pytest.raises(PolicyRefused, match=f"bundle {accepted.id} is revoked"):
            run("verify", accepted.id.hex, "--trust", "trust.toml")
    finally:
        data.stop()


def test_for_people(run: Run) -> None:
    shown = run("verify", "x.seal", "--trust", "trust.toml").stdout
    for line in ("checked:", "signed by:", "not checked:", "alice@acme with ed25519 key 'alice'", "x.seal: acme.tiny"):
        assert line in shown


def test_refusals_are_one_document_too(run: Run) -> None:
    done = run("verify", "x.seal", "--trust", "others.toml", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["result"], document["code"]) == ("refused", "signer_unknown")
    with pytest.raises(SignerUnknown):
        run("verify", "x.seal", "--trust", "others.toml")


def test_what_is_not_there(run: Run) -> None:
    for where in ("y.seal", "0" * 63):
        with pytest.raises(BundleNotFound):
            run("verify", where, "--trust", "trust.toml")


def test_unpacking_over_something_is_refused(here: Path, run: Run) -> None:
    (here / "x").mkdir()
    with pytest.raises(FileExists):
        run("unpack", "x.seal", "x")


def test_oms_keys_are_of_a_kind_that_stock_tools_know(here: Path, run: Run) -> None:
    before = (here / "x.seal").read_bytes()
    with pytest.raises(KeyInvalid, match="which stock OMS tools cannot verify"):
        run("sign", "x.seal", "--oms-key", "alice.key")
    with pytest.raises(KeyInvalid, match="no key to sign with"):
        run("sign", "x.seal")
    assert (here / "x.seal").read_bytes() == before
    assert STOCK.public.hint[:16] in run("sign", "x.seal", "--oms-key", "stock.key").stderr
