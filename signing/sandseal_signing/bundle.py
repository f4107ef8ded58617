"""Opening a bundle: the checks of signing/README.md, numbered as there. Holding a `Bundle` means all of them passed."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sandseal_signing.digest import Digest
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope
from sandseal_signing.errors import (
    DigestMismatch,
    EnvelopeInvalid,
    FileMissing,
    LimitExceeded,
    SignatureInvalid,
    SignerUnknown,
    SizeMismatch,
    StatementInvalid,
    Unsigned,
)
from sandseal_signing.manifest import MAX_BYTES, Manifest, parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.seal import MAX_SIGNATURE_BYTES, MAX_SIGNATURES
from sandseal_signing.statement import Resource, Statement, parse_statement
from sandseal_signing.trust import TrustedKey, TrustPolicy
from sandseal_signing.verdict import Moment, Verdict, judge


class Source(Protocol):
    """Where a bundle's bytes come from: a .seal stream, a folder, the host's store."""

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        ...

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """A resource's content; asked for in transfer order. Chunks are valid until the next one."""
        ...

    def finish(self) -> None:
        """Called after the last resource: raise if something unsigned is left."""
        ...


class Sink(Protocol):
    """Where verified content goes while it is hashed."""

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> bytes | None:
        """Take all chunks; keep nothing for good unless this returns. The result is what `Bundle.files` holds."""
        ...


class InMemory:
    """A sink that keeps every file's bytes in the bundle."""

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> bytes:
        """Return the content as bytes, never more than the signed size."""
        content = bytearray(resource.size)
        at = 0
        for chunk in chunks:
            content[at : at + len(chunk)] = chunk
            at += len(chunk)
        return bytes(content)


class Discard:
    """A sink that keeps nothing: for verifying only."""

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        """Let the content be hashed."""
        for _ in chunks:
            pass


