"""Real bundles for tests: manifests, packed and signed archives, archives that nobody would pack, and policies."""

import io
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.pack import pack_folder
from sandseal_signing.seal import SealReader, SealWriter
from sandseal_signing.trust import TrustPolicy

FILES: Mapping[str, bytes] = {"model.onnx": b"not parsed here " * 100, "README.md": b"# A model\n"}


def manifest(name: str = "acme.tiny", version: int = 1, **members: Any) -> dict[str, Any]:
    """The smallest manifest: one FP32 tensor in, one out; `members` are added or replace, a pipeline the model."""
    x, y = ({"name": tensor, "dtype": "FP32", "shape": ["batch", 4]} for tensor in "xy")
    model = {} if "pipeline" in members else {"model": {"file": "model.onnx", "inputs": [x], "outputs": [y]}}
    return {"schema": "sandseal.bundle/1", "name": name, "version": version, **model, **members}


def seal(
    keys: Sequence[PrivateKey] = (),
    name: str = "acme.tiny",
    version: int = 1,
    *,
    files: Mapping[str, bytes] = FILES,
    **members: Any,
) -> bytes:
    """A .seal archive of `files` and a manifest, signed by `keys`."""
    contents = {**files, MANIFEST: render_manifest(manifest(name, version, **members))}
    with tempfile.TemporaryDirectory() as folder:
        for file, data in contents.items():
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        out = io.BytesIO()
        pack_folder(Path(folder), out, keys)
    return out.getvalue()


def members(archive: bytes) -> list[tuple[str, bytes]]:
    """The archive's members in order, signatures included."""
    reader = SealReader(io.BytesIO(archive))
    signatures = list(reader.signatures().items())
    return signatures + [(name, b"".join(map(bytes, chunks))) for name, _, chunks in reader.members()]


def archive(members: Iterable[tuple[str, bytes]]) -> bytes:
    """An archive of exactly these members, whatever they are."""
    out = io.BytesIO()
    writer = SealWriter(out)
    for name, data in members:
        writer.add(name, len(data), iter((memoryview(data),)))
    writer.close()
    return out.getvalue()


def trust_text(keys: Mapping[str, PrivateKey], *rules: Mapping[str, Any], serial: int = 1, tail: str = "") -> str:
    """A trust file that enrols `keys` (each its own holder) and has `rules`; one rule for `acme.*` when none is given.

    Args:
        rules: members of a rule; `keys` defaults to all keys, `models` to `acme.*`.
        tail: TOML at the end, such as a `[revoked]` table.
    """
    lines = ['schema = "sandseal.trust/1"', f"serial = {serial}"]
    for name, key in keys.items():
        lines += [f"[keys.{name}]", f'holder = "{name}@acme"', f'public = """{key.public.inline}"""']
    for rule in rules or ({},):
        lines.append("[[rules]]")
        lines += [f"{member} = {value!r}" for member, value in {"models": ["acme.*"], "keys": [*keys], **rule}.items()]
    return "\n".join([*lines, tail])


def trust(keys: Mapping[str, PrivateKey], *rules: Mapping[str, Any], serial: int = 1, tail: str = "") -> TrustPolicy:
    """The policy of `trust_text`."""

    def no_files(name: str) -> str:
        raise FileNotFoundError(2, "no key files in tests", name)

    return TrustPolicy.parse(trust_text(keys, *rules, serial=serial, tail=tail), no_files)
