"""`POST /v1/embeddings`: texts in, vectors out, of any model that takes a text and gives a vector."""

import base64
from typing import Any

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.errors import PluginBadOutput
from sandseal_host.serving.request import Response
from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node
from sandseal_signing.tensor import DataType, TensorSpec

MAX_TEXTS = 2048  # as OpenAI has it


def embeds(manifest: Manifest) -> bool:
    """Whether a model takes one text and gives one vector: a BYTES input of one element, an FP32 output of one row."""
    if len(manifest.inputs) != 1 or len(manifest.outputs) != 1 or manifest.generation is not None:
        return False
    (given,), (made,) = manifest.inputs, manifest.outputs
    text = given.dtype is DataType.BYTES and len(given.shape) <= 1 and all(axis in (1, "batch") for axis in given.shape)
    return text and made.dtype is DataType.FP32 and len(made.shape) == 2 and isinstance(made.shape[1], int)


class EmbeddingForm:
    """An embedding's request.

    Args:
        node: its members; those of this form are taken.
        manifest: the model's.

    Raises:
        OptionInvalid: the model makes no vectors of texts, or a member is not as it must be.
    """

    def __init__(self, node: Node, manifest: Manifest) -> None:
        if not embeds(manifest):
            raise OptionInvalid(
                f"model {manifest.name!r} does not make a vector of a text",
                hint=f"use POST /v2/models/{manifest.name}/infer",
                where="model",
            )
        self.inputs = [(_tensor(manifest.inputs[0], text),) for text in _texts(node)]
        encoding = node.text("encoding_format", "float", valid=("float", "base64").__contains__, rule="float or base64")
        self._packed = encoding == "base64"
        size = manifest.outputs[0].shape[1]
        if node.integer("dimensions", size) != size:
            node.fail("dimensions", f"must be {size}, the size of this model's vectors")

    def answer(self, responses: list[Response], model: str) -> dict[str, Any]:
        """The vectors in the texts' order; tokens are counted nowhere, since the bundle's own plugin makes them."""
        vectors = [self._vector(response.outputs[0]) for response in responses]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return {"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": 0, "total_tokens": 0}}

    def _vector(self, tensor: Tensor) -> Any:
        if tensor.shape[0] != 1:
            raise PluginBadOutput(f"output {tensor.name!r} has {tensor.shape[0]} rows for one text")
        if self._packed:
            return base64.b64encode(tensor.data.tobytes()).decode()
        return tensor.data.reshape(-1)


def _texts(node: Node) -> list[str]:
    given = node.take("input")
    texts = given if isinstance(given, list) else [given]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        node.fail("input", "must be a string or a list of strings, none of them empty; this model takes no token ids")
    if len(texts) > MAX_TEXTS:
        node.fail("input", f"must hold {MAX_TEXTS} strings at most, not {len(texts)}")
    return texts


def _tensor(spec: TensorSpec, text: str) -> Tensor:
    return Tensor(spec.name, spec.dtype, (1,) * len(spec.shape), pack_bytes([text.encode()]))
