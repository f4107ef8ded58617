"""Well signed, and still not to be run; keys that must not be enrolled; policies that must not take effect."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sandseal_signing.digest import Digest
from sandseal_signing.keys import PublicKey
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment
from support.bundles import FILES, archive, trust, trust_text
from support.keys import ed25519_key
from vectors.hostile.case import ALICE, BOB, NOW, POLICY, Case, bundle, content, seal_case, statement_of

KEYS = {"alice": ALICE, "bob": BOB}
HONEST = archive(bundle())
STATEMENT = statement_of(content())


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, policy) in _POLICIES.items():
        yield f"policy-{name}", seal_case(stands_for, HONEST, policy)
    for name, (stands_for, moment) in _MOMENTS.items():
        yield f"policy-{name}", seal_case(stands_for, HONEST, POLICY, moment)
    for name, stage in _STAGES.items():
        files = content({**FILES, "p.wasm": b"\0asm"}, pre={**_STAGE, **stage})
        yield f"policy-{name}", seal_case("capabilities beyond the grant", archive(bundle(files=files)))
    yield "policy-two-of-two", seal_case("a threshold that is met", archive(bundle(ALICE, BOB)), _TWO)
    yield (
        "policy-two-keys-of-one-holder",
        seal_case("thresholds count holders", archive(bundle(ALICE, BOB)), _ONE_HOLDER),
    )
    for name, (stands_for, text) in _TRUST_FILES.items():
        yield f"trust-{name}", Case(stands_for, lambda _, text=text: TrustPolicy.parse(text, _no_file))
    for name, (stands_for, text) in _PUBLIC_KEYS.items():
        yield f"key-{name}", Case(stands_for, lambda _, text=text: PublicKey.parse(text))


def _no_file(name: str) -> str:
    return Path("/nonexistent", name).read_text()


def _one_holder() -> TrustPolicy:
    """Three keys, two of one person, and a threshold of two."""
    policy = trust({**KEYS, "carol": ed25519_key("carol")}, {"threshold": 2})
    keys = {name: replace(key, holder="a@acme") if name != "carol" else key for name, key in policy.keys.items()}
    return replace(policy, keys=keys)


def _pem(key: object) -> str:
    pem: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return pem.decode()


_TWO = trust(KEYS, {"threshold": 2})
_ONE_HOLDER = _one_holder()
_STAGE = {"plugin": "p.wasm", "function": "f", "inputs": [{"name": "i", "dtype": "BYTES", "shape": []}]}
_STAGES = {
    "imports": {"imports": ["random"]},
    "memory": {"limits": {"memory_mib": 65, "time_ms": 1}},
    "time": {"limits": {"memory_mib": 1, "time_ms": 1001}},
}
_FILE = STATEMENT.by_name["model.onnx"].digest
_POLICIES = {
    "key-revoked": ("revocation", trust(KEYS, tail=f'[revoked]\nkeys = ["{ALICE.public.fingerprint}"]')),
    "bundle-revoked": ("revocation", trust(KEYS, tail=f'[revoked]\nbundles = ["{Digest.of(STATEMENT.render())}"]')),
    "file-revoked": ("revocation", trust(KEYS, tail=f'[revoked]\nblobs = ["{_FILE}"]')),
    "other-models": ("who may publish what", trust(KEYS, {"models": ["acme.other"]})),
    "other-keys": ("who may publish what", trust(KEYS, {"keys": ["bob"]})),
    "one-of-two": ("a threshold that is not met yet", _TWO),
    "first-rule-decides": (
        "CVE-2024-47534: order of delegations",
        trust(KEYS, {"models": ["acme.t*"], "keys": ["bob"]}, {"models": ["*"], "keys": ["alice"]}),
    ),
    "pattern-is-no-class": ("patterns that mean more than they say", trust(KEYS, {"models": ["acme.tin*"]})),
}
_MOMENTS = {
    "rollback-to-the-same": ("rollback", Moment(NOW, newest=1)),
    "rollback": ("rollback", Moment(NOW, newest=7)),
    "next-version": ("rollback", Moment(NOW, newest=0)),
    "loaded-years-later": ("loads are judged as accepted", Moment(datetime(2040, 1, 1, tzinfo=UTC), accepted_at=NOW)),
}
_TEXT = trust_text(KEYS)
_TRUST_FILES = {
    "threshold-zero": ("GHSA-fphv-w9fq-2525: a threshold of 0 checks nothing", trust_text(KEYS, {"threshold": 0})),
    "threshold-negative": ("GHSA-fphv-w9fq-2525", trust_text(KEYS, {"threshold": -1})),
    "threshold-unreachable": ("a rule that nobody can meet", trust_text(KEYS, {"threshold": 3})),
    "key-not-enrolled": ("a name that means nothing", trust_text(KEYS, {"keys": ["eve"]})),
    "key-under-two-names": ("one key counted twice", trust_text({**KEYS, "alice2": ALICE})),
    "rule-without-keys": ("a rule that anybody meets", trust_text(KEYS, {"keys": []})),
    "another-member": ("closed documents", trust_text(KEYS, {"allow_unsigned": "yes"})),
    "member-twice": ("duplicate keys", _TEXT.replace("serial = 1", "serial = 1\nserial = 2")),
    "another-schema": ("formats that are not known", _TEXT.replace("trust/1", "trust/2")),
    "import-unknown": ("grants that do not exist", trust_text(KEYS, {"imports": ["fd_write"]})),
    "revoked-in-upper-case": ("a revocation that never matches", _TEXT + f'[revoked]\nkeys = ["{"F" * 64}"]'),
    "key-file-absent": ("a key that cannot be read", _TEXT.replace(ALICE.public.inline, "keys/alice.pub")),
    "pattern-with-class": ("patterns that mean more than they say", trust_text(KEYS, {"models": ["acme.[a-z]"]})),
    "time-without-zone": (
        "an end that is somewhere",
        _TEXT.replace('holder = "alice@acme"', 'holder = "alice@acme"\nnot_after = 2030-01-01T00:00:00'),
    ),
    "not-toml": ("not a policy", '{"schema": "sandseal.trust/1"}'),
    "of-2-mib": ("a limit of the format", _TEXT + "#" * (2 << 20)),
}
_RSA = rsa.RSAPublicNumbers(65537, (1 << 2047) + 1).public_key()
_P521 = ec.derive_private_key(3, ec.SECP521R1()).public_key()
_K1 = ec.derive_private_key(3, ec.SECP256K1()).public_key()
_PUBLIC_KEYS = {
    "rsa": ("few kinds of keys", _pem(_RSA)),
    "p521": ("few kinds of keys", _pem(_P521)),
    "secp256k1": ("few kinds of keys", _pem(_K1)),
    "private": ("a private key in a public file", ALICE.pem().decode()),
    "of-31-bytes": ("lengths", "ed25519:" + "A" * 41 + "="),
    "not-base64": ("two spellings", ALICE.public.inline.replace("ed25519:", "ed25519:*")),
    "two-in-one-file": ("a key that hides behind another", ALICE.public.pem + BOB.public.pem),
    "good": ("what is right is taken", ALICE.public.inline),
}
