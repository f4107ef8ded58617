import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_signing.errors import PolicyInvalid
from sandseal_signing.trust import MAX_BYTES, MaxLimits, Revoked, Root, Rule, TrustPolicy
from support.keys import ed25519_key, p256_key

DATA = Path(__file__).parent / "data"
FILES = {f"keys/{name}.pub": ed25519_key(name).public.pem for name in ("alice", "ops1", "ops2", "carol")}

ALICE, BOB = ed25519_key("alice").public.inline, ed25519_key("bob").public.inline
MINIMAL = f"""
schema = "sandseal.trust/1"
serial = 1
[keys.alice]
holder = "alice@acme"
public = "{ALICE}"
[keys.bob]
holder = "bob@acme"
public = "{BOB}"
[[rules]]
models = ["acme.*"]
keys = ["alice", "bob"]
"""


def read_key(name: str) -> str:
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory", name)
    return FILES[name]


def parse(text: str) -> TrustPolicy:
    return TrustPolicy.parse(text, read_key)


def test_the_released_schema_1_stays_readable() -> None:
    policy = parse((DATA / "trust-1.toml").read_text(encoding="utf-8"))
    assert policy.serial == 12
    assert policy.root == Root(("ops1", "ops2"), 2)
    assert list(policy.keys) == ["alice", "alice-laptop", "bob", "ops1", "ops2"]
    assert policy.keys["alice"].public == ed25519_key("alice").public
    assert policy.keys["alice"].not_after == datetime(2027, 12, 31, tzinfo=UTC)
    assert policy.keys["alice-laptop"].public == ed25519_key("alice laptop").public
    assert policy.keys["bob"].public == ed25519_key("bob").public
    assert policy.keys["bob"].not_after is None
    assert policy.rules == (
        Rule(
            ("acme.secret-*",), ("alice", "bob"), 2, MaxLimits(128, 2000, 8192), ("log", "now"), ("", "com.microsoft")
        ),
        Rule(("acme.*", "shared.model"), ("alice", "alice-laptop", "bob"), 1, MaxLimits(64, 1000, 4096), (), ("",)),
    )
    assert policy.revoked == Revoked(*(frozenset({digit * 64}) for digit in "123"))


def test_the_smallest_policy_trusts_nobody() -> None:
    policy = parse('schema = "sandseal.trust/1"\nserial = 1\n[keys]\n')
    assert policy == TrustPolicy(1, {}, ())
    assert policy.rule_for("acme.tiny") is None


def test_keys_are_found_by_hint_and_counted_by_holder() -> None:
    policy = parse((DATA / "trust-1.toml").read_text(encoding="utf-8"))
    assert policy.by_hint[ed25519_key("bob").public.hint].name == "bob"
    assert policy.holders(["alice", "alice-laptop", "bob"]) == {"alice@acme", "bob@acme"}
    assert not policy.revokes(policy.keys["bob"])


def test_a_revocation_names_a_fingerprint() -> None:
    fingerprint = ed25519_key("bob").public.fingerprint
    policy = parse(MINIMAL + f'[revoked]\nkeys = ["{fingerprint}"]\n')
    assert policy.revokes(policy.keys["bob"])
    assert not policy.revokes(policy.keys["alice"])


def test_p256_keys_are_enrolled_as_pem() -> None:
    key = p256_key("alice").public
    policy = parse(MINIMAL + f'[keys.stock]\nholder = "alice@acme"\npublic = """{key.pem}"""\n')
    assert policy.keys["stock"].public == key


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("acme.secret-one", 0),
        ("acme.secret-", 0),
        ("acme.secret", 1),
        ("acme.x", 1),
        ("acme.", 1),
        ("shared.model", 1),
        ("shared.model2", None),
        ("acme", None),
        ("xacme.y", None),
        ("", None),
    ],
)
def test_the_first_rule_that_covers_a_name_decides(model: str, rule: int | None) -> None:
    found = parse((DATA / "trust-1.toml").read_text(encoding="utf-8")).rule_for(model)
    assert (found and found[0]) == rule


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*", ["a", "a.b"], []),
        ("*.x", ["a.x", "a.b.x"], ["ax", "a.xy"]),
        ("a*c", ["ac", "abc", "a.b.c"], ["acd"]),
        ("a.b", ["a.b"], ["a-b", "axb"]),
        ("a-b_c", ["a-b_c"], ["a-bxc"]),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_is_special(pattern: str, yes: list[str], no: list[str]) -> None:
    rule = Rule((pattern,), ("alice",))
    assert all(rule.covers(name) for name in yes)
    assert not any(rule.covers(name) for name in no)


