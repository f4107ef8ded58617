"""Trust withdrawn from what is live: revocations, policy changes and time, at once and for good."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sandseal_sdk.errors import HostRefused
from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.envelope import Envelope
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import read_seal
from support.faults import Faults
from support.onnx_models import mlp
from support.waiting import wait_until

pytestmark = pytest.mark.slow

ROW = np.ones((1, 128), np.float32)


def refusal(client, name: str = "acme.mlp") -> str | None:
    """The code with which an inference is refused; None when it is answered."""
    try:
        client.infer(name, {"x": ROW})
    except HostRefused as refused:
        return refused.code
    return None


def index(client) -> dict[str, tuple[str, str]]:
    return {model["name"]: (model["state"], model.get("reason", "")) for model in client.models()}


@pytest.mark.parametrize("target", ["key", "bundle", "blob"])
def test_what_is_revoked_stops_at_once_and_stays_so(start, publisher, target) -> None:
    with start() as host, host.client() as client:
        pushed = client.push(publisher.seal(mlp()))
        client.push(publisher.seal(mlp((128, 32, 10)), "acme.other"))
        digest = {
            "key": publisher.key.public.fingerprint,
            "bundle": pushed["id"],
            "blob": file_digest(publisher.folder / "acme.mlp-1" / "model.onnx"),
        }[target]
        withdrawn = client.revoke(target, digest, "rehearsal")
        assert refusal(client) == "revoked"
        assert refusal(client, "acme.other") == ("revoked" if target == "key" else None)
        assert "acme.mlp" in {one["name"] for one in withdrawn}
        assert index(client)["acme.mlp"][0] == "UNAVAILABLE"
        assert "revoked" in index(client)["acme.mlp"][1]
        with pytest.raises(HostRefused) as refused:
            client.load("acme.mlp")
        assert refused.value.status == 403
    with start() as host:  # and no restart brings it back
        host.wait_ready()
        with host.client() as client:
            assert refusal(client) == "revoked"
            assert "revoked" in index(client)["acme.mlp"][1]
            (revocation,) = client.revocations()
            assert (revocation["digest"], revocation["reason"]) == (digest, "rehearsal")


def test_a_revocation_under_load_refuses_what_waits_and_answers_nothing_later(host, publisher) -> None:
    codes: dict[bool, Counter[str | None]] = {late: Counter() for late in (False, True)}
    revoked, stop = threading.Event(), threading.Event()

    def ask() -> None:
        with host.client() as client:
            while not stop.is_set():
                late = revoked.is_set()
                codes[late][refusal(client)] += 1

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: codes[False][None] > 50)
    with host.client() as client:
        (bundle,) = client.bundles()
        client.revoke("bundle", bundle["id"])
        revoked.set()
        wait_until(lambda: client.models()[0]["state"] == "UNAVAILABLE")
    wait_until(lambda: codes[True]["revoked"] > 200)
    stop.set()
    for thread in threads:
        thread.join()
    assert codes[False].keys() <= {None, "revoked"}
    assert codes[True].keys() == {"revoked"}


def test_a_policy_that_no_longer_accepts_unloads_and_an_older_file_brings_no_revocation_back(host, publisher) -> None:
    good = publisher.trust.read_text()
    with host.client() as client:
        publisher.trust.write_text(good.replace("acme.*", "other.*").replace("serial = 1", "serial = 2"))
        wait_until(lambda: refusal(client) == "revoked")
        assert "no rule covers" in index(client)["acme.mlp"][1]
        publisher.trust.write_text(good.replace("serial = 1", "serial = 3"))
        wait_until(lambda: client.trust()["serial"] == 3)
        client.load("acme.mlp")
        assert refusal(client) is None
        revoked = f'[revoked]\nkeys = ["{publisher.key.public.fingerprint}"]\n'
        publisher.trust.write_text(good.replace("serial = 1", "serial = 4") + revoked)
        wait_until(lambda: refusal(client) == "revoked")
        publisher.trust.write_text(good.replace("serial = 1", "serial = 5"))
        wait_until(lambda: client.trust()["serial"] == 5)
        assert client.trust()["keys"][0]["revoked"]
        assert client.trust()["revoked"]["keys"] == [publisher.key.public.fingerprint]
        with pytest.raises(HostRefused):
            client.load("acme.mlp")


def test_an_older_file_at_the_next_start_brings_nothing_back(start, publisher) -> None:
    good = publisher.trust.read_text()
    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp()))
        publisher.trust.write_text(good + f'[revoked]\nkeys = ["{publisher.key.public.fingerprint}"]\n')
        wait_until(lambda: refusal(client) == "revoked")
    publisher.trust.write_text(good)
    with start() as host:
        host.wait_ready()
        with host.client() as client:
            assert refusal(client) == "revoked"
            with pytest.raises(HostRefused) as refused:
                client.push(publisher.seal(mlp(), version=2))
            assert refused.value.code == "signer_unknown"


def test_a_bundle_that_expires_while_it_serves_is_unloaded(start, publisher, tmp_path) -> None:
    faults = Faults(tmp_path / "data", tmp_path / "state")
    expires = datetime.now(UTC) + timedelta(hours=1)
    with start(**faults.environment) as host, host.client() as client:
        client.push(publisher.seal(mlp()))
        client.push(
            publisher.seal(mlp((128, 32, 10)), "acme.brief", members={"expires": f"{expires:%Y-%m-%dT%H:%M:%SZ}"})
        )
        assert refusal(client, "acme.brief") is None
        faults.set(clock_s=2 * 3600)
        wait_until(lambda: refusal(client, "acme.brief") == "revoked")
        assert "expired" in index(client)["acme.brief"][1]
        assert refusal(client) is None


def test_a_faulty_policy_changes_nothing_and_is_reported(host, publisher) -> None:
    publisher.trust.write_text("serial = ")
    with host.client() as client:
        wait_until(lambda: client.trust()["problem"])
        assert client.trust()["serial"] == 1
        assert refusal(client) is None


def file_digest(path) -> str:
    return Digest.of(path.read_bytes()).hex


def rules(
    publisher, serial: int, keys: dict[str, PrivateKey], threshold: int = 1, revoked: tuple[PrivateKey, ...] = ()
):
    """Put a policy in place under which these keys publish `acme.*`, each its own holder unless the names share one."""
    lines = ['schema = "sandseal.trust/1"', f"serial = {serial}"]
    for name, key in keys.items():
        lines += [f"[keys.{name}]", f'holder = "{name.split("-")[0]}"', f'public = "{key.public.inline}"']
    lines += ["[[rules]]", 'models = ["acme.*"]', f"keys = {[*keys]}", f"threshold = {threshold}"]
    lines += ["[revoked]", f"keys = {[key.public.fingerprint for key in revoked]}"]
    publisher.trust.write_text("\n".join(lines))


def detached(publisher, seal, key: PrivateKey) -> bytes:
    with seal.open("rb", buffering=0) as file:
        return Envelope.sign(read_seal(file).payload, key).render()


def test_a_bundle_waits_for_its_second_holder_across_a_restart(start, publisher) -> None:
    bob = PrivateKey.generate()
    rules(publisher, 1, {"alice": publisher.key, "bob": bob}, threshold=2)
    seal = publisher.seal(mlp())
    with start() as host, host.client() as client:
        pushed = client.push(seal)
        assert (pushed["state"], pushed["holders"], pushed["threshold"]) == ("pending", ["alice"], 2)
        assert "1 of 2" in pushed["detail"]
        assert index(client)["acme.mlp"] == ("UNAVAILABLE", pushed["detail"])
        assert refusal(client) == "model_unknown"
    with start() as host:
        host.wait_ready()
        with host.client() as client:
            assert [bundle["state"] for bundle in client.bundles()] == ["pending"]
            answer = client.sign(pushed["id"], detached(publisher, seal, bob))
            assert answer["state"] == "ready"
            assert answer["holders"] == ["alice", "bob"]
            assert refusal(client) is None


def test_keys_are_rotated_and_the_models_serve_on(start, publisher) -> None:
    """A new key comes, old bundles are signed again, the old key is revoked; nobody notices."""
    old, new = publisher.key, PrivateKey.generate()
    asked, stop = [], threading.Event()
    with start() as host, host.client() as client:
        seal, orphan = publisher.seal(mlp()), publisher.seal(mlp((128, 32, 10)), "acme.orphan")
        bundle = client.push(seal)["id"]
        client.push(orphan)

        def ask() -> None:
            with host.client() as other:
                while not stop.is_set():
                    asked.append(refusal(other))

        asking = threading.Thread(target=ask)
        asking.start()
        # 1. The new key stands beside the old one, for the same holder.
        rules(publisher, 2, {"alice-1": old, "alice-2": new})
        wait_until(lambda: client.trust()["serial"] == 2)
        # 2. What shall go on is signed again; the bundle id stays.
        again = client.sign(bundle, detached(publisher, seal, new))
        assert [signer["key"] for signer in again["signers"]] == ["alice", "alice-2"]
        # 3. The old key is revoked.
        rules(publisher, 3, {"alice-1": old, "alice-2": new}, revoked=(old,))
        wait_until(lambda: refusal(client, "acme.orphan") == "revoked")
        asked_before = len(asked)
        wait_until(lambda: len(asked) > asked_before + 50)
        stop.set()
        asking.join()
        assert {*asked} == {None}
        # 4. What was forgotten comes back as soon as it is signed again.
        (forgotten,) = (b["id"] for b in client.bundles() if b["name"] == "acme.orphan")
        assert client.sign(forgotten, detached(publisher, orphan, new))["state"] == "ready"
        assert refusal(client, "acme.orphan") is None
        # 5. The old key publishes nothing any more.
        with pytest.raises(HostRefused):
            client.push(publisher.seal(mlp(), version=2))
    with start() as host:
        host.wait_ready()
        with host.client() as client:
            assert refusal(client) is refusal(client, "acme.orphan") is None


def test_a_root_signed_policy_replaces_the_file(host, publisher) -> None:
    ops = [PrivateKey.generate() for _ in range(2)]
    rooted = publisher.trust.read_text().replace("serial = 1", "serial = 2")
    for number, key in enumerate(ops):
        rooted += f'[keys.ops{number}]\nholder = "ops{number}"\npublic = "{key.public.inline}"\n'
    root = '[root]\nkeys = ["ops0", "ops1"]\nthreshold = 2\n'
    publisher.trust.write_text(rooted + root)
    fresh = (rooted + root).replace("serial = 2", "serial = 3").replace("acme.*", "other.*")
    with host.client() as client:
        wait_until(lambda: client.trust()["serial"] == 2)
        document = Document(fresh.encode(), TRUST_TYPE).sign(ops[:1])
        with pytest.raises(HostRefused) as refused:
            client.replace_trust(document.render())
        assert (refused.value.status, refused.value.code) == (403, "policy_refused")
        assert "1 of 2" in str(refused.value)
        assert refusal(client) is None
        assert client.replace_trust(document.sign(ops[1:]).render())["serial"] == 3
        assert refusal(client) == "revoked"
        assert publisher.trust.read_text() == fresh
        (bundle,) = client.bundles()
        tree = client.explain(bundle=bundle["id"])
        assert tree["holds"] is False
        assert any("no rule covers" in below["text"] for below in tree["branches"])
        assert client.explain(name="other.x", key="alice")["holds"] is True
