"""A detached verification: the host's own checks on bytes that lie anywhere, and what they leave open."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandseal_sdk.bundles.sources import Place, open_place
from sandseal_signing.bundle import Bundle, Sink, open_bundle
from sandseal_signing.manifest import Manifest
from sandseal_signing.trust import Revoked, TrustPolicy
from sandseal_signing.verdict import Moment, Verdict

_ALWAYS_OPEN = (
    "the graph and the plugins were hashed, not parsed, compiled or run: a host does that when it takes the bundle in",
)
_OF_A_HOST = (
    "whether a host accepted this version, or a newer one, before",
    "revocations that only a host remembers: the trust file's own were applied",
)
_OPEN = {
    "seal": _OF_A_HOST,
    "folder": (
        *_OF_A_HOST,
        "what .git* at the top of the folder holds: it belongs to no bundle",
    ),
    "store": ("whether the host's acceptance is in its transparency log: ask the running host for the proof",),
}


@dataclass(frozen=True, slots=True)
class Signer:
    """An enrolled key whose signature verified."""

    key: str
    holder: str
    algorithm: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found; that it exists means that the bundle is accepted.

    Args:
        kind: `seal`, `folder` or `store`.
        id: the bundle id, as 64 hex digits.
        files: how many there are, and `bytes` their size together; every one was hashed.
        unknown: key hints of signatures by keys that nobody enrolled; not verified.
        checked: one sentence each.
        not_checked: what this verification leaves open, one sentence each.
    """

    kind: str
    id: str
    name: str
    version: int
    files: int
    bytes: int
    signers: tuple[Signer, ...]
    unknown: tuple[str, ...]
    verdict: Verdict
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {"result": "accepted", **asdict(self)}


def verify(
    where: str, policy: TrustPolicy, sink: Sink, *, data: Path, now: Callable[[], Moment] = Moment.current
) -> Report:
    """Verify a bundle offline, as a host would at a load: signatures, policy, every byte.

    Args:
        where: a .seal file, a folder, or a bundle id in `data`.
        sink: gets the verified content; from several threads, unless `where` is an archive.
        data: a host's data folder, which is only read.
        now: the moment to judge by.

    Raises:
        BundleNotFound, ExtraMissing: see `open_place`.
        SigningError: why the bundle is not accepted.
    """
    with open_place(where, data, os.cpu_count() or 1) as place:
        moment = Moment(now().now, accepted_at=place.accepted_at)

        def judged_at(_: Manifest) -> Moment:
            return moment

        policy = replace(policy, revoked=_united(policy.revoked, place.revoked))
        bundle = open_bundle(place.source, policy, judged_at, sink, threads=place.threads)
    return _report(place, bundle)


def _united(one: Revoked, other: Revoked) -> Revoked:
    return Revoked(one.keys | other.keys, one.bundles | other.bundles, one.blobs | other.blobs)


def _report(place: Place, bundle: Bundle) -> Report:
    resources, signers = bundle.statement.resources, bundle.signers
    size = sum(resource.size for resource in resources)
    strangers = tuple(f"the signature by key hint {hint[:16]}: nobody enrolled that key" for hint in bundle.unknown)
    return Report(
        kind=place.kind,
        id=bundle.id.hex,
        name=bundle.manifest.name,
        version=bundle.manifest.version,
        files=len(resources),
        bytes=size,
        signers=tuple(Signer(k.name, k.holder, k.public.algorithm, k.public.fingerprint) for k in signers),
        unknown=bundle.unknown,
        verdict=bundle.verdict,
        checked=(
            f"{len(bundle.signatures)} signature files over one statement; {len(signers)} by enrolled keys verify",
            f"{len(resources)} files, {size} bytes: each has the signed size and SHA-256, and no other is there",
            "bundle.json: every file that it names is signed",
            *_judged(place, bundle.verdict),
        ),
        not_checked=(*strangers, *_OPEN[place.kind], *_ALWAYS_OPEN),
    )


def _judged(place: Place, verdict: Verdict) -> tuple[str, ...]:
    when = f", judged as accepted at {place.accepted_at:%Y-%m-%dT%H:%M:%SZ}" if place.accepted_at else ""
    return (f"the trust policy accepts it by rule {verdict.rule}{when}",)
