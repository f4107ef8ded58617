import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rfc8785 import dumps

from sandseal_signing.digest import Digest
from sandseal_signing.errors import (
    DigestMismatch,
    JsonInvalid,
    LimitExceeded,
    NameInvalid,
    SizeMismatch,
    StatementInvalid,
)
from sandseal_signing.statement import MAX_BYTES, MAX_RESOURCES, Resource, Statement, media_type, parse_statement


def resource(name: str, data: bytes = b"") -> Resource:
    return Resource(name, Digest.of(data), len(data), media_type(name))


STATEMENT = Statement.of("acme.tiny", [resource("model.onnx", b"model"), resource("bundle.json", b"{}")])

RESOURCES = st.lists(
    st.builds(
        resource,
        st.from_regex(r"[a-c]{1,3}(/[a-c]{1,3}\.(txt|wasm|x))?", fullmatch=True),
        st.binary(max_size=8),
    ),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1), RESOURCES, st.randoms())
def test_render_and_parse_are_inverses_and_order_is_lost(subject: str, resources: list[Resource], random: Any) -> None:
    resources = [resource("bundle.json", b"{}"), *resources]
    try:
        statement = Statement.of(subject, resources)
    except NameInvalid:
        return
    random.shuffle(resources)
    assert Statement.of(subject, resources) == statement
    try:
        payload = statement.render()
    except UnicodeEncodeError:  # a lone surrogate, which no manifest can hold
        return
    assert parse_statement(payload) == statement
    assert payload == dumps(json.loads(payload))


def test_a_statement_lists_its_files_in_code_point_order() -> None:
    statement = Statement.of("x", map(resource, ("bundle.json", "a-b", "a/c", "a.b", "B", "z")))
    assert [r.name for r in statement.resources] == ["B", "a-b", "a.b", "a/c", "bundle.json", "z"]
    assert [r.name for r in statement.in_transfer_order] == ["bundle.json", "B", "a-b", "a.b", "a/c", "z"]
    assert statement.by_name["z"] == resource("z")
    assert STATEMENT.sizes == {"bundle.json": 2, "model.onnx": 5}


def test_the_payload_is_an_oms_statement() -> None:
    one, two = hashlib.sha256(b"{}"), hashlib.sha256(b"model")
    assert json.loads(STATEMENT.render()) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "acme.tiny", "digest": {"sha256": hashlib.sha256(one.digest() + two.digest()).hexdigest()}}
        ],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [".git", ".gitattributes", ".github", ".gitignore", "model.sig", "signatures"],
            },
            "resources": [
                {
                    "name": "bundle.json",
                    "algorithm": "sha256",
                    "digest": one.hexdigest(),
                    "size": 2,
                    "mediaType": "application/json",
                },
                {
                    "name": "model.onnx",
                    "algorithm": "sha256",
                    "digest": two.hexdigest(),
                    "size": 5,
                    "mediaType": "application/vnd.onnx",
                },
            ],
        },
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.onnx", "application/vnd.onnx"),
        ("plugins/pre.wasm", "application/wasm"),
        ("README.md", "text/markdown"),
        ("a.b/labels.txt", "text/plain"),
        ("bundle.json", "application/json"),
        ("model.onnx.data", "application/octet-stream"),
        ("a.json/b", "application/octet-stream"),
        ("README", "application/octet-stream"),
    ],
)
def test_media_types_go_by_the_ending(name: str, kind: str) -> None:
    assert media_type(name) == kind


def test_the_bundle_id_covers_names_and_sizes() -> None:
    ids = {
        Digest.of(Statement.of("x", [resource("bundle.json"), other]).render())
        for other in (resource("a", b"1"), resource("b", b"1"), Resource("a", Digest.of(b"1"), 2, media_type("a")))
    }
    assert len(ids) == 3


