"""Opening a bundle: the checks of signing/README.md, numbered as there. Holding a `Bundle` means all of them passed."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from sandseal_signing.digest import Digest
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope, parse_signatures
from sandseal_signing.errors import (
    FileMissing,
    LimitExceeded,
    SignatureInvalid,
    SignerUnknown,
    StatementInvalid,
    Unsigned,
)
from sandseal_signing.manifest import MAX_PLUGIN_BYTES, Manifest, check_size, parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.statement import Resource, Statement, parse_statement
from sandseal_signing.trust import TrustedKey, TrustPolicy
from sandseal_signing.verdict import Moment, State, Verdict, judge


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
        """Return the content as bytes; memory grows with what arrives, never with what was announced."""
        content = io.BytesIO()
        for chunk in chunks:
            content.write(chunk)
        return content.getvalue()


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


@dataclass(frozen=True, slots=True)
class Head:
    """The front of a bundle, verified: of its other files nobody has read a byte.

    Args:
        signatures: the signature files by name.
        content: bundle.json as signed.
    """

    verified: VerifiedStatement
    signatures: Mapping[str, bytes]
    content: bytes
    manifest: Manifest
    verdict: Verdict


def verify_statement(signatures: Mapping[str, bytes], policy: TrustPolicy) -> VerifiedStatement:
    """Steps 1 to 7: from signature files to a statement that an enrolled key signed.

    Args:
        signatures: the signature files by name.
        policy: who is enrolled; required, there is no default.

    Raises:
        Unsigned, SignerUnknown, SignatureInvalid: nobody trusted stands behind it.
        LimitExceeded, JsonInvalid, EnvelopeInvalid, StatementInvalid, NameInvalid: malformed.
    """
    if not signatures:
        raise Unsigned("the bundle carries no signature")
    # 1, 2, 3. Limits, strict JSON, strict base64; one payload for all.
    envelopes = parse_signatures(signatures)
    # 4. Keys by hint.
    known = policy.by_hint
    unknown = tuple(envelope.hint for envelope in envelopes if envelope.hint not in known)
    if len(unknown) == len(envelopes):
        hints = ", ".join(hint[:16] for hint in unknown)
        raise SignerUnknown(f"no signature is by an enrolled key (key hints: {hints})", hints=list(unknown))
    # 5. Signatures over the raw bytes.
    signers = tuple(_signer(envelope, known[envelope.hint]) for envelope in envelopes if envelope.hint in known)
    # 6. Only now parse what they say. 7. Its exact types.
    for envelope in envelopes:
        if envelope.payload_type != PAYLOAD_TYPE:
            raise StatementInvalid(f"the payload type is {envelope.payload_type[:80]!r}, not {PAYLOAD_TYPE!r}")
    payload = envelopes[0].payload
    return VerifiedStatement(Digest.of(payload), payload, parse_statement(payload), signers, unknown)


def open_bundle(
    source: Source,
    policy: TrustPolicy,
    moment: Callable[[Manifest], Moment],
    sink: Sink,
    *,
    threads: int = 1,
    pending: Callable[[Statement], None] | None = None,
) -> Bundle:
    """Steps 1 to 11: verify a whole bundle, trusting no byte of it before its turn.

    Args:
        source: the bundle's bytes.
        policy: who is trusted; required, there is no default.
        moment: gives the time, and the newest accepted version, once the manifest's name is known.
        sink: where the files go.
        threads: how many files to hash at once; over 1 only where source and sink take calls from several threads,
            as a folder does and an archive cannot.
        pending: asked, before any other file is read, about a bundle for which more holders must sign; raises to
            refuse it. Without it such a bundle is refused; with it the result's verdict may be PENDING.

    Raises:
        SigningError: every subclass but PolicyInvalid and KeyInvalid, each where its step finds it.
    """
    head = open_head(source, policy, moment, pending=pending)
    verified, statement = head.verified, head.verified.statement
    first, *others = statement.in_transfer_order
    # 11. The other files, hashed on their way to the sink.
    files = {first.name: _pass_on(first, iter((memoryview(head.content),)), sink)}
    files |= zip((r.name for r in others), _read_all(others, source, sink, threads), strict=True)
    source.finish()
    kept = {name: data for name, data in files.items() if data is not None}
    return Bundle(
        verified.id,
        statement,
        head.manifest,
        head.verdict,
        verified.signers,
        verified.unknown,
        head.signatures,
        kept,
    )


def open_head(
    source: Source,
    policy: TrustPolicy,
    moment: Callable[[Manifest], Moment],
    *,
    pending: Callable[[Statement], None] | None = None,
) -> Head:
    """Steps 1 to 10: all that can be said before a file other than bundle.json is read; see `open_bundle`."""
    signatures = source.signatures()
    verified = verify_statement(signatures, policy)
    statement = verified.statement
    # 8. Could these signers ever satisfy a rule?
    _check_reach(verified.signers, policy)
    # 9. The manifest: size, digest, strict parse; every file that it names is signed.
    first = statement.by_name[MANIFEST]
    check_size(first.size)
    content = InMemory().write(first, first.check(source.read(first)))
    manifest = parse_manifest(content)
    check_files(manifest, statement.sizes)
    # 10. The policy.
    verdict = judge(verified.id, statement, verified.signers, manifest, policy, moment(manifest))
    if verdict.state is State.PENDING and pending is not None:
        pending(statement)
    else:
        verdict.require()
    return Head(verified, signatures, content, manifest, verdict)


def check_files(manifest: Manifest, sizes: Mapping[str, int]) -> None:
    """Check that every file that the manifest names is there, and no plugin is over 64 MiB.

    Args:
        sizes: every file's size in bytes by name.

    Raises:
        FileMissing, LimitExceeded: with the names.
    """
    if missing := sorted(manifest.files - sizes.keys()):
        raise FileMissing(f"{MANIFEST} names files that the bundle does not hold: {', '.join(missing)}", names=missing)
    for stage in manifest.stages:
        if (size := sizes[stage.plugin]) > MAX_PLUGIN_BYTES:
            raise LimitExceeded(f"{stage.plugin!r} has {size} bytes, over {MAX_PLUGIN_BYTES}", name=stage.plugin)


def _read_all(resources: Sequence[Resource], source: Source, sink: Sink, threads: int) -> Iterator[bytes | None]:
    """Hash the files on their way to the sink, in order or several at once; the first in order that fails counts."""

    def read(resource: Resource) -> bytes | None:
        return _pass_on(resource, resource.check(source.read(resource)), sink)

    if threads == 1 or len(resources) < 2:
        yield from map(read, resources)
        return
    pool = ThreadPoolExecutor(threads, "sandseal-hash")
    try:
        yield from pool.map(read, resources)
    finally:
        pool.shutdown(cancel_futures=True)


def _pass_on(resource: Resource, chunks: Iterator[memoryview], sink: Sink) -> bytes | None:
    kept = sink.write(resource, chunks)
    for _ in chunks:  # a sink that stopped early must not skip the comparison at the end
        pass
    return kept


def _signer(envelope: Envelope, key: TrustedKey) -> TrustedKey:
    if not envelope.verifies(key.public):
        raise SignatureInvalid(f"the signature by key {key.name!r} of {key.holder} does not verify", key=key.name)
    return key


def _check_reach(signers: tuple[TrustedKey, ...], policy: TrustPolicy) -> None:
    """Refuse before any file is read when no rule could ever count one of these signers."""
    names = ", ".join(sorted(key.name for key in signers))
    able = {key.name for key in signers if not policy.revokes(key)}
    if not able:
        raise SignerUnknown(f"every key that signed is revoked: {names}", hint="sign with a key that is not revoked")
    if not any(able & set(rule.keys) for rule in policy.rules):
        raise SignerUnknown(f"no rule lets {names} sign any model")
