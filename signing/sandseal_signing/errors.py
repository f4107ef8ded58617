"""Every way in which signing and verification say no, grouped by who must act.

SandsealError                     root of every package's tree
└── SigningError
    ├── KeyInvalid                the key's owner: not a key, or not readable
    │   └── KeyUnsafe             the key's owner: a point under which forgeries verify
    ├── FormatError               the publisher: the bytes are not what the format says
    │   ├── JsonInvalid
    │   ├── EnvelopeInvalid
    │   ├── StatementInvalid
    │   ├── ManifestInvalid
    │   ├── NameInvalid
    │   ├── PermitInvalid
    │   ├── SealInvalid
    │   ├── SealTruncated
    │   └── LimitExceeded
    ├── IntegrityError            the publisher, or whoever carried the bytes: they are not the signed ones
    │   ├── DigestMismatch
    │   ├── SizeMismatch
    │   ├── FileMissing
    │   └── FileUnexpected
    ├── TrustError                the operator decides: nothing here is broken, it is not trusted
    │   ├── Unsigned
    │   ├── SignerUnknown
    │   ├── SignatureInvalid
    │   └── PolicyRefused
    ├── AuditError                the auditor: what a host shows of its log or receipts does not hold
    │   ├── NoteInvalid
    │   ├── CheckpointInvalid
    │   ├── ProofInvalid
    │   ├── LogEntryInvalid
    │   ├── ReceiptInvalid
    │   ├── LogUnknown
    │   ├── AuditStateInvalid
    │   └── LogInconsistent       the auditor, with evidence: the log is not what it was
    │       ├── LogShrunk
    │       ├── LogForked
    │       └── LogRewritten
    ├── LogIncomplete             the operator: the stored log itself
    └── PolicyInvalid             the operator: the trust file itself
"""

from typing import Any, ClassVar


