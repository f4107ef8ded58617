"""Tokens of an identity provider, good ones and hostile ones."""

import base64
import hashlib
import hmac
import json
import os
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from sandseal_host.api.access import parse_access
from sandseal_host.api.oidc import IdentityProvider
from sandseal_host.errors import NotAuthenticated, SettingsInvalid
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import STANDARD

RSA_KEY = rsa.generate_private_key(65537, 2048)
KEYS = {
    "rsa": (RSA_KEY, "RS256", RSAAlgorithm),
    "ec": (ec.generate_private_key(ec.SECP256R1()), "ES256", ECAlgorithm),
    "ed": (ed25519.Ed25519PrivateKey.generate(), "EdDSA", OKPAlgorithm),
}
ISSUER, AUDIENCE = "https://id.example", "sandseal"
DOCUMENT = {
    "issuer": ISSUER,
    "audience": AUDIENCE,
    "jwks": "jwks.json",
    "tenant_claim": "org",
    "models": "{tenant}.*",
    "ceiling": "standard",
    "scopes": {"models:call": ["infer"], "models:push": ["publish", "infer"]},
}


def jwk(which, **more):
    key, _, kind = KEYS[which]
    return kind.to_jwk(key.public_key(), as_dict=True) | {"kid": which} | more


def write_keys(folder, *keys):
    path = folder / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return path


@pytest.fixture
def provider(tmp_path):
    write_keys(tmp_path, *map(jwk, KEYS), jwk("rsa", kid="enc", use="enc"))
    return IdentityProvider(parse_access({"oidc": DOCUMENT}, tmp_path).oidc)


def claims(**more):
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 60, "org": "acme", "scope": "models:call x"}
    return {name: value for name, value in (said | more).items() if value is not None}


def signed(kid="rsa", said=None, **headers):
    key, algorithm, _ = KEYS[kid]
    return jwt.encode(said or claims(), key, headers.pop("algorithm", algorithm), {"kid": kid} | headers)


@pytest.mark.parametrize("kid", KEYS)
def test_good_ones(provider, kid):
    grant = provider.check(signed(kid))
    assert (grant.name, grant.tenant, grant.models, grant.ceiling) == ("ann", "acme", "acme.*", STANDARD)
    assert grant.scopes == {Scope.INFER}


def test_scopes_and_audiences(provider):
    grant = provider.check(signed(said=claims(scope=["models:push", "other", 5], aud=["x", AUDIENCE])))
    assert grant.scopes == {Scope.INFER, Scope.PUBLISH}
    assert provider.check(signed(said=claims(scope=None))).scopes == frozenset()


@pytest.mark.parametrize(
    "said",
    [
        {"exp": int(time.time()) - 60},
        {"exp": None},
        {"nbf": int(time.time()) + 600},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": None},
        {"sub": 5},
        {"org": None},
        {"org": "*"},
        {"org": ["acme"]},
        {"org": "a/b"},
    ],
    ids=lambda said: "-".join(said),
)
def test_claims(provider, said):
    with pytest.raises(NotAuthenticated):
        provider.check(signed(said=claims(**said)))


def part(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=")


def forged(header, secret=None):
    """A token of any header, signed with HMAC or not at all."""
    text = part(header) + b"." + part(claims())
    return (text + b"." + part(hmac.digest(secret, text, "sha256") if secret else b"")).decode()


class TestForgeries:
    def refused(self, provider, token):
        with pytest.raises(NotAuthenticated):
            provider.check(token)

    @pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None])
    def test_no_algorithm(self, provider, algorithm):
        self.refused(provider, forged({"alg": algorithm, "kid": "rsa"}))

    def test_the_public_key_as_a_secret(self, provider, tmp_path):
        public = RSA_KEY.public_key()
        for form in (serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1):
            for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
                self.refused(provider, forged({"alg": "HS256", "kid": "rsa"}, public.public_bytes(encoding, form)))
        self.refused(provider, forged({"alg": "HS256", "kid": "rsa"}, json.dumps(jwk("rsa")).encode()))

    def test_key_ids(self, provider):
        for kid in ("ec", "enc", "none", "", "../jwks.json", "rsa' OR '1'='1"):
            self.refused(provider, other_id(kid))
        self.refused(provider, forged({"alg": "RS256", "kid": ["rsa"]}))
        self.refused(provider, forged({"alg": "RS256", "kid": {}}))
        self.refused(provider, jwt.encode(claims(), RSA_KEY, "RS256"))

    def test_keys_in_the_token(self, provider):
        own = rsa.generate_private_key(65537, 2048)
        public = RSAAlgorithm.to_jwk(own.public_key(), as_dict=True)
        for header in ({"jwk": public}, {"jku": "https://evil.example/jwks"}, {"x5u": "https://evil.example/x"}):
            self.refused(provider, jwt.encode(claims(), own, "RS256", {"kid": "rsa"} | header))

    def test_another_algorithm_of_the_same_key(self, provider):
        self.refused(provider, signed(algorithm="RS512"))
        self.refused(provider, signed(algorithm="PS256"))

    def test_damage(self, provider):
        head, body, signature = signed().split(".")
        digest = hashlib.sha256(os.urandom(8)).hexdigest()
        for token in (
            f"{head}.{part(claims(sub='root')).decode()}.{signature}",
            f"{head}.{body}.",
            f"{head}.{body}.{digest}",
            f"{head}.{body}",
            f".{body}.{signature}",
            "..",
            "a.b.c",
            f"{'A' * 20_000}.{body}.{signature}",
        ):
            self.refused(provider, token)

    @pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
    def test_times_that_are_none(self, provider, claim):
        for at in (float("inf"), float("nan"), "soon"):
            self.refused(provider, signed(said=claims(**{claim: at})))

    def test_critical_extensions(self, provider):
        self.refused(provider, signed(crit=["x"], x=1))


def other_id(kid):
    return jwt.encode(claims(), RSA_KEY, "RS256", {"kid": kid})


class TestKeys:
    def test_a_new_file_counts_and_a_faulty_one_changes_nothing(self, provider, tmp_path):
        path = write_keys(tmp_path, jwk("ec"))
        os.utime(path, (1, 1))
        with pytest.raises(NotAuthenticated):
            provider.check(signed("rsa"))
        path.write_text("{")
        os.utime(path, (2, 2))
        assert provider.check(signed("ec")).name == "ann"

    @pytest.mark.parametrize(
        "keys",
        [
            [{"kty": "oct", "kid": "s", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}],
            [jwk("rsa"), jwk("rsa")],
            [jwk("rsa", alg="HS256")],
            [{name: value for name, value in jwk("rsa").items() if name != "kid"}],
            ["x"],
        ],
        ids=["symmetric", "twice", "of another kind", "no id", "no key"],
    )
    def test_files_that_cannot_be_used(self, tmp_path, keys):
        write_keys(tmp_path, *keys)
        with pytest.raises(SettingsInvalid, match="cannot be used"):
            IdentityProvider(parse_access({"oidc": DOCUMENT}, tmp_path).oidc)

    def test_no_file(self, tmp_path):
        with pytest.raises(SettingsInvalid):
            IdentityProvider(parse_access({"oidc": DOCUMENT}, tmp_path).oidc)
