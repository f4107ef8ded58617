"""What a publisher may sign: names, digests, sizes, scope; and contents that are not what was signed."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from sandseal_signing.names import MANIFEST
from sandseal_signing.schema import canonical_json
from support.bundles import FILES, archive, manifest
from vectors.hostile.case import Case, content, seal_case, signatures, signed, statement_of

PAYLOAD = statement_of(content()).render()
Change = Callable[[dict[str, Any]], object]


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, payload) in _PAYLOADS.items():
        yield f"statement-{name}", seal_case(stands_for, signed(payload))
    for name, (stands_for, change) in _CHANGES.items():
        yield f"statement-{name}", seal_case(stands_for, signed(_changed(change)))
    for name, (stands_for, bad) in _NAMES.items():
        yield f"name-{name}", seal_case(stands_for, signed(_changed(_add(bad))))
    for name, (stands_for, text) in _MANIFESTS.items():
        files = {MANIFEST: text, **FILES}
        yield f"manifest-{name}", seal_case(stands_for, signed(statement_of(files).render(), files))
    for name, (stands_for, files) in _CONTENTS.items():
        yield f"content-{name}", seal_case(stands_for, archive([*signatures(PAYLOAD), *files.items()]))
    yield from _large()


def _large() -> Iterator[tuple[str, Case]]:
    """Refused by what is announced: none of these bytes ever arrive."""
    plugin = {"plugin": "p.wasm", "function": "f", "inputs": [{"name": "i", "dtype": "BYTES", "shape": []}]}
    for name, stands_for, file, size, changes in (
        ("model-of-5-gib", "a limit of the rule", "model.onnx", 5 << 30, {}),
        ("plugin-of-65-mib", "a limit of the format", "p.wasm", 65 << 20, {"pre": plugin}),
    ):
        files = content({**FILES, "p.wasm": b"\0asm"}, **changes)
        document = json.loads(statement_of(files).render())
        for resource in document["predicate"]["resources"]:
            resource["size"] = size if resource["name"] == file else resource["size"]
        yield f"content-{name}", seal_case(stands_for, signed(canonical_json(document), files))


def _changed(change: Change) -> bytes:
    document = json.loads(PAYLOAD)
    change(document)
    return json.dumps(document).encode()


def _resource(**members: Any) -> Change:
    """A change of the model's entry."""
    return lambda document: document["predicate"]["resources"][-1].update(members)


def _scope(**members: Any) -> Change:
    return lambda document: document["predicate"]["serialization"].update(members)


def _add(name: str) -> Change:
    """One more file, of no bytes."""
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    entry = {"name": name, "algorithm": "sha256", "digest": empty, "size": 0, "mediaType": "x/y"}
    return lambda document: document["predicate"]["resources"].append(entry)


def _many(count: int) -> Change:
    def change(document: dict[str, Any]) -> None:
        for i in range(count):
            _add(f"f{i}")(document)

    return change


def _text(**changes: Any) -> bytes:
    return json.dumps(manifest(**changes)).encode()


