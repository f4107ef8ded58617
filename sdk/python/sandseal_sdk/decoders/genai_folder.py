"""A language model as onnxruntime-genai's model builder writes it: the graph is ready, so its files are copied."""

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from sandseal_sdk.bundles.card import write_card
from sandseal_sdk.bundles.graph import domains, external_files
from sandseal_sdk.decoders.bundle import GRAPH, new_folder, write_manifest
from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.hf_text import read_text
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported
from sandseal_signing.pack import Progress

_CONFIG = "genai_config.json"
_CHUNK = 1 << 20
_INPUTS = {
    "input_ids": "input_ids",
    "past_key_names": "past_key_values.%d.key",
    "past_value_names": "past_key_values.%d.value",
}


def copy_decoder(folder: Path, out: Path, *, name: str, progress: Progress = lambda _: None) -> None:
    """Write a bundle folder for a language model that is an ONNX graph already.

    Args:
        folder: holds `genai_config.json`, the graph, its weights and `tokenizer.json`.
        out: the bundle folder, made here; nothing of it stays when this raises.
        name: the bundle's.
        progress: called with the bytes that were copied.

    Raises:
        FileExists: `out` is already there.
        ModelUnreadable: a file is missing or damaged.
        ModelUnsupported: not a decoder that keeps its keys and values in place.
    """
    config = Facts.load(folder / _CONFIG, needed=True).child("model")
    decoder = config.child("decoder")
    for key, wanted in _INPUTS.items():
        if (found := decoder.child("inputs").text(key)) != wanted:
            raise ModelUnsupported(f"the decoder's {key} are called {found!r}, not {wanted!r}")
    path = folder / Path(decoder.text("filename")).name
    graph = _read(path)
    if not any(node.op_type == "GroupQueryAttention" for node in graph.graph.node):
        raise ModelUnsupported(
            "the decoder has no GroupQueryAttention, so each step would copy all keys and values",
            hint="build it with a recent model builder of onnxruntime-genai, or give `sandseal import hf` the folder "
            "of safetensors that it was exported from",
        )
    text, weights = read_text(folder, config), external_files(graph)
    if odd := [file for file in weights if Path(file).name != file]:
        raise ModelUnreadable(f"{path} keeps weights outside of its folder: {', '.join(odd)}")
    with new_folder(out):
        for source, target in ((path.name, GRAPH), *((file, file) for file in weights)):
            _copy(folder / source, out / target, progress)
        about = {"source": f"{config.text('type', 'decoder')} by onnxruntime-genai's model builder"}
        write_manifest(out, text, name, config.count("context_length"), weights, domains(graph), about)
        write_card(out, f"Imported from {about['source']}.", ["Graph and weights are as they were, byte for byte."])


def _read(path: Path) -> onnx.ModelProto:
    try:
        return onnx.load(path, load_external_data=False)
    except (DecodeError, OSError) as error:
        raise ModelUnreadable(f"{path} cannot be read as ONNX: {error}") from None


def _copy(source: Path, target: Path, progress: Progress) -> None:
    try:
        with source.open("rb") as file, target.open("xb") as copy:
            while chunk := file.read(_CHUNK):
                copy.write(chunk)
                progress(len(chunk))
    except OSError as error:
        raise ModelUnreadable(f"{source} cannot be copied: {error}") from None
