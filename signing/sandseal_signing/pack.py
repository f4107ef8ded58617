"""Packing a folder, signing an archive, and showing one: what a publisher does before the push."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandseal_signing.digest import CHUNK, Digest, hash_file
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import (
    DigestMismatch,
    EnvelopeInvalid,
    FileMissing,
    FileUnexpected,
    SizeMismatch,
)
from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import Manifest, parse_manifest
from sandseal_signing.names import MANIFEST, SIGNATURES, check_names
from sandseal_signing.seal import SealReader, SealWriter
from sandseal_signing.statement import Resource, Statement, media_type, parse_statement

Progress = Callable[[int], None]
"""Called with the number of bytes just handled."""


def _silent(_: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Contents:
    """What an archive holds, hashed but not judged: for `sandseal show` and `sandseal sign`.

    Args:
        signatures: signature files by name.
        payload: the signed statement; rendered afresh when nobody has signed yet.
    """

    manifest: Manifest
    statement: Statement
    payload: bytes
    signatures: Mapping[str, bytes]

    @property
    def id(self) -> Digest:
        """The bundle id."""
        return Digest.of(self.payload)


def list_folder(folder: Path) -> list[str]:
    """The names of the files to pack: every regular file below `folder`, except signatures and `.git*`.

    Raises:
        FileUnexpected: a link or a special file.
        NameInvalid: a name that a bundle may not hold.
        FileMissing: no bundle.json.
    """
    names: list[str] = []
    for parent, folders, files in os.walk(folder):
        if Path(parent) == folder:
            folders[:] = [name for name in folders if name != SIGNATURES and not name.startswith(".git")]
            files = [name for name in files if not name.startswith(".git")]
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise FileUnexpected(
                    f"{path} is a link or a special file; a bundle holds plain files only",
                    hint="replace it by a copy of what it points to, or move it out of the folder",
                )
        names += [Path(parent, name).relative_to(folder).as_posix() for name in files]
    if MANIFEST not in names:
        raise FileMissing(f"{folder} has no {MANIFEST}", hint="`sandseal init model.onnx` writes one")
    check_names(names)
    return sorted(names)


def pack_folder(folder: Path, out: BinaryIO, keys: Sequence[PrivateKey] = (), progress: Progress = _silent) -> Contents:
    """Write a folder as a .seal archive, signed by `keys`; the same files give the same bytes everywhere.

    Args:
        folder: holds bundle.json and every file that it names.
        out: the archive; written once from front to back.
        progress: gets every file's bytes twice, when hashed and when written.

    Raises:
        ManifestInvalid, FileMissing, FileUnexpected, NameInvalid, LimitExceeded: what must change first.
    """
    resources = []
    for name in list_folder(folder):
        with (folder / name).open("rb") as file:
            digest, size = hash_file(file, progress)
        resources.append(Resource(name, digest, size, media_type(name)))
    manifest = parse_manifest((folder / MANIFEST).read_bytes())
    statement = Statement.of(manifest.name, resources)
    _check_files(manifest, statement)
    payload = statement.render()
    signatures = _sign({}, payload, keys)
    _write(out, signatures, statement, lambda resource: _file_chunks(folder / resource.name, progress))
    return Contents(manifest, statement, payload, signatures)


def read_seal(stream: BinaryIO, progress: Progress = _silent) -> Contents:
    """Hash an archive's members and read what it says of itself; trusts nobody, so decides nothing.

    Raises:
        FormatError, IntegrityError: it is not a well-formed archive, or not the files that its statement lists.
    """
    reader = SealReader(stream)
    signatures = reader.signatures()
    manifest_bytes, resources = b"", []
    for name, size, chunks in reader.members():
        digest, content = _hash_member(name, chunks, progress)
        resources.append(Resource(name, digest, size, media_type(name)))
        manifest_bytes = manifest_bytes or content
    manifest = parse_manifest(manifest_bytes)
    found = Statement.of(manifest.name, resources)
    if [resource.name for resource in found.in_transfer_order] != [resource.name for resource in resources]:
        raise FileUnexpected("the archive's members are not in order: bundle.json, then the others by name")
    _check_files(manifest, found)
    payload = _payload(signatures, found)
    return Contents(manifest, parse_statement(payload), payload, signatures)


def sign_seal(source: BinaryIO, out: BinaryIO, keys: Sequence[PrivateKey], progress: Progress = _silent) -> Contents:
    """Copy an archive with signatures added; earlier signatures stay, the bundle id stays.

    Args:
        source: a seekable archive, signed or not.
        out: the new archive.
    """
    contents = read_seal(source, progress)
    signatures = _sign(contents.signatures, contents.payload, keys)
    source.seek(0)
    reader = SealReader(source)
    reader.signatures()

    def chunks(resource: Resource) -> Iterator[memoryview]:
        for chunk in reader.read(resource):
            progress(len(chunk))
            yield chunk

    _write(out, signatures, contents.statement, chunks)
    return Contents(contents.manifest, contents.statement, contents.payload, signatures)


def _hash_member(name: str, chunks: Iterator[memoryview], progress: Progress) -> tuple[Digest, bytes]:
    sha, content = hashlib.sha256(), bytearray()
    for chunk in chunks:
        sha.update(chunk)
        progress(len(chunk))
        if name == MANIFEST:
            content += chunk
    return Digest(sha.hexdigest()), bytes(content)


def _payload(signatures: Mapping[str, bytes], found: Statement) -> bytes:
    """The statement that the signatures hold, which must list the files found; a fresh one when unsigned."""
    payloads = {Envelope.parse(data, name).payload for name, data in signatures.items()}
    if not payloads:
        return found.render()
    if len(payloads) > 1:
        raise EnvelopeInvalid("the signature files sign different statements")
    (payload,) = payloads
    signed, present = parse_statement(payload).by_name, found.by_name
    if missing := sorted(signed.keys() - present.keys()):
        raise FileMissing(f"signed but not in the archive: {missing}")
    if extra := sorted(present.keys() - signed.keys()):
        raise FileUnexpected(f"in the archive but not signed: {extra}")
    for name, resource in present.items():
        if resource.size != signed[name].size:
            raise SizeMismatch(f"{name!r} has {resource.size} bytes, {signed[name].size} were signed", name=name)
        if resource.digest != signed[name].digest:
            raise DigestMismatch(f"{name!r} is not the file that was signed", name=name)
    return payload


def _check_files(manifest: Manifest, statement: Statement) -> None:
    if missing := sorted(manifest.files - statement.by_name.keys()):
        raise FileMissing(f"{MANIFEST} names files that are not there: {missing}", hint="add them to the folder")


def _sign(present: Mapping[str, bytes], payload: bytes, keys: Sequence[PrivateKey]) -> dict[str, bytes]:
    signatures = dict(present)
    for key in keys:
        envelope = Envelope.sign(payload, key)
        signatures[envelope.file_name] = envelope.render()
    return dict(sorted(signatures.items()))


def _write(
    out: BinaryIO,
    signatures: Mapping[str, bytes],
    statement: Statement,
    chunks: Callable[[Resource], Iterator[memoryview]],
) -> None:
    writer = SealWriter(out)
    for name, data in signatures.items():
        writer.add(name, len(data), iter((memoryview(data),)))
    for resource in statement.in_transfer_order:
        writer.add(resource.name, resource.size, chunks(resource))
    writer.close()


def _file_chunks(path: Path, progress: Progress) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(CHUNK))
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer):
            progress(got)
            yield buffer[:got]