def test_matching_many_stars_takes_no_time() -> None:
    assert not Rule(("*a" * 60,), ("alice",)).covers("a" * 127 + "b")


REPLACED: dict[str, tuple[str, str, str]] = {
    "another schema": ("trust/1", "trust/2", "schema: must be 'sandseal.trust/1'"),
    "no schema": ('schema = "sandseal.trust/1"', "", "schema: is missing"),
    "no serial": ("serial = 1", "", "serial: is missing"),
    "serial zero": ("serial = 1", "serial = 0", "serial: must be an integer from 1"),
    "a serial that is a float": ("serial = 1", "serial = 1.0", "serial: must be an integer"),
    "a serial beyond 2^53": ("serial = 1", "serial = 9007199254740992", "serial: must be an integer"),
    "a serial of many digits": ("serial = 1", "serial = " + "9" * 5000, "not TOML"),
    "another member": ("serial = 1", "serial = 1\nextra = 1", "extra: is not a member"),
    "broken TOML": ("serial = 1", "serial = ", "not TOML"),
    "a table twice": ("[keys.bob]", "[keys.alice]", "not TOML"),
    "deep TOML": ("serial = 1", "serial = " + "[" * 5000, "not TOML"),
    "a key without holder": ('holder = "bob@acme"', "", "keys.bob.holder: is missing"),
    "an empty holder": ('"bob@acme"', '""', "keys.bob.holder: must be printable text"),
    "a holder with a control character": ('"bob@acme"', '"\\u001b[2J"', "keys.bob.holder: must be printable text"),
    "a key without public": (f'public = "{BOB}"', "", "keys.bob.public: is missing"),
    "another key member": ('holder = "bob@acme"', 'holder = "bob@acme"\nextra = 1', "keys.bob.extra: is not a member"),
    "a key name with a space": ("[keys.bob]", '[keys."b ob"]', "keys.b ob: must be named with"),
    "a key file that is missing": (
        BOB,
        "keys/nobody.pub",
        r"keys.bob.public: cannot read 'keys/nobody.pub': \[Errno 2\]",
    ),
    "a key that is none": (BOB, "ed25519:AAAA", "keys.bob.public: not a public key"),
    "a key that is unsafe": (
        BOB,
        "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "keys.bob.public: this Ed25519 key is refused",
    ),
    "one key under two names": (BOB, ALICE, "keys.bob: is the same key as 'alice'"),
    "one key in two forms": (BOB, "keys/alice.pub", "keys.bob: is the same key as 'alice'"),
    "an end without zone": ('"bob@acme"', '"bob@acme"\nnot_after = 2027-12-31T00:00:00', "keys.bob.not_after: must be"),
    "an end that is a date": ('"bob@acme"', '"bob@acme"\nnot_after = 2027-12-31', "keys.bob.not_after: must be"),
    "an end that is a text": (
        '"bob@acme"',
        '"bob@acme"\nnot_after = "2027-12-31T00:00:00Z"',
        "keys.bob.not_after: must be",
    ),
    "an end before time": (
        '"bob@acme"',
        '"bob@acme"\nnot_after = 0001-01-01T00:00:00+14:00',
        "keys.bob.not_after: .* exists in UTC",
    ),
    "a rule without models": ('models = ["acme.*"]', "", r"rules\[0\].models: is missing"),
    "a rule for no models": ('["acme.*"]', "[]", r"rules\[0\].models: must hold at least 1"),
    "a rule with a bad pattern": (
        "acme.*",
        "acme.[a-z]",
        r"rules\[0\].models: must be a list of model names, in which",
    ),
    "a rule in capitals": ("acme.*", "Acme.*", r"rules\[0\].models: must be"),
    "a rule with a pattern twice": ('"acme.*"', '"acme.*", "acme.*"', r"rules\[0\].models: holds a string twice"),
    "a rule without keys": ('keys = ["alice", "bob"]', "", r"rules\[0\].keys: is missing"),
    "a rule for no keys": ('["alice", "bob"]', "[]", r"rules\[0\].keys: must hold at least 1"),
    "a rule with a stranger": (
        '"alice", "bob"',
        '"alice", "eve"',
        r"rules\[0\].keys: 'eve' is not enrolled under \[keys\]",
    ),
    "rules that are no list": ("[[rules]]", "[rules]", "rules: must be a list of objects"),
}
ADDED: dict[str, tuple[str, str]] = {
    "a threshold of zero": ("threshold = 0", r"rules\[0\].threshold: must be an integer from 1"),
    "a threshold beyond the holders": ("threshold = 3", r"rules\[0\].threshold: 3 can never be met: the keys have 2"),
    "another rule member": ("extra = 1", r"rules\[0\].extra: is not a member"),
    "an import that does not exist": ('imports = ["exec"]', r"rules\[0\].imports: must be a list of some of log"),
    "an overlong domain": (f'domains = ["{"x" * 256}"]', r"rules\[0\].domains: must be"),
    "another limit": ("max_limits = {cpu = 1}", r"rules\[0\].max_limits.cpu: is not a member"),
    "no memory": (
        "max_limits = {memory_mib = 0}",
        r"rules\[0\].max_limits.memory_mib: must be an integer from 1 to 4096",
    ),
    "no time": ("max_limits = {time_ms = 0}", r"rules\[0\].max_limits.time_ms: must be an integer from 1 to 600000"),
    "no room": ("max_limits = {total_mib = 0}", r"rules\[0\].max_limits.total_mib: must be an integer from 1"),
    "a root without threshold": ('[root]\nkeys = ["alice"]', "root.threshold: is missing"),
    "a root with a stranger": ('[root]\nkeys = ["eve"]\nthreshold = 1', "root.keys: 'eve' is not enrolled"),
    "a root threshold beyond its holders": ('[root]\nkeys = ["alice"]\nthreshold = 2', "root.threshold: 2 can never"),
    "another root member": ('[root]\nkeys = ["alice"]\nthreshold = 1\nx = 1', "root.x: is not a member"),
    "a revocation that is no digest": ('[revoked]\nkeys = ["alice"]', "revoked.keys: must be a list of digests"),
    "a revocation in capitals": (f'[revoked]\nblobs = ["{"A" * 64}"]', "revoked.blobs: must be a list of digests"),
    "another revocation": ("[revoked]\nmodels = []", "revoked.models: is not a member"),
}


