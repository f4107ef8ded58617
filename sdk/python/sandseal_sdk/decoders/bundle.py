"""A language model's bundle folder: the decoder's graph and weights, its tokenizer and template, and the manifest."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandseal_sdk.bundles.card import write_card
from sandseal_sdk.decoders.graph import CONTRIB, GraphBuilder
from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.decoders.quantise import BLOCK
from sandseal_sdk.decoders.source import DecoderSource, TextParts
from sandseal_sdk.decoders.weight_file import WeightFile
from sandseal_sdk.errors import FileExists, ModelUnsupported
from sandseal_signing.manifest import SCHEMA, TEXT_INPUT, TEXT_OUTPUT, render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.pack import Progress
from sandseal_signing.tensor import TensorSpec

GRAPH, WEIGHTS, TOKENIZER, TEMPLATE = "model.onnx", "model.onnx.data", "tokenizer.json", "chat_template.jinja"
_NOT_COMPARED = (
    "Its answers were not compared with the source's. Weights in f32 answer as transformers does; fewer bits, and f16, "
    "are less exact."
)


def write_decoder(
    source: DecoderSource,
    folder: Path,
    *,
    name: str,
    precision: Precision = Precision.F32,
    context: int | None = None,
    progress: Progress = lambda _: None,
) -> None:
    """Write a bundle folder for a language model, its weights a few rows at a time.

    Args:
        source: the model.
        folder: made here; nothing of it stays when this raises.
        name: the bundle's.
        precision: of the weights.
        context: the most positions of a sequence; as many as the model was made for when absent or more.
        progress: called with the bytes of the source that were converted.

    Raises:
        FileExists: `folder` is already there.
        ModelUnreadable, ModelUnsupported: the model is damaged, or does something that is not built here.
        ManifestInvalid: it says of itself what a manifest cannot state.
    """
    context = min(context or source.shape.context, source.shape.context)
    about = {"source": source.description, "precision": str(precision), "licence": source.licence}
    with new_folder(folder):
        write_manifest(folder, source.text, name, context, [WEIGHTS], ["", CONTRIB], about)
        with WeightFile(folder / WEIGHTS) as file:
            graph = GraphBuilder(source, precision, context, file, progress).build()
        if unused := source.unused():
            raise ModelUnsupported(
                f"the model has tensors that are not part of a Llama-like decoder: {', '.join(unused[:8])}",
                tensors=list(unused),
            )
        (folder / GRAPH).write_bytes(graph.SerializeToString())
        choices = list(_choices(source, precision, context))
        write_card(folder, f"Imported from {source.description}.", choices, _NOT_COMPARED)


def write_manifest(
    folder: Path,
    text: TextParts,
    name: str,
    context: int,
    external_data: Sequence[str],
    domains: Sequence[str],
    metadata: dict[str, str],
) -> None:
    """Write the tokenizer, the chat template and bundle.json beside a decoder's graph.

    Args:
        metadata: what is empty is left out.

    Raises:
        ManifestInvalid: the model says of itself what a manifest cannot state.
    """
    generation: dict[str, Any] = {"tokenizer": TOKENIZER, "context": context, "stop_ids": list(text.stop_ids)}
    (folder / TOKENIZER).write_bytes(text.tokenizer)
    if text.chat_template:
        (folder / TEMPLATE).write_text(text.chat_template, encoding="utf-8", newline="")
        generation["chat_template"] = TEMPLATE
    if text.add_bos is not None:
        generation["add_bos"] = text.add_bos
    if text.defaults:
        generation["defaults"] = dict(text.defaults)
    manifest = {
        "schema": SCHEMA,
        "name": name,
        "version": 1,
        "model": {
            "file": GRAPH,
            "external_data": list(external_data),
            "domains": list(domains),
            "inputs": [_stated(TEXT_INPUT)],
            "outputs": [_stated(TEXT_OUTPUT)],
        },
        "generation": generation,
        "metadata": {key: value for key, value in metadata.items() if value},
    }
    (folder / MANIFEST).write_bytes(render_manifest(manifest))


def _choices(source: DecoderSource, precision: Precision, context: int) -> Iterator[str]:
    """What the card says of how the model was made."""
    shape, text = source.shape, source.text
    yield f"Its licence, as it states it: {source.licence or 'none'}."
    yield (
        f"{shape.layers} layers of width {shape.hidden}, {shape.heads} heads over {shape.kv_heads} of keys and values, "
        f"{shape.vocab:,} tokens."
    )
    yield f"Weights in {precision}{f', in blocks of {BLOCK}' if precision.bits else ''}."
    yield f"A sequence has at most {context:,} positions; the model was made for {shape.context:,}."
    yield f"A text ends at one of the tokens {', '.join(map(str, text.stop_ids)) or '(none)'}."
    yield "Messages are put into its own chat template." if text.chat_template else "It has no chat template."


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder that is gone again when something goes wrong."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FileExists(f"{folder} is already there", hint="give another --out, or move it away") from None
    try:
        yield
    except BaseException:
        shutil.rmtree(folder)
        raise


def _stated(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": list(spec.shape)}
