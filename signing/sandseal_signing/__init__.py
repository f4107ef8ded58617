"""Sign and verify sealed bundles: takes bytes, uses only the standard library and `cryptography`.

Inside, each module imports only from those before it:

    errors, digest, names, schema, curve        the ground
    tensor, stage                               what a bundle's model and plugins take, give and may use
    generation, state, variants, pipeline       other members of its manifest
    manifest, keys                              what a bundle says of itself; who can sign
    envelope, statement                         one signature; what it is over
    trust, verdict                              whom the operator trusts, and for what; the judgement
    seal, folder, bundle                        the archive, the folder; verifying one
    pack, unpack, oms                           making one, opening one up; taking in what others signed
    merkle, note, checkpoint, logproof          a log's tree, its signed states, the proofs
    logentry, receipt, auditor                  what happened, what one request met; who checks it
    document, permit                            what holders sign besides bundles: policies, downgrade permits
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandseal_signing.auditor import AuditState
    from sandseal_signing.bundle import (
        Bundle,
        Discard,
        InMemory,
        Sink,
        Source,
        VerifiedStatement,
        open_bundle,
        verify_statement,
    )
    from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
    from sandseal_signing.digest import Digest
    from sandseal_signing.errors import (
        AuditError,
        FormatError,
        IntegrityError,
        KeyInvalid,
        LogInconsistent,
        PolicyInvalid,
        PolicyRefused,
        SandsealError,
        SigningError,
        TrustError,
    )
    from sandseal_signing.folder import FolderSource
    from sandseal_signing.generation import GenerationSpec
    from sandseal_signing.keys import PrivateKey, PublicKey
    from sandseal_signing.logentry import Detail, Kind, LogEntry, Role, Subject
    from sandseal_signing.logproof import LogProof
    from sandseal_signing.manifest import Batching, Manifest, ModelSpec, parse_manifest, render_manifest
    from sandseal_signing.note import VerifierKey
    from sandseal_signing.pack import Contents, pack_folder, read_seal, sign_seal
    from sandseal_signing.pipeline import PipelineSpec, StepSpec
    from sandseal_signing.receipt import Receipt, make_receipt, verify_receipt
    from sandseal_signing.seal import SealReader
    from sandseal_signing.stage import Limits, StageSpec
    from sandseal_signing.state import StateSpec
    from sandseal_signing.statement import Resource, Statement
    from sandseal_signing.tensor import DataType, TensorSpec
    from sandseal_signing.trust import TrustedKey, TrustPolicy
    from sandseal_signing.unpack import unpack_seal
    from sandseal_signing.variants import Precision, VariantSpec
    from sandseal_signing.verdict import Moment, Reason, State, Verdict

__all__ = [
    # Make one.
    "PrivateKey",
    "PublicKey",
    "pack_folder",
    "sign_seal",
    "read_seal",
    "unpack_seal",
    "Contents",
    # Verify one.
    "open_bundle",
    "verify_statement",
    "Bundle",
    "VerifiedStatement",
    "SealReader",
    "FolderSource",
    "Source",
    "Sink",
    "InMemory",
    "Discard",
    # Judge one.
    "TrustPolicy",
    "TrustedKey",
    "Moment",
    "Verdict",
    "State",
    "Reason",
    # What it holds.
    "Digest",
    "Resource",
    "Statement",
    "Manifest",
    "ModelSpec",
    "StageSpec",
    "GenerationSpec",
    "VariantSpec",
    "Precision",
    "StateSpec",
    "PipelineSpec",
    "StepSpec",
    "TensorSpec",
    "DataType",
    "Batching",
    "Limits",
    "parse_manifest",
    "render_manifest",
    # What a host did.
    "VerifierKey",
    "Checkpoint",
    "open_checkpoint",
    "LogProof",
    "LogEntry",
    "Kind",
    "Role",
    "Subject",
    "Detail",
    "Receipt",
    "make_receipt",
    "verify_receipt",
    "AuditState",
    # Why not.
    "SandsealError",
    "SigningError",
    "KeyInvalid",
    "FormatError",
    "IntegrityError",
    "TrustError",
    "PolicyRefused",
    "PolicyInvalid",
    "AuditError",
    "LogInconsistent",
]

# In the order of the layers, so that the first module that has a name is the one that defines it.
_MODULES = (
    *("errors", "digest", "tensor", "stage", "generation", "state", "variants", "pipeline", "manifest"),
    *("keys", "statement", "trust", "verdict"),
    *("seal", "folder", "bundle", "pack", "unpack"),
    *("note", "checkpoint", "logproof", "logentry", "receipt", "auditor"),
)


def __getattr__(name: str) -> Any:
    """A public name, loaded on first use: whoever needs errors or manifests only does so without `cryptography`."""
    if name in __all__:
        for module in _MODULES:
            home = import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
