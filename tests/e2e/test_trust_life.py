"""A life of trust, typed: two holders, a rotated key, a return to an older version, a downgrade by permit."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.command import sandseal, started
from support.onnx_models import mlp

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder in which `sandseal init` was called for a model."""
    (tmp_path / "model.onnx").write_bytes(mlp((3, 8, 2)).data)
    sandseal(tmp_path, "init", "model.onnx", "--name", "acme.thing")
    return tmp_path


@pytest.fixture
def trust(home: Path) -> Path:
    """The policy: the publisher and bob must both sign."""
    file = home / "acme.thing" / "trust.toml"
    sandseal(home, "keygen", "bob")
    assert "serial 2" in sandseal(home, "trust", "add", file, "bob", "bob.pub", "--holder", "bob", "--rule", 0)
    file.write_text(file.read_text().replace("threshold = 1", "threshold = 2"))
    assert "2 keys, 1 rules, valid" in sandseal(home, "trust", "check", file)
    assert "counts for 'acme.thing'" in sandseal(home, "trust", "explain", "acme.thing", "bob.pub", "--trust", file)
    return file


@pytest.fixture
def logged_in(home: Path, trust: Path) -> Iterator[None]:
    """A host that serves under the policy."""
    with started(home, "serve", "--trust", str(trust), "--port", "0") as process:
        url = process.stdout.readline().strip()
        sandseal(home, "login", url, "--token-file", "sandseal-data/operator.token")
        yield


def packed(home: Path, version: int, *keys: str) -> str:
    """A .seal of this version, signed by these keys."""
    manifest = home / "acme.thing" / "bundle" / "bundle.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": version}))
    options = [word for key in keys for word in ("--key", key)]
    return re.match(r"(\S+)  bundle", sandseal(home, "pack", manifest.parent, *options))[1]


def states(home: Path) -> dict[int, str]:
    """What `sandseal models` shows, by version."""
    return {
        int(version): state for version, state in re.findall(r"acme\.thing │ (\d+) +│ (\w+)", sandseal(home, "models"))
    }


@pytest.mark.usefixtures("logged_in")
def test_from_two_signatures_to_a_permitted_downgrade(home: Path, trust: Path) -> None:
    run, old, new, bob = partial(sandseal, home), "acme.thing/publisher.key", "next.key", "bob.key"

    # Two holders: the second sends a signature only.
    one = packed(home, 1, old)
    assert "acme.thing version 1 pending" in run("push", one)
    run("sign", one, "--key", bob, "--detached", "one.sig")
    assert "acme.thing version 1 ready" in run("push", "one.sig")
    five = packed(home, 5, old, bob)
    assert "acme.thing version 5 ready" in run("push", five)
    assert states(home) == {1: "UNAVAILABLE", 5: "READY"}

    # The operator returns to what was accepted before, and back; no permit is asked for.
    run("load", "acme.thing", "--version", 1)
    assert states(home) == {1: "READY", 5: "UNAVAILABLE"}
    run("load", "acme.thing")
    assert states(home) == {1: "UNAVAILABLE", 5: "READY"}

    # The publisher's key is rotated: the next one is enrolled, signs what shall go on, and the old one is revoked.
    run("keygen", "next")
    run("trust", "add", trust, "next", "next.pub", "--holder", "me", "--rule", 0)
    assert "serial 3" in run("trust", "list")
    run("sign", five, "--key", new, "--detached", "five.sig")
    assert "acme.thing version 5 ready" in run("push", "five.sig")
    assert "stopped" not in run("trust", "revoke", "key", "publisher", "--reason", "retired")
    assert states(home) == {1: "UNAVAILABLE", 5: "READY"}
    assert "revoked" in run("models")  # version 1, which the next key did not sign
    assert "error[signer_unknown]" in run("push", packed(home, 6, old), ok=False)

    # A version below the newest needs a permit, by as many holders as a bundle.
    four = packed(home, 4, new, bob)
    refused = run("push", four, ok=False)
    assert "error[version_stale]" in refused
    assert "sandseal trust permit" in refused
    permit = run("trust", "permit", four, "--key", new).strip()
    assert "1 of 2 holders signed (me)" in run("push", four, "--permit", permit, ok=False)
    run("trust", "permit", permit, "--key", bob)
    assert "acme.thing version 4 ready" in run("push", four, "--permit", permit)
    assert states(home) == {1: "UNAVAILABLE", 4: "READY", 5: "UNAVAILABLE"}
    assert re.search(r"permit for acme\.thing to bundle [0-9a-f]{64}: the permit was used", run("trust", "list"))
    assert "error[policy_refused]: the permit was used" in run("push", four, "--permit", permit, ok=False)
    assert "accept" in run("log", "verify", "--key", "sandseal-data/keys/log.pub")

    # Versions grow on from the highest, and the next one takes over.
    assert "error[version_stale]" in run("push", packed(home, 3, new, bob), ok=False)
    assert "acme.thing version 7 ready" in run("push", packed(home, 7, new, bob))

    # The second holder's key is lost: everything stops.
    assert "acme.thing version 7 stopped" in run("trust", "revoke", "key", "bob", "--reason", "lost")
    assert "READY" not in run("models")
    assert len(re.findall("revoked key [0-9a-f]{64}", run("trust", "list"))) == 2
    assert run("trust", "explain", "acme.thing", "bob").startswith("NO ")
