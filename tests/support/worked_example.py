"""The generated parts of signing/README.md: the worked example's bytes, and the table of errors.

python tests/support/worked_example.py        writes them into the README; a test compares
"""

import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

from sandseal_signing import errors
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope, pae
from sandseal_signing.errors import AuditError, IntegrityError, LogInconsistent, SigningError, TrustError
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import Contents, pack_folder
from sandseal_signing.seal import BLOCK, SealReader, render_header

README = Path(__file__).resolve().parents[2] / "signing" / "README.md"
KEY = PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
MANIFEST = b"""\
{
  "schema": "sandseal.bundle/1",
  "name": "acme.tiny",
  "version": 1,
  "model": {
    "file": "model.onnx",
    "inputs": [{"name": "x", "dtype": "FP32", "shape": ["batch", 4]}],
    "outputs": [{"name": "y", "dtype": "FP32", "shape": ["batch", 4]}]
  }
}
"""
FILES = {"bundle.json": MANIFEST, "model.onnx": b"model"}

_NEVER_RAISED = (SigningError, IntegrityError, TrustError, AuditError, LogInconsistent)  # only to be caught by
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def packed() -> tuple[Contents, bytes]:
    """The example as an archive."""
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        for name, data in FILES.items():
            Path(folder, name).write_bytes(data)
        contents = pack_folder(Path(folder), out, [KEY])
    return contents, out.getvalue()


def blocks() -> Mapping[str, str]:
    """The README's generated blocks by name, each with a final newline."""
    contents, archive = packed()
    ((name, signature_file),) = contents.signatures.items()
    envelope = Envelope.parse(signature_file, name)
    encoding = pae(PAYLOAD_TYPE, contents.payload)
    return {
        "manifest": _fenced(MANIFEST.decode(), "json"),
        "key": _fenced(
            f"seed         {bytes(range(32)).hex()}\npublic       {KEY.public.inline}\n"
            f"hint         {KEY.public.hint}\nfingerprint  {KEY.public.fingerprint}\n"
        ),
        "statement": _fenced(contents.payload.decode() + "\n", "json"),
        "signature": _fenced(
            f"statement    {len(contents.payload)} bytes, no line end after it\n"
            f"bundle id    {contents.id}\n"
            f"PAE          {len(encoding)} bytes, from {encoding.removesuffix(contents.payload).decode()!r} on\n"
            f"signature    {envelope.signature.hex()[:64]}\n             {envelope.signature.hex()[64:]}\n"
        ),
        "file": _fenced(signature_file.decode() + "\n", "json"),
        "layout": _fenced("".join(_layout(archive))),
        "header": _fenced("".join(_hex_rows(render_header("bundle.json", len(MANIFEST))))),
        "errors": "".join(_error_rows()),
    }


def rewrite(text: str) -> str:
    """The README's text with every generated block made anew."""
    made = blocks()
    return _BLOCK.sub(lambda found: found[1] + made[found[2]], text)


def _fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text}```\n"


def _layout(archive: bytes) -> Iterator[str]:
    """What stands where in the archive, by offset."""
    reader, at = SealReader(io.BytesIO(archive)), 0
    members = [(name, len(data)) for name, data in reader.signatures().items()]
    members += [(name, size) for name, size, chunks in reader.members() if [*chunks]]
    for name, size in members:
        yield f"{at:>6}  header of {name}\n{at + BLOCK:>6}  {size} bytes and {-size % BLOCK} zeros\n"
        at += BLOCK + size + -size % BLOCK
    yield f"{at:>6}  {2 * BLOCK} zeros\n{len(archive):>6}  end; SHA-256 {Digest.of(archive)}\n"


def _hex_rows(data: bytes) -> Iterator[str]:
    """The rows of 16 bytes that are not all zero, as offset, hex and text."""
    for at in range(0, len(data), 16):
        if any(row := data[at : at + 16]):
            yield f"{at:04x}  {row.hex(' ')}  {re.sub(r'[^ -~]', '.', row.decode('latin-1'))}\n"


def _error_rows() -> Iterator[str]:
    yield "| code | class | who acts, and when |\n|---|---|---|\n"
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, SigningError) and kind not in _NEVER_RAISED:
            yield f"| `{kind.code}` | `{name}` | {(kind.__doc__ or '').splitlines()[0]} |\n"


if __name__ == "__main__":
    README.write_text(rewrite(README.read_text(encoding="utf-8")), encoding="utf-8")