_DIGEST = json.loads(PAYLOAD)["predicate"]["resources"][-1]["digest"]
_PAYLOADS = {
    "member-twice": (
        "duplicate keys: the last wins elsewhere",
        PAYLOAD.replace(b'{"_type"', b'{"_type":"x","_type"', 1),
    ),
    "not-json": ("bytes that say nothing", b"\0asm"),
    "of-4-mib": ("a limit of the format", PAYLOAD + b" " * (4 << 20)),
    "with-spaces": ("bytes are signed: their form is free", b" " + PAYLOAD + b"\n"),
    "deep": ("nesting that overflows a parser's stack", PAYLOAD.replace(b"[", b"[" * 9999, 1)),
}
_CHANGES: dict[str, tuple[str, Change]] = {
    "another-predicate": (
        "CVE-2026-39395: another predicate reported as verified",
        lambda d: d.update(predicateType="https://slsa.dev/provenance/v1"),
    ),
    "another-type": ("an older statement", lambda d: d.update(_type="https://in-toto.io/Statement/v0.1")),
    "two-subjects": ("OMS: exactly one", lambda d: d["subject"].append(d["subject"][0])),
    "no-subject": ("OMS: exactly one", lambda d: d.update(subject=[])),
    "another-subject": ("the subject is never trusted", lambda d: d["subject"][0].update(name="evil")),
    "another-root": ("OMS's root digest is never trusted", lambda d: d["subject"][0].update(digest={"sha256": "0"})),
    "unsorted": ("the order carries no meaning", lambda d: d["predicate"]["resources"].reverse()),
    "file-twice": ("duplicate names: the last wins elsewhere", _add("README.md")),
    "no-files": ("a bundle of nothing", lambda d: d["predicate"].update(resources=[])),
    "no-manifest": ("a bundle without its manifest", lambda d: d["predicate"]["resources"].pop(1)),
    "4097-files": ("a limit of the format", _many(4094)),
    "upper-case-digest": ("one digest in two spellings", _resource(digest=_DIGEST.upper())),
    "short-digest": ("digest strings as paths: CVE-2024-37032", _resource(digest="../../../etc/passwd")),
    "another-algorithm": ("algorithms by name", _resource(algorithm="md5")),
    "size-absent": ("sizes are known before bytes", lambda d: d["predicate"]["resources"][-1].pop("size")),
    "size-negative": ("CVE-2025-8194: a negative size", _resource(size=-1)),
    "size-of-2-53": ("integers that doubles round", _resource(size=1 << 53)),
    "size-a-fraction": ("numbers with two readings", _resource(size=1600.0)),
    "size-a-boolean": ("numbers with two readings", _resource(size=True)),
    "resource-with-more": ("closed documents", _resource(executable=True)),
    "predicate-with-more": ("closed documents", lambda d: d["predicate"].update(extra=1)),
    "links-allowed": ("model-transparency#666: links followed", _scope(allow_symlinks=True)),
    "links-zero": ("0 == false in some languages", _scope(allow_symlinks=0)),
    "in-shards": ("shards leave out empty files", _scope(method="shards", shard_size=1000000000)),
    "blake2b": ("another hash", _scope(hash_type="blake2b")),
    "file-left-out": ("files that the signature lets change", _scope(ignore_paths=["model.onnx"])),
    "all-left-out": ("files that the signature lets change", _scope(ignore_paths=["."])),
    "nothing-left-out": ("a scope that may be absent", lambda d: d["predicate"]["serialization"].pop("ignore_paths")),
}
_NAMES = {
    "above": ("model-transparency#647: reads outside of the root", "../outside"),
    "above-inside": ("zip slip", "a/../../outside"),
    "absolute": ("zip slip", "/etc/passwd"),
    "backslash": ("zip slip on Windows", "..\\outside"),
    "drive": ("zip slip on Windows", "C:outside"),
    "stream": ("alternate data streams", "a.txt:evil"),
    "current": ("one file under two names", "./README.md"),
    "two-slashes": ("one file under two names", "a//b"),
    "slash-at-the-end": ("RUSTSEC-2026-0269: a trailing slash", "a/"),
    "empty": ("no name", ""),
    "nul": ("NUL truncates names", "a\0.txt"),
    "line-feed": ("names that break lines", "a\nb"),
    "space": ("names that break command lines", "a b"),
    "not-ascii": ("NFC and NFD are two names for one file", "mode\u0301l"),
    "right-to-left": ("names that look like others", "a\u202egnp.exe"),
    "case": ("case folding", "readme.MD"),
    "folder-in-another-case": ("case folding", "README.md/x"),
    "below-a-file": ("a file that is a folder", "model.onnx/x"),
    "device": ("Windows device names", "con"),
    "device-with-ending": ("Windows device names", "a/NUL.txt"),
    "dot-at-the-end": ("Windows drops it", "README.md."),
    "git": ("what OMS leaves out", ".git/config"),
    "gitignore": ("what OMS leaves out", ".gitignore"),
    "model-sig": ("what OMS leaves out", "model.sig"),
    "below-signatures": ("unsigned by design", "signatures/x.sig"),
    "of-256-bytes": ("limits of file systems", "/".join(["a" * 50] * 5) + "/b"),
    "part-of-101-bytes": ("limits of ustar", "a" * 101),
    "of-9-levels": ("a limit of the format", "a/b/c/d/e/f/g/h/i"),
}
_MANIFESTS = {
    "member-twice": (
        "duplicate keys: the last wins elsewhere",
        _text().replace(b'"version"', b'"version": 2, "version"'),
    ),
    "another-member": ("closed documents", _text(trust_remote_code=True)),
    "another-schema": ("formats that are not known", _text(schema="sandseal.bundle/2")),
    "null": ("null is not absent", _text(expires=None)),
    "of-257-kib": ("a limit of the format", _text() + b" " * (257 << 10)),
    "file-not-signed": (
        "CVE-2022-25882: weights that nobody signed",
        _text(model={**manifest()["model"], "file": "x"}),
    ),
    "file-above": ("CVE-2024-27318: a path out of the bundle", _text(model={**manifest()["model"], "file": "../x"})),
    "weights-outside": (
        "CVE-2022-25882: a path out of the bundle",
        _text(model={**manifest()["model"], "external_data": ["/etc/passwd"]}),
    ),
    "version-zero": ("rollback: versions begin at 1", _text(version=0)),
    "name-with-slash": ("names in paths", _text(name="acme/tiny")),
    "expired": ("freeze: a bundle that must not be used any more", _text(expires="2027-06-01T00:00:00Z")),
    "not-yet": ("a bundle that must not be used yet", _text(not_before="2027-06-01T00:00:01Z")),
    "name-of-others": ("who may publish what", _text(name="evil.tiny")),
    "domains": ("operators beyond the grant", _text(model={**manifest()["model"], "domains": ["x"]})),
}
_MANIFEST = content()[MANIFEST]
_CONTENTS = {
    "changed": ("a byte that differs", {**content(), "model.onnx": FILES["model.onnx"].replace(b"n", b"m", 1)}),
    "longer": ("bytes behind the signed ones", {**content(), "model.onnx": FILES["model.onnx"] + b"x"}),
    "shorter": ("bytes that are missing", {**content(), "model.onnx": FILES["model.onnx"][:-1]}),
    "emptied": ("bytes that are missing", {**content(), "model.onnx": b""}),
    "manifest-changed": (
        "what OMS signs like any file",
        {**content(), MANIFEST: _MANIFEST.replace(b'"version": 1', b'"version": 2')},
    ),
    "manifest-of-another-size": ("what OMS signs like any file", {**content(), MANIFEST: _MANIFEST + b" "}),
}
