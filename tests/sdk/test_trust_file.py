"""Enrolling a key in a trust file: comments and layout stay, and what comes out is what was meant."""

import pytest

from sandseal_sdk.bundles.trust_file import Enrolment, enrol
from sandseal_signing.errors import PolicyInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.trust import TrustedKey, TrustPolicy

ALICE, BOB = PrivateKey.generate().public, PrivateKey.generate().public
TEXT = f"""# whom we trust
schema = "sandseal.trust/1"
serial = 7    # raise it

[keys.alice]
holder = "alice@acme"
public = "{ALICE.inline}"

[[rules]]            # first
models = ["acme.a"]
keys = ["alice"]     # only her

[[rules]]
models = ["acme.*"]
keys = [
  "alice",
]
"""


def read_key(name: str) -> str:
    raise FileNotFoundError(name)


def add(text: str = TEXT, **members) -> tuple[str, TrustPolicy]:
    key = TrustedKey(members.pop("name", "bob"), "bob@acme", members.pop("public", BOB))
    edited = enrol(text, read_key, Enrolment(key, **members))
    return edited, TrustPolicy.parse(edited, read_key)


def test_a_key_comes_in_and_the_serial_goes_up():
    edited, policy = add()
    assert policy.serial == 8
    assert policy.keys["bob"].public == BOB
    assert [rule.keys for rule in policy.rules] == [("alice",), ("alice",)]
    for comment in ("# whom we trust", "# raise it", "# first", "# only her"):
        assert comment in edited


@pytest.mark.parametrize("rules", [[0], [1], [0, 1]])
def test_it_comes_into_the_rules_named(rules):
    _, policy = add(rules=rules)
    assert [rule.keys for rule in policy.rules] == [("alice", "bob") if n in rules else ("alice",) for n in (0, 1)]


def test_it_may_get_a_rule_of_its_own_and_any_name():
    _, policy = add(name="bob.2", models=("other.*",))
    assert (policy.rules[2].models, policy.rules[2].keys) == (("other.*",), ("bob.2",))


def test_a_key_of_another_kind_is_written_as_pem():
    public = PrivateKey.generate("ecdsa-p256").public
    assert add(public=public)[1].keys["bob"].public == public


@pytest.mark.parametrize(
    ("text", "members", "why"),
    [
        (TEXT, {"rules": [2]}, "there is no rule 2"),
        (TEXT, {"rules": [-1]}, "there is no rule -1"),
        (TEXT, {"name": "alice"}, "enrolled already"),
        (TEXT, {"public": ALICE}, "same key"),
        (TEXT, {"name": "b b"}, "must be named"),
        ("serial = ", {}, "not TOML"),
        (TEXT.replace('keys = ["alice"]', "'keys' = ['alice']"), {"rules": [0]}, "laid out"),
    ],
)
def test_what_cannot_be_done_is_refused(text, members, why):
    with pytest.raises(PolicyInvalid, match=why):
        add(text, **members)
