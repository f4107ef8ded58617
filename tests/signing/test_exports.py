import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sandseal_signing


def test_the_export_list() -> None:
    assert sandseal_signing.__all__ == [
        *("PrivateKey", "PublicKey", "pack_folder", "sign_seal", "read_seal", "unpack_seal", "Contents"),
        *("open_bundle", "verify_statement", "Bundle", "VerifiedStatement"),
        *("SealReader", "FolderSource", "Source", "Sink", "InMemory", "Discard"),
        *("TrustPolicy", "TrustedKey", "Moment", "Verdict", "State", "Reason"),
        *("Digest", "Resource", "Statement"),
        *(
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
        ),
        *("parse_manifest", "render_manifest"),
        *("VerifierKey", "Checkpoint", "open_checkpoint", "LogProof"),
        *("LogEntry", "Kind", "Role", "Subject", "Detail"),
        *("Receipt", "make_receipt", "verify_receipt", "AuditState"),
        *("SandsealError", "SigningError", "KeyInvalid", "FormatError", "IntegrityError", "TrustError"),
        *("PolicyRefused", "PolicyInvalid", "AuditError", "LogInconsistent"),
    ]


@pytest.mark.parametrize("name", sandseal_signing.__all__)
def test_every_export_comes_from_the_module_that_defines_it(name: str) -> None:
    value = getattr(sandseal_signing, name)
    assert value.__module__.startswith("sandseal_signing.")
    assert getattr(import_module(value.__module__), name) is value
    assert value.__doc__


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = sandseal_signing.Nothing


def test_errors_and_manifests_need_no_cryptography() -> None:
    script = (
        "import sys, sandseal_signing.errors, sandseal_signing.manifest\n"
        "from sandseal_signing import Manifest, SandsealError, parse_manifest\n"
        "assert not any(name.startswith('cryptography') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_layers_hold() -> None:
    """Each module imports only from those before it, as the package's docstring draws them."""
    order = [
        *("errors", "digest", "names", "schema", "curve"),
        *("tensor", "stage", "generation", "state", "variants", "pipeline", "manifest", "keys"),
        *("envelope", "statement", "trust", "verdict"),
        *("seal", "folder", "bundle", "pack", "unpack", "oms"),
        *("merkle", "note", "checkpoint", "logproof", "logentry", "receipt", "auditor"),
        *("document", "permit"),
    ]
    drawn = [word for line in (sandseal_signing.__doc__ or "").splitlines()[4:] for word in line[4:44].split(", ")]
    assert [word.strip() for word in drawn if word.strip()] == order
    for name in order:
        source = Path(sandseal_signing.__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
        imported = re.findall(r"^ *(?:from|import) sandseal_signing\.(\w+)", source, re.MULTILINE)
        assert set(imported) <= set(order[: order.index(name)])
