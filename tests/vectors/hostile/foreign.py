"""Model folders of others: what the stock OMS tool lets through, and we do not (or do, on purpose)."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandseal_signing.envelope import MEDIA_TYPE, PAYLOAD_TYPE, pae
from sandseal_signing.keys import PrivateKey
from sandseal_signing.oms import copy_model, read_model_signature
from sandseal_signing.statement import PREDICATE_TYPE, STATEMENT_TYPE
from support.keys import p256_key
from vectors.hostile.case import Case

KEY = p256_key("foreign")
FILES: Mapping[str, bytes] = {"a.bin": b"a", "docs/b.md": b"b"}
Change = Callable[[dict[str, Any]], object]


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, change) in _STATEMENTS.items():
        yield f"foreign-{name}", _case(stands_for, change=change)
    for name, (stands_for, change) in _ENVELOPES.items():
        yield f"foreign-{name}", _case(stands_for, wrap=change)
    for name, (stands_for, spoil) in _FOLDERS.items():
        yield f"foreign-{name}", _case(stands_for, spoil=spoil)
    yield "foreign-old-encoding", _case("model-signing 0.2's PAE, which the tool still takes", encode=_old_pae)
    yield "foreign-by-another-key", _case("a hint that is right proves nothing", key=p256_key("eve"))
    twice = _case(
        "duplicate keys: the last wins in the tool", text=lambda t: t.replace('{"_type"', '{"_type":1,"_type"')
    )
    yield "foreign-member-twice", twice


def _case(
    stands_for: str,
    *,
    change: Change = lambda _: None,
    wrap: Change = lambda _: None,
    spoil: Callable[[Path], object] = lambda _: None,
    encode: Callable[[bytes], bytes] = lambda payload: pae(PAYLOAD_TYPE, payload),
    text: Callable[[str], str] = lambda text: text,
    key: PrivateKey = KEY,
) -> Case:
    """A model signed as the tool signs, with one thing changed.

    Args:
        change: of the statement, before it is signed; `text` of its JSON.
        wrap: of the signature file.
        spoil: of the folder, afterwards.
    """

    def attempt(folder: Path) -> None:
        model = folder / "model"
        for name, data in FILES.items():
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_bytes(data)
        statement = _statement()
        change(statement)
        payload = text(json.dumps(statement)).encode()
        signature = _envelope(payload, key.sign(encode(payload)))
        wrap(signature)
        spoil(model)
        copy_model(model, read_model_signature(json.dumps(signature).encode(), KEY.public), folder / "bundle")

    return Case(stands_for, attempt)


def _statement() -> dict[str, Any]:
    resources = [
        {"name": name, "digest": hashlib.sha256(data).hexdigest(), "algorithm": "sha256"}
        for name, data in FILES.items()
    ]
    scope = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": ["model.sig", "tmp"]}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "model", "digest": {"sha256": "0" * 64}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"resources": resources, "serialization": scope},
    }


def _envelope(payload: bytes, signature: bytes) -> dict[str, Any]:
    payload64, signature64 = (base64.b64encode(data).decode() for data in (payload, signature))
    return {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": KEY.public.hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": payload64,
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": signature64, "keyid": ""}],
        },
    }


def _old_pae(payload: bytes) -> bytes:
    return f"DSSEV1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} {payload!r}".encode()


def _entry(name: str, data: bytes = b"") -> Change:
    entry = {"name": name, "digest": hashlib.sha256(data).hexdigest(), "algorithm": "sha256"}
    return lambda statement: statement["predicate"]["resources"].append(entry)


def _scope(**members: Any) -> Change:
    return lambda statement: statement["predicate"]["serialization"].update(members)


def _upper(statement: dict[str, Any]) -> None:
    for resource in statement["predicate"]["resources"]:
        resource["digest"] = resource["digest"].upper()


def _with_sizes(statement: dict[str, Any]) -> None:
    for resource in statement["predicate"]["resources"]:
        resource.update(size=1, mediaType="x/y", other=None)


def _plant(name: str) -> Callable[[Path], None]:
    def spoil(model: Path) -> None:
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(b"planted")

    return spoil


def _link(model: Path) -> None:
    (model / "a.bin").unlink()
    (model / "a.bin").symlink_to("docs/b.md")


def _link_left_out(model: Path) -> None:
    (model / "tmp").mkdir()
    (model / "tmp" / "link").symlink_to("/etc")


_STATEMENTS: dict[str, tuple[str, Change]] = {
    "untouched": ("what is right is taken", lambda _: None),
    "file-twice": ("duplicate names: the last wins in the tool", _entry("a.bin", b"x")),
    "file-above": ("model-transparency#647: reads outside of the root", _entry("../outside")),
    "file-absolute": ("model-transparency#647: reads outside of the root", _entry("/etc/hostname")),
    "decomposed-name": ("NFC and NFD are two names for one file", _entry("mode\u0301l")),
    "names-in-two-cases": ("case folding", _entry("A.bin")),
    "line-feed-in-a-name": ("names that break lines", _entry("a\nb")),
    "file-not-there": ("a file that is left out", _entry("c.bin")),
    "unsorted": ("accepted: the order carries no meaning", lambda s: s["predicate"]["resources"].reverse()),
    "upper-case-digests": ("accepted: others write them so", _upper),
    "sizes": ("accepted: the schema allows more members", _with_sizes),
    "links-allowed": ("accepted: no link is followed, whatever the signature allows", _scope(allow_symlinks=True)),
    "in-shards": ("shards leave out empty files", _scope(method="shards", shard_size=1000000000)),
    "blake3": ("a hash that a bundle cannot keep", _scope(hash_type="blake3")),
    "another-predicate": ("CVE-2026-39395", lambda s: s.update(predicateType="https://slsa.dev/provenance/v1")),
    "no-files": ("a model of nothing", lambda s: s["predicate"].update(resources=[])),
}
_ENVELOPES: dict[str, tuple[str, Change]] = {
    "old-media-type": (
        "accepted: read, never written",
        lambda e: e.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.2"),
    ),
    "unknown-media-type": ("formats that are not known", lambda e: e.update(mediaType="application/json")),
    "another-hint": (
        "a signature by somebody else",
        lambda e: e.update(verificationMaterial={"publicKey": {"hint": "0"}}),
    ),
    "raw-key": (
        "accepted: the key that a signature brings along is not looked at",
        lambda e: e.update(verificationMaterial={"publicKey": {"rawBytes": "AAAA"}}),
    ),
    "certificates": (
        "accepted: the given key decides, no certificate",
        lambda e: e.update(verificationMaterial={"x509CertificateChain": {"certificates": []}}),
    ),
    "keyless": ("a signature without a key", lambda e: e.update(verificationMaterial={"certificate": {}})),
    "two-signatures": (
        "the tool looks at the first only",
        lambda e: e["dsseEnvelope"]["signatures"].append({"sig": "AAAA"}),
    ),
    "another-payload-type": ("DSSE: the type is signed", lambda e: e["dsseEnvelope"].update(payloadType="text/plain")),
}
_FOLDERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "file-planted": ("model-transparency#650: a planted file passes", _plant("planted.py")),
    "file-planted-under-git": ("accepted, and not taken", _plant(".git/config")),
    "file-planted-where-left-out": ("accepted, and not taken", _plant("tmp/x")),
    "file-changed": ("a byte that differs", _plant("a.bin")),
    "file-gone": ("a file that is left out", lambda m: (m / "a.bin").unlink()),
    "link-for-a-file": ("links", _link),
    "link-where-left-out": ("model-transparency#549: accepted, skipped before it is looked at", _link_left_out),
}
