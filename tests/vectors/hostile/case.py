"""One hostile thing, who is attacked with it, and what is said of it."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import SandsealError
from sandseal_signing.folder import FolderSource
from sandseal_signing.keys import PrivateKey
from sandseal_signing.manifest import render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.seal import SealReader
from sandseal_signing.statement import Resource, Statement, media_type
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment
from support.bundles import FILES, archive, manifest, trust
from support.keys import ed25519_key

NOW = datetime(2027, 6, 1, tzinfo=UTC)
AT_NOW = Moment(NOW)
ALICE, BOB, EVE = map(ed25519_key, ("alice", "bob", "eve"))
POLICY = trust({"alice": ALICE, "bob": BOB})

_OF_PYTHON = re.compile(r"(not strict JSON|is not base64|is not TOML|' form) ?[:(].*", re.DOTALL)
"""What Python's own parsers say after it differs from version to version."""

Members = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Case:
    """A hostile thing; the right answer to it is in expected.json under its name.

    Args:
        stands_for: the attack, advisory or rule.
        attempt: tries it in an empty folder; returns when it is let through, raises SandsealError when not.
    """

    stands_for: str
    attempt: Callable[[Path], object]


def outcome(case: Case, folder: Path) -> list[str]:
    """`accepted`, or the error's code and sentence."""
    try:
        case.attempt(folder)
    except SandsealError as error:
        return [error.code, _OF_PYTHON.sub(r"\1", error.message.replace(str(folder), "FOLDER"))[:300]]
    return ["accepted"]


def seal_case(stands_for: str, data: bytes, policy: TrustPolicy = POLICY, moment: Moment = AT_NOW) -> Case:
    """An archive that somebody pushes."""
    return Case(stands_for, lambda _: open_bundle(SealReader(io.BytesIO(data)), policy, lambda _: moment, Discard()))


def folder_case(stands_for: str, change: Callable[[Path], object]) -> Case:
    """A verified bundle's folder in which something was changed afterwards."""

    def attempt(folder: Path) -> None:
        for name, data in bundle():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        change(folder)
        open_bundle(FolderSource(folder), POLICY, lambda _: Moment(NOW), Discard())

    return Case(stands_for, attempt)


def content(files: Mapping[str, bytes] = FILES, **changes: Any) -> dict[str, bytes]:
    """A bundle's files, bundle.json first, the others by name."""
    return {MANIFEST: render_manifest(manifest(**changes)), **dict(sorted(files.items()))}


def statement_of(files: Mapping[str, bytes]) -> Statement:
    """The honest statement over these files."""
    return Statement.of("acme.tiny", [Resource(n, Digest.of(d), len(d), media_type(n)) for n, d in files.items()])


def signatures(payload: bytes, *keys: PrivateKey) -> Members:
    """Signature files over any payload, in the order of an archive."""
    envelopes = [Envelope.sign(payload, key) for key in keys or (ALICE,)]
    return sorted((envelope.file_name, envelope.render()) for envelope in envelopes)


def bundle(*keys: PrivateKey, files: Mapping[str, bytes] | None = None) -> Members:
    """The members of an honest archive."""
    files = files or content()
    return [*signatures(statement_of(files).render(), *keys), *files.items()]


def signed(payload: bytes, files: Mapping[str, bytes] | None = None, keys: Sequence[PrivateKey] = (ALICE,)) -> bytes:
    """An archive whose publisher signed this payload, whatever it says."""
    return archive([*signatures(payload, *keys), *(files or content()).items()])