@dataclass(frozen=True, slots=True)
class VerifiedStatement:
    """A statement under at least one enrolled key's valid signature.

    Args:
        id: the bundle id, SHA-256 of the payload bytes.
        payload: the statement as signed.
        signers: the enrolled keys whose signatures verified.
        unknown: hints of the signatures by keys that nobody enrolled; ignored.
    """

    id: Digest
    payload: bytes
    statement: Statement
    signers: tuple[TrustedKey, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle: every signature, rule and byte was checked.

    Args:
        files: content by name, as far as the sink kept it.
    """

    id: Digest
    statement: Statement
    manifest: Manifest
    verdict: Verdict
    signers: tuple[TrustedKey, ...]
    unknown: tuple[str, ...]
    signatures: Mapping[str, bytes]
    files: Mapping[str, bytes]


def verify_statement(signatures: Mapping[str, bytes], policy: TrustPolicy) -> VerifiedStatement:
    """Steps 1 to 7: from signature files to a statement that an enrolled key signed.

    Raises:
        Unsigned, SignerUnknown, SignatureInvalid: nobody trusted stands behind it.
        LimitExceeded, JsonInvalid, EnvelopeInvalid, StatementInvalid, NameInvalid: malformed.
    """
    # 1. Limits.
    if not signatures:
        raise Unsigned("the bundle carries no signature")
    if len(signatures) > MAX_SIGNATURES or sum(map(len, signatures.values())) > MAX_SIGNATURE_BYTES:
        raise LimitExceeded(f"more than {MAX_SIGNATURES} signatures or {MAX_SIGNATURE_BYTES} bytes of them")
    # 2, 3. Strict JSON and base64; one payload for all.
    envelopes = [Envelope.parse(data, name) for name, data in sorted(signatures.items())]
    for name, envelope in zip(sorted(signatures), envelopes, strict=True):
        if name != envelope.file_name:
            raise EnvelopeInvalid(f"{name!r} must be called {envelope.file_name!r} after its key hint")
        if envelope.payload != envelopes[0].payload:
            raise EnvelopeInvalid(f"{name!r} signs another statement than the first signature file")
    # 4. Keys by hint.
    known = policy.by_hint
    unknown = tuple(envelope.hint for envelope in envelopes if envelope.hint not in known)
    if len(unknown) == len(envelopes):
        raise SignerUnknown(
            f"none of the {len(envelopes)} signatures is by an enrolled key (key hints: "
            + ", ".join(hint[:16] for hint in unknown)
            + ")",
            hints=list(unknown),
        )
    # 5. Signatures over the raw bytes.
    signers = []
    for envelope in envelopes:
        if key := known.get(envelope.hint):
            if not envelope.verifies(key.public):
                raise SignatureInvalid(f"the signature by key {key.name!r} of {key.holder} does not verify")
            signers.append(key)
    # 6, 7. Only now parse what they say.
    for envelope in envelopes:
        if envelope.payload_type != PAYLOAD_TYPE:
            raise StatementInvalid(f"the payload type is {envelope.payload_type[:80]!r}, not {PAYLOAD_TYPE!r}")
    payload = envelopes[0].payload
    return VerifiedStatement(Digest.of(payload), payload, parse_statement(payload), tuple(signers), unknown)


def open_bundle(
    source: Source,
    policy: TrustPolicy,
    moment: Callable[[Manifest], Moment],
    sink: Sink,
) -> Bundle:
    """Verify a whole bundle, trusting no byte of it before its turn.

    Args:
        source: the bundle's bytes.
        policy: who is trusted; required, there is no default.
        moment: gives the time, and the newest accepted version, once the manifest's name is known.
        sink: where the files go.

    Raises:
        SigningError: every subclass but PolicyInvalid and KeyInvalid, each where its step finds it.
    """
    signatures = source.signatures()
    verified = verify_statement(signatures, policy)
    # 8. Could these signers ever satisfy a rule?
    names = {key.name for key in verified.signers}
    if not any(names & set(rule.keys) for rule in policy.rules):
        raise SignerUnknown(f"no rule lets {', '.join(sorted(names))} sign any model")
    # 9. The manifest: size, digest, strict parse; every file that it names is signed.
    first = verified.statement.by_name[MANIFEST]
    if first.size > MAX_BYTES:
        raise LimitExceeded(f"{MANIFEST} has {first.size} bytes, over {MAX_BYTES}")
    content = InMemory().write(first, _checked(source, first))
    manifest = parse_manifest(content)
    if missing := manifest.files - verified.statement.by_name.keys():
        raise FileMissing(f"{MANIFEST} names {sorted(missing)}, which nobody signed", names=sorted(missing))
    # 10. The policy.
    verdict = judge(verified.id, verified.statement, verified.signers, manifest, policy, moment(manifest)).require()
    # 11. The other files, hashed on their way to the sink.
    files: dict[str, bytes] = {}
    for resource in verified.statement.in_transfer_order:
        chunks = iter((memoryview(content),)) if resource is first else _checked(source, resource)
        kept = sink.write(resource, chunks)
        for _ in chunks:  # a sink that stopped early must not skip the comparison at the end
            pass
        if kept is not None:
            files[resource.name] = kept
    source.finish()
    return Bundle(
        verified.id,
        verified.statement,
        manifest,
        verdict,
        verified.signers,
        verified.unknown,
        signatures,
        files,
    )


def _checked(source: Source, resource: Resource) -> Iterator[memoryview]:
    """The resource's chunks, hashed in passing; the last one is followed by the comparison.

    Raises:
        SizeMismatch: more or fewer bytes than were signed; reading stops at the first byte too many.
        DigestMismatch: other bytes than were signed.
    """
    sha, size = hashlib.sha256(), 0
    for chunk in source.read(resource):
        size += len(chunk)
        if size > resource.size:
            break
        sha.update(chunk)
        yield chunk
    if size != resource.size:
        raise SizeMismatch(
            f"{resource.name!r} has {'over ' if size > resource.size else ''}{size} bytes, {resource.size} were signed",
            name=resource.name,
        )
    if sha.hexdigest() != resource.digest.hex:
        raise DigestMismatch(
            f"{resource.name!r} has SHA-256 {sha.hexdigest()}, {resource.digest} was signed",
            name=resource.name,
        )