@pytest.mark.parametrize(
    ("text", "why"),
    [(MINIMAL.replace(old, new, 1), why) for old, new, why in REPLACED.values()]
    + [(f"{MINIMAL}{line}\n", why) for line, why in ADDED.values()],
    ids=[*REPLACED, *ADDED],
)
def test_what_is_no_policy(text: str, why: str) -> None:
    assert text != MINIMAL
    with pytest.raises(PolicyInvalid) as caught:
        parse(text)
    assert re.search(why, caught.value.message)
    assert len(caught.value.message) < 400


def test_two_keys_of_one_holder_never_meet_a_threshold_of_two() -> None:
    with pytest.raises(PolicyInvalid, match="the keys have 1 distinct holders"):
        parse(MINIMAL.replace("bob@acme", "alice@acme") + "threshold = 2\n")


def test_a_key_file_that_is_no_text_is_refused() -> None:
    def binary(name: str) -> str:
        return b"\xff".decode("utf-8")

    with pytest.raises(PolicyInvalid, match=r"keys\.bob\.public: cannot read 'keys/bob\.pub'"):
        TrustPolicy.parse(MINIMAL.replace(BOB, "keys/bob.pub"), binary)


def test_a_policy_is_limited_in_size() -> None:
    assert parse(MINIMAL + "#" * (MAX_BYTES - len(MINIMAL))).serial == 1
    with pytest.raises(PolicyInvalid, match="1048577 characters, over 1048576"):
        parse(MINIMAL + "#" * (MAX_BYTES - len(MINIMAL) + 1))


@given(st.text("ab.*", min_size=1, max_size=10), st.text("ab.", min_size=1, max_size=12))
def test_a_star_stands_for_any_text(pattern: str, name: str) -> None:
    assert Rule((pattern, "other"), ()).covers(name) is fnmatchcase(name, pattern)
