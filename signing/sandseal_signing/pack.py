"""Packing a folder, signing an archive, and showing one: what a publisher does before the push."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from sandseal_signing.bundle import check_files
from sandseal_signing.digest import Digest, Readable, hash_chunks, hash_file, read_chunks
from sandseal_signing.envelope import Envelope, check_signature_limits, parse_signatures
from sandseal_signing.errors import DigestMismatch, FileMissing, FileUnexpected, SealInvalid, SizeMismatch
from sandseal_signing.folder import list_files, open_plain
from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import Manifest, check_size, parse_manifest
from sandseal_signing.names import MANIFEST, check_names
from sandseal_signing.seal import SealReader, SealWriter
from sandseal_signing.statement import Resource, Statement, media_type, parse_statement

Progress = Callable[[int], None]
"""Called with the number of bytes just handled."""


class Rereadable(Readable, Protocol):
    """A stream that can be read again from its start."""

    def seek(self, offset: int, /) -> object:
        """Go to the byte at `offset`."""
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """What an archive holds, hashed but not judged: for `sandseal show` and `sandseal sign`.

    Args:
        signatures: signature files by name; none of them is verified.
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


def _silent(_: int) -> None:
    pass


def list_folder(folder: Path) -> list[str]:
    """The names of the files to pack: every plain file below `folder`, except `signatures/` and `.git*` at its top.

    Raises:
        FileUnexpected: a link or a special file.
        NameInvalid: a name that a bundle may not hold.
        FileMissing: no bundle.json.
    """
    names = list_files(folder)
    if MANIFEST not in names:
        raise FileMissing(f"{folder} has no {MANIFEST}", hint="`sandseal init model.onnx` writes one")
    check_names(names)
    return names


def pack_folder(
    folder: Path,
    out: BinaryIO,
    keys: Sequence[PrivateKey] = (),
    progress: Progress = _silent,
    *,
    threads: int = 1,
) -> Contents:
    """Write a folder as a .seal archive, signed by `keys`; the same files give the same bytes everywhere.

    Args:
        folder: holds bundle.json and every file that it names.
        out: the archive; written once from front to back, and worth nothing when this raises.
        progress: gets every file's bytes twice, when hashed and when written; with several threads, from each of them.
        threads: how many files to hash at once.

    Raises:
        JsonInvalid, ManifestInvalid, FileMissing, FileUnexpected, NameInvalid, LimitExceeded: what must change first.
        SizeMismatch, DigestMismatch: a file changed meanwhile.
    """
    names = list_folder(folder)
    manifest = parse_manifest((folder / MANIFEST).read_bytes())
    check_files(manifest, {name: (folder / name).stat().st_size for name in names})

    def hashed(name: str) -> Resource:
        with open_plain(folder / name) as file:
            digest, size = hash_file(file, progress)
        return Resource(name, digest, size, media_type(name))

    with ThreadPoolExecutor(threads, "sandseal-hash") as pool:
        statement = Statement.of(manifest.name, pool.map(hashed, names))
    payload = statement.render()
    signatures = _sign({}, payload, keys)
    _write(out, signatures, statement, lambda resource: _file_chunks(folder / resource.name), progress)
    return Contents(manifest, statement, payload, signatures)


def read_seal(stream: Readable, progress: Progress = _silent) -> Contents:
    """Hash an archive's members and read what it says of itself; trusts nobody, so decides nothing.

    Raises:
        FormatError, IntegrityError: it is not a well-formed archive, or not the files that its statement lists.
    """
    reader = SealReader(stream)
    signatures = reader.signatures()
    envelopes = parse_signatures(signatures)
    content, resources = _hash_members(reader, progress)
    manifest = parse_manifest(content)
    found = Statement.of(manifest.name, resources)
    if found.in_transfer_order != tuple(resources):
        raise SealInvalid("the archive's members are out of order: bundle.json comes first, then the others by name")
    check_files(manifest, found.sizes)
    if not envelopes:
        return Contents(manifest, found, found.render(), signatures)
    signed = parse_statement(envelopes[0].payload)
    _compare(signed, found)
    return Contents(manifest, signed, envelopes[0].payload, signatures)


def sign_seal(source: Rereadable, out: BinaryIO, keys: Sequence[PrivateKey], progress: Progress = _silent) -> Contents:
    """Copy an archive with signatures added; earlier signatures stay, the bundle id stays.

    Args:
        source: the archive from its start, signed or not.
        out: the new archive; worth nothing when this raises.
        progress: gets every file's bytes twice, when hashed and when written.

    Raises:
        FormatError, IntegrityError: what `read_seal` finds, or a file that changed meanwhile.
    """
    contents = read_seal(source, progress)
    signatures = _sign(contents.signatures, contents.payload, keys)
    source.seek(0)
    reader = SealReader(source)
    reader.signatures()
    _write(out, signatures, contents.statement, reader.read, progress)
    return Contents(contents.manifest, contents.statement, contents.payload, signatures)


def _hash_members(reader: SealReader, progress: Progress) -> tuple[bytes, list[Resource]]:
    """The content of bundle.json, and what every member is, in the archive's order."""
    manifest, resources = b"", []
    for name, size, chunks in reader.members():
        if name == MANIFEST:
            check_size(size)
            manifest = b"".join(map(bytes, chunks))
            chunks = iter((memoryview(manifest),))
        digest, _ = hash_chunks(chunks, progress)
        resources.append(Resource(name, digest, size, media_type(name)))
    if not manifest:
        raise FileMissing(f"the archive has no {MANIFEST}, or an empty one")
    return manifest, resources


def _compare(signed: Statement, found: Statement) -> None:
    """Check that an archive holds the files that its statement lists, byte for byte."""
    wanted, present = signed.by_name, found.by_name
    if missing := sorted(wanted.keys() - present.keys()):
        raise FileMissing(f"signed but not in the archive: {', '.join(missing)}", names=missing)
    if extra := sorted(present.keys() - wanted.keys()):
        raise FileUnexpected(f"in the archive but not signed: {', '.join(extra)}", names=extra)
    for name, resource in present.items():
        if resource.size != wanted[name].size:
            raise SizeMismatch(f"{name!r} has {resource.size} bytes, {wanted[name].size} were signed", name=name)
        if resource.digest != wanted[name].digest:
            raise DigestMismatch(f"{name!r} has SHA-256 {resource.digest}, {wanted[name].digest} was signed", name=name)


def _sign(present: Mapping[str, bytes], payload: bytes, keys: Sequence[PrivateKey]) -> dict[str, bytes]:
    signatures = dict(present)
    for key in keys:
        envelope = Envelope.sign(payload, key)
        signatures[envelope.file_name] = envelope.render()
    check_signature_limits(signatures)
    return signatures


def _write(
    out: BinaryIO,
    signatures: Mapping[str, bytes],
    statement: Statement,
    read: Callable[[Resource], Iterable[memoryview]],
    progress: Progress,
) -> None:
    writer = SealWriter(out)
    for name, data in sorted(signatures.items()):
        writer.add(name, len(data), (memoryview(data),))
    for resource in statement.in_transfer_order:
        writer.add(resource.name, resource.size, _counted(resource.check(read(resource)), progress))
    writer.close()


def _counted(chunks: Iterable[memoryview], progress: Progress) -> Iterator[memoryview]:
    for chunk in chunks:
        progress(len(chunk))
        yield chunk


def _file_chunks(path: Path) -> Iterator[memoryview]:
    with open_plain(path) as file:
        yield from read_chunks(file)
