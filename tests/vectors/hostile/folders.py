"""Folders: what a file system can do that an archive cannot."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from vectors.hostile.case import ALICE, Case, folder_case

Change = Callable[[Path], object]


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, change) in _CHANGES.items():
        yield f"folder-{name}", folder_case(stands_for, change)


def _signature(folder: Path) -> Path:
    return folder / "signatures" / f"{ALICE.public.hint[:16]}.sig"


def _replace_by_link(folder: Path) -> None:
    (folder / "model.onnx").rename(folder.parent / "outside.onnx")
    (folder / "model.onnx").symlink_to(folder.parent / "outside.onnx")


def _link_signatures(folder: Path) -> None:
    (folder / "signatures").rename(folder.parent / "signatures-elsewhere")
    (folder / "signatures").symlink_to(folder.parent / "signatures-elsewhere")


def _rename(old: str, new: str) -> Change:
    return lambda folder: (folder / old).rename(folder / new)


def _plant(name: str, data: bytes = b"x") -> Change:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def _exchange(folder: Path) -> None:
    _rename("model.onnx", "x")(folder)
    _rename("README.md", "model.onnx")(folder)
    _rename("x", "README.md")(folder)


_CHANGES: dict[str, tuple[str, Change]] = {
    "untouched": ("what is right is taken", lambda _: None),
    "link-to-the-file": ("CVE-2026-27489: links out of the model", _replace_by_link),
    "link-beside": ("links that nobody signed", lambda f: (f / "more").symlink_to("/etc/passwd")),
    "link-to-nowhere": ("links that nobody signed", lambda f: (f / "more").symlink_to("nowhere")),
    "link-to-a-folder": ("model-signing follows these without hashing", lambda f: (f / "more").symlink_to("/etc")),
    "link-to-the-signatures": ("links in place of signatures", _link_signatures),
    "pipe": ("a reader that waits for ever", lambda f: os.mkfifo(f / "pipe")),
    "pipe-for-a-file": (
        "a reader that waits for ever",
        lambda f: ((f / "README.md").unlink(), os.mkfifo(f / "README.md")),
    ),
    "file-planted": ("a file that nobody signed", _plant("planted.py")),
    "file-planted-deep": ("a file that nobody signed", _plant("a/b/c.so")),
    "file-planted-hidden": ("a file that nobody signed", _plant(".hidden")),
    "file-planted-empty": ("model-signing: empty files are left out of shards", _plant("empty", b"")),
    "file-planted-under-git": ("outside of every bundle, and never read", _plant(".git/hooks/post-checkout")),
    "folder-planted": ("empty folders are nothing", lambda f: (f / "empty").mkdir()),
    "signature-planted": ("a signature file that is none", _plant("signatures/0000000000000000.sig")),
    "signature-folder-planted": ("a signature file that is none", _plant("signatures/a/b.sig")),
    "signature-of-9-mib": ("memory by size", lambda f: os.truncate(_signature(f), 9 << 20)),
    "signatures-gone": ("nothing signed", lambda f: _signature(f).unlink()),
    "file-gone": ("a file that is left out", lambda f: (f / "README.md").unlink()),
    "manifest-gone": ("a file that is left out", lambda f: (f / "bundle.json").unlink()),
    "file-renamed": ("OMS root digests cover no names", _rename("README.md", "README.txt")),
    "file-in-another-case": ("case folding", _rename("README.md", "readme.md")),
    "files-exchanged": ("OMS root digests cover no names", _exchange),
    "folder-for-a-file": (
        "a folder in a file's place",
        lambda f: ((f / "README.md").unlink(), (f / "README.md").mkdir()),
    ),
    "file-changed": ("a byte that differs", _plant("README.md", b"# B model\n")),
    "file-longer": ("bytes behind the signed ones", lambda f: os.truncate(f / "README.md", 11)),
    "hard-link": ("CVE-2026-34446: what counts is the bytes", lambda f: os.link(f / "README.md", f.parent / "twin")),
}
