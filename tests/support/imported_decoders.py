"""Language models that were imported, opened as a host does."""

from pathlib import Path

from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.decoders.source import DecoderSource
from sandseal_signing.manifest import parse_manifest


def imported(source: DecoderSource, folder: Path, precision: Precision = Precision.F32, slots: int = 2) -> Decoder:
    """The decoder of a bundle folder that is written first."""
    with source:
        write_decoder(source, folder, name="tiny", precision=precision)
    return opened(folder, slots)


def opened(folder: Path, slots: int = 2) -> Decoder:
    """The decoder of a bundle folder, with up to 512 positions."""
    manifest = parse_manifest((folder / "bundle.json").read_bytes())
    assert manifest.generation is not None
    return Decoder.open(
        ModelFiles(manifest.model, (folder / manifest.model.file).read_bytes(), folder=folder),
        Device.parse("cpu"),
        slots=slots,
        context=min(manifest.generation.context, 512),
    )
