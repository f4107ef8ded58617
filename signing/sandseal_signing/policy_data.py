"""A trust policy as JSON data, for people and programs that ask what is in force."""

from dataclasses import asdict
from typing import Any

from sandseal_signing.trust import SCHEMA, TrustedKey, TrustPolicy


def policy_data(policy: TrustPolicy) -> dict[str, Any]:
    """Serial, keys with their fingerprints, rules in order, root and revocations; there is no secret in a policy."""
    revoked = policy.revoked
    return {
        "schema": SCHEMA,
        "serial": policy.serial,
        "keys": [_key(key, policy) for key in policy.keys.values()],
        "rules": [asdict(rule) for rule in policy.rules],
        "root": asdict(policy.root) if policy.root else None,
        "revoked": {name: sorted(getattr(revoked, name)) for name in ("keys", "bundles", "blobs")},
    }


def _key(key: TrustedKey, policy: TrustPolicy) -> dict[str, Any]:
    return {
        "name": key.name,
        "holder": key.holder,
        "algorithm": key.public.algorithm,
        "public": key.public.inline,
        "fingerprint": key.public.fingerprint,
        "not_after": key.not_after.isoformat() if key.not_after else None,
        "revoked": policy.revokes(key),
    }
