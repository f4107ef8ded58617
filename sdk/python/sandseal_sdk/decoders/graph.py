"""The ONNX graph of a decoder: keys and values in place, ragged lengths, one position's logits per sequence."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.decoders.quantise import BLOCK, Bytes, Floats, quantise, quantise_rows
from sandseal_sdk.decoders.source import DecoderSource, Weight
from sandseal_sdk.decoders.turn import Turn
from sandseal_sdk.decoders.weight_file import WeightFile
from sandseal_sdk.errors import ModelUnreadable
from sandseal_signing.pack import Progress

CONTRIB = "com.microsoft"
_OPSET, _IR = 21, 10
_CHUNK = 1 << 20  # numbers that are in memory at once
_IN_INT8 = 4  # the accuracy level of MatMulNBits at which it rounds its other side to 8 bits, too: the fastest
_HEAD_BITS = 8  # logits suffer most from 4
_MLP_BITS = 7  # in INT8: two products with 8 bits then fit into the 16 in which processors without VNNI add them
_REACH = 4.5  # standard deviations of what is normalised and turned that 8 bits span; hardly anything is beyond
_PIECE = 64  # numbers of a row that are turned at most where that cannot be done beforehand
_POSITIONS = ("seqlens_k", "total_sequence_length", "cos", "sin")


class GraphBuilder:
    """Builds the graph of one source, whose weights go to `file` as they come.

    Attention is com.microsoft GroupQueryAttention: past and present keys and values may be the same memory, and each
    sequence of a batch has a length of its own.

    In INT8, what comes from a norm is turned, rounded with one scale for all, and multiplied in whole numbers; what
    goes out of an MLP has a scale for each row. On CPUs that is twice as fast as blocks with scales of their own, and a
    row's result is the same whatever shares its batch. An MLP's weights use 7 of their 8 bits, which takes less time
    where there is no VNNI, and hardly moves the answers.

    Args:
        context: the most positions of a sequence.
        progress: called with the bytes of the source that were converted.
    """

    def __init__(
        self, source: DecoderSource, precision: Precision, context: int, file: WeightFile, progress: Progress
    ) -> None:
        self._source, self._shape = source, source.shape
        self._context = context
        self._precision, self._file, self._progress = precision, file, progress
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._read: set[str] = set()  # what is read twice counts once
        self._dtype: Any = np.float16 if precision.half else np.float32
        self._float = helper.np_dtype_to_tensor_dtype(np.dtype(self._dtype))
        self._turn = Turn(self._shape.hidden) if precision is Precision.INT8 else None
        wide = self._shape.intermediate
        self._piece = min(wide & -wide, _PIECE)

    def build(self) -> onnx.ModelProto:
        """The whole graph, its weights written.

        Raises:
            ModelUnreadable: a weight is missing, of the wrong shape, or not finite.
        """
        self._constants()
        residual, normed = self._embed()
        self._rotary_caches()
        for layer in range(self._shape.layers):
            attended = self._attention(f"layers.{layer}", normed)
            residual, normed = self._add_norm(residual, attended, f"layers.{layer}.mlp_norm")
            after = f"layers.{layer + 1}.attention_norm" if layer + 1 < self._shape.layers else "norm"
            residual, normed = self._add_norm(residual, self._mlp(f"layers.{layer}", normed), after)
        self._logits(normed)
        graph = helper.make_graph(self._nodes, "decoder", self._inputs(), self._outputs(), self._weights)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR, producer_name="sandseal")

    def _inputs(self) -> list[onnx.ValueInfoProto]:
        tensor = helper.make_tensor_value_info
        return [
            tensor("input_ids", TensorProto.INT64, ["batch", "sequence"]),
            tensor("seqlens_k", TensorProto.INT32, ["batch"]),
            tensor("total_sequence_length", TensorProto.INT32, []),
            tensor("last_index", TensorProto.INT64, ["batch"]),
            *self._caches("past_key_values", "past"),
        ]

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", self._shape.vocab])
        return [logits, *self._caches("present", "total")]

    def _caches(self, side: str, length: str) -> Iterator[onnx.ValueInfoProto]:
        axes: list[str | int | None] = ["batch", self._shape.kv_heads, length, self._shape.head_dim]
        for layer in range(self._shape.layers):
            for what in ("key", "value"):
                yield helper.make_tensor_value_info(f"{side}.{layer}.{what}", self._float, axes)

    def _constants(self) -> None:
        constants: dict[str, Any] = {"one": np.array([1])}
        if self._turn is not None:
            constants |= {
                "step": np.float32(_REACH / 127), "part": np.float32(1 / 127), "unit": np.float32(1),
                "middle": np.uint8(128), "zero": np.int8(0), "last_axis": np.array([-1]),
                "turn": Turn(self._piece).rows(np.eye(self._piece, dtype=np.float32)),
                "cut": np.array([0, 0, -1, self._piece]), "joined": np.array([0, 0, -1]),
            }  # fmt: skip
            rows = self._node("Shape", "rows", [self._node("Unsqueeze", "ids", ["input_ids", "last_axis"])])
            self._node("Expand", "middles", ["middle", rows])
        self._weights += [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]

    def _embed(self) -> tuple[str, str]:
        # Rows are looked up, not multiplied: half of the bytes is near enough beside quantised weights.
        kept = np.float32 if self._precision is Precision.F32 else np.float16
        size = (self._shape.vocab, self._shape.hidden)
        rows = self._chunks("embedding", size)
        if self._turn is not None:
            rows = map(self._turn.rows, rows)
        table = self._store("embedding", kept, size, rows)
        found = self._node("Gather", "embedded", [table, "input_ids"])
        if kept is not self._dtype:
            found = self._node("Cast", "embedded.cast", [found], to=self._float)
        norm = self._norm("layers.0.attention_norm")
        normed = self._node(
            "SimplifiedLayerNormalization", f"{norm}.normed", [found, norm], epsilon=self._shape.norm_epsilon
        )
        return found, normed

    def _rotary_caches(self) -> None:
        rope, context, size = self._shape.rope, self._context, self._shape.head_dim // 2
        step = max(1, _CHUNK // size)
        for i, name in enumerate(("cos", "sin")):
            parts = (rope.turns(at, min(at + step, context))[i] for at in range(0, context, step))
            self._store(name, self._dtype, [context, size], parts)

    def _attention(self, layer: str, normed: str) -> str:
        shape, number = self._shape, layer.rpartition(".")[2]
        size = shape.head_dim
        rows = {"query": shape.heads * size, "key": shape.kv_heads * size, "value": shape.kv_heads * size}
        weights = {f"{layer}.{n}": many for n, many in rows.items()}
        packed = self._after_norm(f"{layer}.qkv", normed, f"{layer}.attention_norm", weights)
        if self._source.weight(f"{layer}.query_bias"):
            biases = [self._vector_rows(f"{layer}.{n}_bias", many) for n, many in rows.items()]
            bias = self._store(f"{layer}.bias", self._dtype, [sum(rows.values())], biases)
            packed = self._node("Add", f"{layer}.biased", [packed, bias])
        attended = self._node(
            "GroupQueryAttention",
            [f"{layer}.attended", f"present.{number}.key", f"present.{number}.value"],
            [packed, "", "", f"past_key_values.{number}.key", f"past_key_values.{number}.value", *_POSITIONS],
            CONTRIB,
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            local_window_size=shape.window or -1,
            do_rotary=1,
            rotary_interleaved=int(shape.interleaved),
        )
        return self._multiply(f"{layer}.output", attended, {f"{layer}.attention_output": shape.hidden}, rows["query"])

    def _mlp(self, layer: str, normed: str) -> str:
        wide = self._shape.intermediate
        weights = {f"{layer}.gate": wide, f"{layer}.up": wide}
        bits = None if self._turn is None else _MLP_BITS
        both = self._after_norm(f"{layer}.gate_up", normed, f"{layer}.mlp_norm", weights, bits)
        up = f"{layer}.up"
        gate = self._node("Split", [f"{layer}.gate", up], [both], axis=-1, num_outputs=2)
        gate = self._node("QuickGelu", f"{layer}.silu", [gate], CONTRIB, alpha=1.0)
        gated = self._node("Mul", f"{layer}.gated", [gate, up])
        if self._turn is None:
            return self._multiply(f"{layer}.mlp", gated, {f"{layer}.down": self._shape.hidden}, wide)
        return self._down(layer, gated, self._turn)

    def _down(self, layer: str, gated: str, turn: Turn) -> str:
        """The last product of an MLP in INT8: each row is turned piece by piece, and has a scale of its own."""
        width, wide, name = self._shape.hidden, self._shape.intermediate, f"{layer}.mlp"
        weight = turn.columns(np.concatenate([*self._chunks(f"{layer}.down", (width, wide))]))
        weight = Turn(self._piece).rows(weight.reshape(-1, self._piece)).reshape(weight.shape)
        pieces = self._node("Reshape", f"{name}.pieces", [gated, "cut"])
        turned = self._node("MatMul", f"{name}.turned", [pieces, "turn"])
        whole = self._node("Reshape", f"{name}.joined", [turned, "joined"])
        largest = self._node("ReduceMax", f"{name}.largest", [self._node("Abs", f"{name}.abs", [whole]), "last_axis"])
        scale = self._node("Mul", f"{name}.scale", [largest, "part"])
        left = self._node("QuantizeLinear", f"{name}.left", [whole, scale, "middles"], axis=-1, block_size=wide)
        return self._node("Mul", f"{name}.scaled", [self._in_integers(name, left, "unit", [weight], _MLP_BITS), scale])

    def _add_norm(self, residual: str, added: str, norm: str) -> tuple[str, str]:
        """Add what a block gave; the sum, and the sum normalised."""
        weight = self._norm(norm)
        normed, total = f"{norm}.normed", f"{norm}.sum"
        inputs, epsilon = [residual, added, weight], self._shape.norm_epsilon
        self._node("SkipSimplifiedLayerNormalization", [normed, "", "", total], inputs, CONTRIB, epsilon=epsilon)
        return total, normed

    def _logits(self, normed: str) -> None:
        """Of one position per sequence: each has as many as the vocabulary has tokens."""
        last = self._node("Unsqueeze", "last", ["last_index", "one"])
        hidden = self._node("GatherND", "hidden", [normed, last], batch_dims=1)
        tied = self._source.weight("head") is None
        name = "embedding" if tied else "head"
        if tied and self._precision.bits is None:
            product = self._product("scores", hidden, name)
        else:
            product = self._after_norm("scores", hidden, "norm", {name: self._shape.vocab}, bits=_HEAD_BITS)
        self._node("Cast", "logits", [product], to=TensorProto.FLOAT)

    def _after_norm(self, name: str, normed: str, norm: str, weights: dict[str, int], bits: int | None = None) -> str:
        """Multiply what a norm gave by weights that lie one below the other as one matrix; see `_multiply`."""
        turn, width = self._turn, self._shape.hidden
        if turn is None:
            return self._multiply(name, normed, weights, width, bits)
        scale = self._vector_rows(norm, width)
        turned = (
            turn.rows(chunk * scale) for each, many in weights.items() for chunk in self._chunks(each, (many, width))
        )
        left = self._node("QuantizeLinear", f"{name}.left", [normed, "step", "middle"])
        return self._in_integers(name, left, "step", turned, bits or 8)

    def _in_integers(self, name: str, left: str, step: str, chunks: Iterable[Floats], bits: int) -> str:
        """Multiply whole numbers, whose step is a scalar, by weights in 8 or 7 bits with a scale for each row."""
        packed, scales = zip(*(quantise_rows(chunk, bits) for chunk in chunks), strict=True)
        columns = np.ascontiguousarray(np.concatenate(packed).T)
        weight = self._store(name, columns.dtype, columns.shape, [columns])
        factors = self._store(f"{name}.scales", np.float32, columns.shape[1:], scales)
        inputs = [left, weight, step, factors, "middle", "middle" if bits == 8 else "zero"]
        return self._node("MatMulIntegerToFloat", f"{name}.product", inputs, CONTRIB)

    def _multiply(self, name: str, left: str, weights: dict[str, int], columns: int, bits: int | None = None) -> str:
        """Multiply by weights that lie one below the other as one matrix.

        Args:
            weights: their rows, by name.
            columns: of each.
            bits: of a quantised weight, instead of those of the precision.
        """
        rows = sum(weights.values())
        chunks: Iterable[Floats]
        chunks = (chunk for each, many in weights.items() for chunk in self._chunks(each, (many, columns)))
        if self._turn is not None:  # what is added to the turned sum
            chunks = [self._turn.columns(np.concatenate([*chunks]))]
        if self._precision.bits is None:
            weight = self._store(name, self._dtype, [rows, columns], chunks)
            return self._product(f"{name}.product", left, weight)
        bits = bits or self._precision.bits
        inputs = [left, *self._quantised(name, rows, -(-columns // BLOCK), bits, chunks)]
        facts = {"K": columns, "N": rows, "bits": bits, "block_size": BLOCK, "accuracy_level": _IN_INT8}
        return self._node("MatMulNBits", f"{name}.product", inputs, CONTRIB, **facts)

    def _quantised(self, name: str, rows: int, blocks: int, bits: int, chunks: Iterable[Floats]) -> list[str]:
        scales: list[Floats] = []
        zeros: list[Bytes] = []

        def packed() -> Iterator[Bytes]:
            for chunk in chunks:
                part = quantise(chunk, bits)
                scales.append(part.scales)
                zeros.extend([] if part.zeros is None else [part.zeros])
                yield part.packed

        names = [self._store(name, np.uint8, [rows, blocks, BLOCK * bits // 8], packed())]
        names.append(self._store(f"{name}.scales", self._dtype, [rows, blocks], scales))
        if zeros:
            names.append(self._store(f"{name}.zeros", np.uint8, [rows, zeros[0].shape[1]], zeros))
        return names

    def _product(self, name: str, left: str, weight: str) -> str:
        """Times the transpose, so that weights need not be turned around when they are written."""
        return self._node("FusedMatMul", name, [left, weight], CONTRIB, transB=1)

    def _store(self, name: str, dtype: Any, shape: Sequence[int], parts: Iterable[NDArray[Any]]) -> str:
        self._weights.append(self._file.add(name, dtype, shape, parts))
        return name

    def _norm(self, name: str) -> str:
        """The weights of a norm; where they are part of the matrices behind it, ones."""
        width = self._shape.hidden
        row = self._vector_rows(name, width) if self._turn is None else np.ones(width, np.float32)
        return self._store(name, self._dtype, [width], [row])

    def _vector_rows(self, name: str, length: int) -> Floats:
        ((row,),) = self._chunks(name, (length,))
        return np.asarray(row)

    def _chunks(self, name: str, shape: Sequence[int]) -> Iterator[Floats]:
        """A weight a few rows at a time."""
        weight = self._weight(name, shape)
        rows = shape[0] if len(shape) > 1 else 1
        step = max(1, _CHUNK // shape[-1])
        for start in range(0, rows, step):
            chunk = weight.rows(start, min(start + step, rows))
            if not np.isfinite(chunk).all():
                raise ModelUnreadable(f"the weight {name} holds numbers that are not finite")
            if name not in self._read:
                self._progress(len(chunk) * weight.row_bytes)
            yield chunk
        self._read.add(name)

    def _weight(self, name: str, shape: Sequence[int]) -> Weight:
        weight = self._source.weight(name)
        if weight is None:
            raise ModelUnreadable(f"the model has no weight {name}", hint="is the file complete?")
        if tuple(weight.shape) != tuple(shape):
            raise ModelUnreadable(f"the weight {name} is {list(weight.shape)}, but by its sizes {list(shape)}")
        return weight

    def _node(
        self, operator: str, outputs: str | Sequence[str], inputs: Sequence[str], domain: str = "", **attributes: Any
    ) -> str:
        """Add a node, called after its first output, which is returned."""
        names = [outputs] if isinstance(outputs, str) else outputs
        self._nodes.append(helper.make_node(operator, inputs, names, names[0], domain=domain, **attributes))
        return names[0]
