"""The reason tree: each thing that decides, with what speaks for and against."""

from datetime import UTC, datetime

import pytest

from sandseal_signing.explain import Branch, explain
from sandseal_signing.keys import PrivateKey
from support.bundles import trust

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = {name: PrivateKey.generate() for name in ("alice", "bob", "carol")}
RULES = ({"models": ["other.*"], "keys": ["carol"]}, {"keys": ["alice", "bob"], "threshold": 2, "imports": ["log"]})
POLICY = trust(KEYS, *RULES)


def flat(branch: Branch, depth: int = 0) -> list[str]:
    mark = {True: "+", False: "-", None: " "}[branch.holds]
    lines = [f"{'  ' * depth}{mark} {branch.text}"]
    return lines + [line for below in branch.branches for line in flat(below, depth + 1)]


def test_a_key_that_counts():
    tree = explain(POLICY, "acme.tiny", "alice", NOW)
    assert flat(tree) == [
        "+ a signature by 'alice' counts for 'acme.tiny'",
        "    rule 0 does not cover it: other.*",
        "  + rule 1 decides: acme.*",
        "    + key 'alice' is enrolled, held by alice@acme (ed25519)",
        "    + the rule names it: alice, bob",
        f"    + it is not revoked (fingerprint {KEYS['alice'].public.fingerprint})",
        "      the threshold is 2: 1 more out of bob@acme",
        "      limits: 64 MiB and 1000 ms a plugin call, 4096 MiB of files",
        "      imports: log",
        "      operator domains: ai.onnx",
    ]
    assert tree.as_data()["branches"][1]["holds"] is True


@pytest.mark.parametrize(
    "form", [lambda k: k.public.fingerprint, lambda k: k.public.hint, lambda k: k.public.inline, lambda k: k.public.pem]
)
def test_a_key_is_found_in_every_form(form):
    assert explain(POLICY, "acme.tiny", form(KEYS["bob"]), NOW).holds


@pytest.mark.parametrize(
    ("model", "key", "why"),
    [
        ("unknown", "alice", "no rule covers that name"),
        ("acme.tiny", "mallory", "no enrolled key"),
        ("acme.tiny", "ed25519:AAAA", "no enrolled key"),
        ("acme.tiny", "carol", "the rule does not name it"),
        ("other.x", "alice", "the rule does not name it"),
    ],
)
def test_a_key_that_does_not_count(model, key, why):
    tree = explain(POLICY, model, key, NOW)
    assert tree.holds is False
    assert any(line.lstrip().startswith("-") and why in line for line in flat(tree))


def test_revoked_and_ended_keys_do_not_count():
    tail = f'[revoked]\nkeys = ["{KEYS["alice"].public.fingerprint}"]\n'
    tree = explain(trust(KEYS, *RULES, tail=tail), "acme.tiny", "alice", NOW)
    assert any("- it is revoked" in line for line in flat(tree))
    assert not explain(trust(KEYS, *RULES, tail=tail), "acme.tiny", "bob", NOW).branches[1].branches[3].holds
    ended = trust(KEYS, *RULES)
    object.__setattr__(ended.keys["alice"], "not_after", NOW)
    assert any(
        "- it may sign until 2030-01-01T00:00:00Z" in line for line in flat(explain(ended, "acme.x", "alice", NOW))
    )