def test_a_statement_needs_a_manifest_and_sound_names() -> None:
    with pytest.raises(StatementInvalid, match=r"no bundle\.json"):
        Statement.of("x", [resource("model.onnx")])
    for names in (("a", "a"), ("a", "A"), ("a", "a/b"), ("../a",), ("signatures/x.sig",)):
        with pytest.raises(NameInvalid):
            Statement.of("x", map(resource, ("bundle.json", *names)))


def test_a_statement_is_limited_in_size_and_number() -> None:
    many = [resource("bundle.json"), *(resource(f"f{i}") for i in range(MAX_RESOURCES - 1))]
    payload = Statement.of("x", many).render()
    assert len(parse_statement(payload).resources) == MAX_RESOURCES
    with pytest.raises(LimitExceeded, match="4097 files, over 4096"):
        Statement.of("x", [*many, resource("one-more")])
    with pytest.raises(LimitExceeded, match="over 4194304"):
        parse_statement(payload + b" " * (MAX_BYTES + 1 - len(payload)))


Change = Callable[[dict[str, Any]], Any]


def parse(change: Change) -> Statement:
    """Parse the statement after a change to its JSON."""
    document = json.loads(STATEMENT.render())
    change(document)
    return parse_statement(json.dumps(document).encode())


def first(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["predicate"]["resources"][0]
    return found


def scope(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["predicate"]["serialization"]
    return found


FINE: dict[str, Change] = {
    "another order": lambda d: d["predicate"]["resources"].reverse(),
    "another root digest": lambda d: d["subject"][0].update(digest={"sha256": "00"}),
    "fewer ignored paths": lambda d: scope(d).update(ignore_paths=[".git"]),
    "the stock tool's ignored paths": lambda d: scope(d).update(
        ignore_paths=[".github", "model.sig", ".gitignore", ".git", ".gitattributes"]
    ),
    "no ignored paths": lambda d: scope(d).pop("ignore_paths"),
}


@pytest.mark.parametrize("change", FINE.values(), ids=FINE)
def test_what_foreign_writers_may_do_otherwise(change: Change) -> None:
    assert parse(change) == STATEMENT


BAD: dict[str, tuple[Change, str]] = {
    "another type": (lambda d: d.update(_type="https://in-toto.io/Statement/v0.1"), "statement._type: must be"),
    "another predicate": (lambda d: d.update(predicateType="https://slsa.dev/x"), "statement.predicateType: must be"),
    "no predicate type": (lambda d: d.pop("predicateType"), "predicateType: is missing"),
    "another member": (lambda d: d.update(extra=1), "statement.extra: is not a member"),
    "no subject": (lambda d: d.update(subject=[]), "exactly one subject, not 0"),
    "two subjects": (lambda d: d.update(subject=d["subject"] * 2), "exactly one subject, not 2"),
    "a subject without name": (lambda d: d["subject"][0].pop("name"), r"subject\[0\]\.name: is missing"),
    "a subject without digest": (lambda d: d["subject"][0].pop("digest"), r"subject\[0\]\.digest: is missing"),
    "another subject member": (lambda d: d["subject"][0].update(uri="x"), r"subject\[0\]\.uri: is not a member"),
    "another predicate member": (lambda d: d["predicate"].update(extra=1), "predicate.extra: is not a member"),
    "no resources": (lambda d: d["predicate"].update(resources=[]), "no bundle.json"),
    "resources that are no list": (lambda d: d["predicate"].update(resources={}), "resources: must be a list"),
    "another digest algorithm": (lambda d: first(d).update(algorithm="blake2b"), "algorithm: must be 'sha256'"),
    "no algorithm": (lambda d: first(d).pop("algorithm"), r"resources\[0\]\.algorithm: is missing"),
    "an upper-case digest": (lambda d: first(d).update(digest="A" * 64), "digest: must be 64 lower-case hex"),
    "a short digest": (lambda d: first(d).update(digest="ab"), "digest: must be 64 lower-case hex"),
    "no size": (lambda d: first(d).pop("size"), "size: is missing"),
    "a negative size": (lambda d: first(d).update(size=-1), "size: must be an integer"),
    "a size that is a float": (lambda d: first(d).update(size=2.0), "size: must be an integer"),
    "a size that is a boolean": (lambda d: first(d).update(size=True), "size: must be an integer"),
    "no media type": (lambda d: first(d).pop("mediaType"), "mediaType: is missing"),
    "an overlong media type": (lambda d: first(d).update(mediaType="x" * 256), "mediaType: must be"),
    "another resource member": (lambda d: first(d).update(uri="x"), r"resources\[0\]\.uri: is not a member"),
    "shards": (lambda d: scope(d).update(method="shards"), 'serialization.method: must be "files"'),
    "a shard size": (lambda d: scope(d).update(shard_size=1), "shard_size: is not a member"),
    "another hash": (lambda d: scope(d).update(hash_type="blake3"), 'hash_type: must be "sha256"'),
    "links": (lambda d: scope(d).update(allow_symlinks=True), "allow_symlinks: must be false"),
    "links by a number": (lambda d: scope(d).update(allow_symlinks=0), "allow_symlinks: must be false"),
    "links by default": (lambda d: scope(d).pop("allow_symlinks"), "allow_symlinks: is missing"),
    "an ignored path": (lambda d: scope(d).update(ignore_paths=["plugins"]), "ignore_paths: must be a list of some of"),
    "an ignored path twice": (lambda d: scope(d).update(ignore_paths=[".git"] * 2), "holds a string twice"),
    "ignored paths that are no texts": (lambda d: scope(d).update(ignore_paths=[1]), "ignore_paths: must be a list"),
}


@pytest.mark.parametrize(("change", "why"), BAD.values(), ids=BAD)
def test_what_is_no_statement(change: Change, why: str) -> None:
    with pytest.raises(StatementInvalid, match=why):
        parse(change)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "signatures/x.sig", ".git/x", "Bundle.json", "bundle.json", "model.onnx/x"]
)
def test_names_are_checked_when_read(name: str) -> None:
    with pytest.raises(NameInvalid):
        parse(lambda d: d["predicate"]["resources"].append({**first(d), "name": name}))


