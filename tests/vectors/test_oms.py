"""ossf/model-signing-spec and sigstore/model-transparency: what others sign, and what their schemas say of ours."""

import json
from typing import Any

import pytest

from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import EnvelopeInvalid, StatementInvalid
from sandseal_signing.keys import PublicKey
from sandseal_signing.statement import parse_statement
from support.bundles import FILES, members, seal
from support.keys import ed25519_key, p256_key
from support.shared import json_vectors, vectors

jsonschema = pytest.importorskip("jsonschema")
referencing = pytest.importorskip("referencing")


@pytest.fixture(scope="module")
def key() -> PublicKey:
    """The P-384 key that signed the released tool's models."""
    text = vectors("oms/signed-models/keys/signing-key-pub.pem").read_text()
    return PublicKey.parse(text[text.index("-----BEGIN PUBLIC KEY") :])


def parse(name: str) -> Envelope:
    return Envelope.parse(vectors(f"oms/{name}").read_bytes(), name)


@pytest.mark.parametrize("name", ["valid--key.bundle.json", "signed-models/v1.1.0-elliptic-key/model.sig"])
def test_key_mode_signatures_verify(name: str, key: PublicKey) -> None:
    envelope = parse(name)
    assert envelope.hint == key.hint
    assert envelope.verifies(key)
    with pytest.raises(StatementInvalid, match="ignore_paths"):  # a scope of their own, and resources without size
        parse_statement(envelope.payload)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("valid--certificate.bundle.json", "publicKey: is missing"),
        ("valid--sigstore.bundle.json", "publicKey: is missing"),
        ("invalid--missing-envelope.bundle.json", "dsseEnvelope: is missing"),
        ("invalid--missing-tlog-entries.bundle.json", "publicKey: is missing"),
        ("invalid--missing-verification-material.bundle.json", "verificationMaterial: is missing"),
        ("signed-models/v1.1.0-certificate/model.sig", "publicKey: is missing"),
        ("signed-models/v0.3.1-elliptic-key/model.sig", "hint: is missing"),
        ("signed-models/v1.0.0-elliptic-key/model.sig", "hint: is missing"),
        ("signed-models/v1.0.1-elliptic-key/model.sig", "hint: is missing"),
    ],
)
def test_what_is_not_key_mode_of_today_is_refused(name: str, why: str) -> None:
    with pytest.raises(EnvelopeInvalid, match=why):
        parse(name)


def test_another_predicate_is_refused_after_the_signature() -> None:
    envelope = parse("invalid-payload--wrong-predicate.bundle.json")
    with pytest.raises(StatementInvalid, match=r"statement\.predicateType: must be"):
        parse_statement(envelope.payload)


@pytest.fixture(scope="module")
def schemas() -> Any:
    """Validators of the four published schemas by name."""
    documents = {
        name: json_vectors(f"oms/schemas/{name}.schema.json")
        for name in ("bundle", "envelope", "predicate", "statement")
    }
    resources = [(d["$id"], referencing.Resource.from_contents(d)) for d in documents.values()]
    registry = referencing.Registry().with_resources(resources)
    return {name: jsonschema.Draft202012Validator(d, registry=registry) for name, d in documents.items()}


def test_our_signature_files_and_statements_follow_the_published_schemas(schemas: Any) -> None:
    files = {**FILES, "plugins/pre.wasm": b"\0asm", "empty": b""}
    archive = seal([ed25519_key("alice"), p256_key("alice")], files=files)
    signatures = [data for name, data in members(archive) if name.startswith("signatures/")]
    assert len(signatures) == 2
    for data in signatures:
        document = json.loads(data)
        schemas["bundle"].validate(document)
        schemas["envelope"].validate(document["dsseEnvelope"])
        statement = json.loads(Envelope.parse(data, "x").payload)
        schemas["statement"].validate(statement)
        schemas["predicate"].validate(statement["predicate"])


def test_the_published_schemas_refuse_what_they_should(schemas: Any) -> None:
    for name in ("missing-envelope", "missing-verification-material"):
        with pytest.raises(jsonschema.ValidationError):
            schemas["bundle"].validate(json_vectors(f"oms/invalid--{name}.bundle.json"))