class SandsealError(Exception):
    """An error with a sentence, a stable code, a hint and its facts as data.

    Args:
        message: what was wrong and where, one sentence without a final stop.
        hint: what to do about it; the class's own hint when absent.
        data: JSON-ready facts (names, sizes, digests) for programs to read.
    """

    code: ClassVar[str] = "error"
    hint: str = ""

    def __init__(self, message: str, *, hint: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return self.message


class SigningError(SandsealError):
    """Anything this package refuses."""

    code = "signing"


class KeyInvalid(SigningError):
    """The key's owner: this is not a key that can be used here."""

    code = "key_invalid"
    hint = "make one with `sandseal keygen NAME`"


class KeyUnsafe(KeyInvalid):
    """The key's owner: a signature under this key proves nothing (RFC 8032 5.1.7; small-order points)."""

    code = "key_unsafe"
    hint = "this key was made to be forgeable or is damaged; ask its owner for another"


class FormatError(SigningError):
    """The publisher: the bytes do not follow the bundle format (signing/README.md)."""

    code = "format_invalid"
    hint = "compare with the bundle format in signing/README.md, then pack again"


class JsonInvalid(FormatError):
    """The publisher: a JSON document is malformed, ambiguous or too deep."""

    code = "json_invalid"
    hint = "write plain JSON in UTF-8: no duplicate members, NaN, integers of 2^53 or more, or nesting over 16"


class EnvelopeInvalid(FormatError):
    """The publisher: a signature file is not a Sigstore bundle with one DSSE signature."""

    code = "envelope_invalid"
    hint = "sign again with `sandseal sign`"


class StatementInvalid(FormatError):
    """The publisher: the signed statement is not one this format allows."""

    code = "statement_invalid"
    hint = "pack and sign again with `sandseal pack` and `sandseal sign`"


class ManifestInvalid(FormatError):
    """The publisher: bundle.json does not follow schema sandseal.bundle/1."""

    code = "manifest_invalid"
    hint = "correct bundle.json at the place named, then pack again"


class NameInvalid(FormatError):
    """The publisher: a file name that the format does not allow."""

    code = "name_invalid"
    hint = "rename the file or move it out of the bundle; signing/README.md lists the rules under Names"


class PermitInvalid(FormatError):
    """The publisher: a downgrade permit does not follow schema sandseal.permit/1."""

    code = "permit_invalid"
    hint = "make it with `sandseal trust permit`"


class SealInvalid(FormatError):
    """The publisher: a header, padding, order or end of the .seal archive that the format does not allow."""

    code = "seal_invalid"
    hint = "make the archive with `sandseal pack`; other tar programs write members that are refused"


class SealTruncated(FormatError):
    """The publisher, or the connection: the .seal stream ended early."""

    code = "seal_truncated"
    hint = "send the whole file again"


class LimitExceeded(FormatError):
    """The publisher: something is larger than the format or the policy allows."""

    code = "limit_exceeded"
    hint = "make it smaller; signing/README.md lists every limit of the format"


class IntegrityError(SigningError):
    """The publisher or the carrier: the bytes are not the ones that were signed."""

    code = "integrity"
    hint = "the file changed after it was hashed: take it from the publisher again, or pack and sign again"


class DigestMismatch(IntegrityError):
    """The publisher or the carrier: a file's SHA-256 is not the signed one."""

    code = "digest_mismatch"


class SizeMismatch(IntegrityError):
    """The publisher or the carrier: a file's size is not the signed one."""

    code = "size_mismatch"


class FileMissing(IntegrityError):
    """The publisher or the carrier: a file that the statement or the manifest names is not there."""

    code = "file_missing"
    hint = "add the file or take its name out of bundle.json, then pack and sign again"


class FileUnexpected(IntegrityError):
    """The publisher or the carrier: a file or bytes are there that nobody signed."""

    code = "file_unexpected"
    hint = "pack and sign again; an archive holds exactly the signed files, each once, in order"


class TrustError(SigningError):
    """The operator decides: the bundle is well formed but nobody trusted stands behind it."""

    code = "untrusted"
    hint = "ask the operator what the trust policy wants"


class Unsigned(TrustError):
    """The publisher: the bundle carries no signature at all."""

    code = "unsigned"
    hint = "sign it: `sandseal sign BUNDLE --key KEY`"


class SignerUnknown(TrustError):
    """The operator decides: no signature is by a key that the trust policy lets sign anything."""

    code = "signer_unknown"
    hint = "ask the operator to enrol the publisher's key in the trust policy"


class SignatureInvalid(TrustError):
    """The publisher: a signature by an enrolled key does not verify."""

    code = "signature_invalid"
    hint = "the statement changed after signing, or the signature was made with another key"


class PolicyRefused(TrustError):
    """The operator decides: the trust policy refuses the bundle; `data["verdict"]` carries the reasons."""

    code = "policy_refused"
    hint = "see the reasons; the operator changes the trust policy, the publisher the bundle"


class PolicyInvalid(SigningError):
    """The operator: the trust policy does not follow schema sandseal.trust/1."""

    code = "policy_invalid"
    hint = "correct the trust file at the place named; until then the policy in force stays"


class AuditError(SigningError):
    """The auditor: what a host shows of its log or its receipts does not hold."""

    code = "audit"
    hint = "ask the host once more; if the answer stays, keep it and ask the operator"


class NoteInvalid(AuditError):
    """The auditor: this is not a signed note (C2SP signed-note), or not one by the key in hand."""

    code = "note_invalid"
    hint = "fetch it again; if it stays so, compare the key in hand with the one that the operator publishes"


class CheckpointInvalid(AuditError):
    """The auditor: a signed note is not a checkpoint (C2SP tlog-checkpoint), or one of another log."""

    code = "checkpoint_invalid"
    hint = "fetch the checkpoint again, from the host whose log it is"


class ProofInvalid(AuditError):
    """The auditor: a proof does not show what it should."""

    code = "proof_invalid"
    hint = "ask for the proof again, for exactly this entry and these sizes; if it stays so, the log does not hold it"


class LogEntryInvalid(AuditError):
    """The auditor: an entry of a log does not follow schema sandseal.log/1."""

    code = "log_entry_invalid"
    hint = "keep the entry and ask the operator; a newer version of this program may know its schema"


class ReceiptInvalid(AuditError):
    """The auditor: this is not a receipt, or not one by the key in hand."""

    code = "receipt_invalid"
    hint = "take the receipt as the host sent it, whole, and the host's receipt key"


class LogUnknown(AuditError):
    """The auditor: a log of this origin is not watched."""

    code = "log_unknown"
    hint = "get the log's verifier key from its operator and watch it first"


class AuditStateInvalid(AuditError):
    """The auditor: the auditor's own state does not follow schema sandseal.audit/1."""

    code = "audit_state_invalid"
    hint = "restore the file from a copy; without it, what was seen before is forgotten"


class LogInconsistent(AuditError):
    """The auditor: a log is not what it was; `data["known"]` and `data["shown"]` are the evidence."""

    code = "log_inconsistent"
    hint = "ask once more; if it stays so, keep the evidence and trust no later answer of this log"


class LogShrunk(LogInconsistent):
    """The auditor: a log shows fewer entries than before."""

    code = "log_shrunk"
    hint = "an old answer, or a host restored from a copy, or one that hides entries: ask once more, keep the evidence"


class LogForked(LogInconsistent):
    """The auditor: a log has two states of one size; the two checkpoints alone prove it."""

    code = "log_forked"
    hint = "keep the evidence: the host, or whoever has its key, signed two histories"


class LogRewritten(LogInconsistent):
    """The auditor: nothing shows that a log's new state continues the one seen before."""

    code = "log_rewritten"
    hint = "ask for the consistency proof between the two sizes once more; if it stays so, keep the evidence"


class LogIncomplete(SigningError):
    """The operator: the stored log lacks hashes that a log of its size has."""

    code = "log_incomplete"
    hint = "restore the log's tables from a copy, or rebuild the tree from the stored entries"