def test_a_statement_is_strict_json() -> None:
    with pytest.raises(JsonInvalid, match=r"statement: not strict JSON .member '_type' stands twice"):
        parse_statement(STATEMENT.render()[:-1] + b',"_type":""}')
    with pytest.raises(StatementInvalid, match="statement: must be an object"):
        parse_statement(b"[]")


def chunks(*parts: bytes) -> Iterator[memoryview]:
    return map(memoryview, parts)


def test_checked_content_passes_through_unchanged() -> None:
    assert b"".join(map(bytes, resource("x", b"content").check(chunks(b"con", b"", b"tent")))) == b"content"
    assert list(resource("x").check(chunks())) == []


@pytest.mark.parametrize(
    ("parts", "error", "why"),
    [
        ((b"conten",), SizeMismatch, "'x' has only 6 bytes, 7 were signed"),
        ((), SizeMismatch, "'x' has only 0 bytes, 7 were signed"),
        ((b"con", b"tents"), SizeMismatch, "'x' has more than 7 bytes, 7 were signed"),
        ((b"contenT",), DigestMismatch, "'x' has SHA-256 [0-9a-f]{64}, [0-9a-f]{64} was signed"),
    ],
)
def test_checked_content_is_the_signed_one(parts: tuple[bytes, ...], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        list(resource("x", b"content").check(chunks(*parts)))


def test_reading_stops_at_the_first_chunk_too_many() -> None:
    endless = iter(lambda: memoryview(b"content"), None)
    passed = resource("x", b"content").check(endless)
    assert bytes(next(passed)) == b"content"
    with pytest.raises(SizeMismatch):
        next(passed)
