"""Real files of many kinds, made by Python's own libraries or taken from this repository and its environment."""

import bz2
import csv
import gzip
import io
import json
import lzma
import plistlib
import py_compile
import random
import sqlite3
import struct
import sys
import tarfile
import wave
import zipfile
import zlib
from email.message import EmailMessage
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_TEXTS = {
    "page.html": "<!DOCTYPE html>\n<html>\n<head><title>Seal</title></head>\n<body><p>Sand and seal.</p></body>\n</html>\n",
    "style.css": "body { margin: 0; color: #222; }\n.seal > a:hover { text-decoration: underline; }\n" * 5,
    "code.js": "export async function load(url) {\n  const answer = await fetch(url);\n  return answer.json();\n}\n" * 4,
    "feed.xml": '<?xml version="1.0" encoding="UTF-8"?>\n<feed><entry id="1"><title>Seal</title></entry></feed>\n' * 3,
    "deploy.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: seal\nspec:\n  ports:\n    - port: 8000\n" * 3,
    "query.sql": "SELECT name, count(*) AS uses FROM files WHERE size > 10 GROUP BY name ORDER BY uses DESC;\n" * 5,
    "settings.ini": "[server]\nhost = 127.0.0.1\nport = 8000\n\n[log]\nlevel = info\n" * 3,
    "Main.java": "package seal;\n\npublic class Main {\n  public static void main(String[] a) {\n    int n = 1;\n  }\n}\n" * 3,
    "main.go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfor i := 0; i < 3; i++ {\n\t\tfmt.Println(i)\n\t}\n}\n' * 3,
    "lib.rs": "pub fn add(a: &[f32], b: &mut Vec<f32>) -> Option<usize> {\n    b.extend(a.iter());\n    Some(b.len())\n}\n" * 3,
    "notes.txt": "The tide came in over the sand, and the seal slept on. Nobody woke it before noon that day.\n" * 8,
    "Dockerfile": "FROM python:3.11-slim\nRUN pip install sandseal\nCOPY . /app\nWORKDIR /app\nCMD [\"sandseal\"]\n",
}  # fmt: skip


def write_kinds(folder: Path) -> list[Path]:
    """Write files of some thirty kinds into `folder`; their paths, with those that were there already."""
    source = Path(__file__).read_bytes()
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    (folder / "a.gz").write_bytes(gzip.compress(source))
    (folder / "a.bz2").write_bytes(bz2.compress(source))
    (folder / "a.xz").write_bytes(lzma.compress(source))
    (folder / "a.png").write_bytes(_png(32, 32))
    (folder / "a.bmp").write_bytes(_bmp(32, 32))
    (folder / "a.plist").write_bytes(plistlib.dumps({"seal": [1, 2, 3], "sand": "yes"}))
    (folder / "a.json").write_text(json.dumps({"seals": [{"name": f"seal {i}", "size": i} for i in range(20)]}))
    (folder / "a.csv").write_text(_csv())
    (folder / "a.eml").write_bytes(_mail())
    py_compile.compile(__file__, str(folder / "a.pyc"))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kinds.py", source)
    with tarfile.open(folder / "a.tar", "w") as tar:
        tar.add(__file__, "kinds.py")
    with wave.open(str(folder / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes(random.Random(1).randbytes(16_000))
    database = sqlite3.connect(folder / "a.sqlite")
    with database:
        database.execute("create table seals (name text)")
    database.close()
    repository = ("pyproject.toml", "Makefile", "README.md", ".ci/run", "sdk/c/sandseal.h", "LICENSE")
    return [*sorted(folder.iterdir()), *(ROOT / name for name in repository), Path(__file__), Path(sys.executable)]


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(width * 3)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _bmp(width: int, height: int) -> bytes:
    pixels = bytes((x * 7) % 256 for x in range(width * height * 3))
    header = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    return header + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0) + pixels


def _csv() -> str:
    text = io.StringIO()
    csv.writer(text).writerows([["name", "size", "kind"], *([f"seal-{i}", i * 7, "grey"] for i in range(30))])
    return text.getvalue()


def _mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "seal@example.org", "sand@example.org", "The tide"
    mail["Date"], mail["Message-ID"] = "Sun, 29 Nov 2026 12:00:00 +0000", "<1@example.org>"
    mail.set_content("It came in at noon.\n" * 10)
    return mail.as_bytes()
