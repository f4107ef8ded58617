"""The *Generation* suite's model as other engines take it: requantised to Q8_0, and as onnxruntime-genai has it."""

import json
import shutil
from pathlib import Path

import onnx
from demo import WORK
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize, quantize
from onnx import TensorProto, helper

from bench import text_model
from sandseal_sdk.decoders.bundle import GRAPH, WEIGHTS
from sandseal_sdk.decoders.precision import Precision

_Q8 = GGMLQuantizationType.Q8_0


def gguf_q8() -> Path:
    """The shipped GGUF file with every 4-bit weight in 8 bits."""
    path = WORK / "bench" / "SmolLM2-135M-Instruct.Q8_0.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _requantise(text_model.gguf(), unfinished := path.with_suffix(".part"))
        unfinished.rename(path)
    return path


def _requantise(source: Path, target: Path) -> None:
    reader, writer = GGUFReader(source), GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            whole, member = field.types[0], field.types[-1]
            writer.add_key_value(name, field.contents(), whole, member if whole is GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        kind, data = tensor.tensor_type, tensor.data
        if kind not in (_Q8, GGMLQuantizationType.F32):
            kind, data = _Q8, quantize(dequantize(data, kind), _Q8)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def genai_folder(precision: Precision) -> Path:
    """A bundle of ours, with the inputs and the configuration that onnxruntime-genai expects."""
    bundle, folder = text_model.bundle(precision), WORK / "bench" / f"smollm2-{precision}-genai"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        graph = onnx.load(bundle / GRAPH, load_external_data=False)
        _take_a_mask(graph.graph)
        (unfinished / GRAPH).write_bytes(graph.SerializeToString())
        (unfinished / WEIGHTS).hardlink_to(bundle / WEIGHTS)
        shutil.copy(bundle / "tokenizer.json", unfinished)
        (unfinished / "genai_config.json").write_text(json.dumps(_config(graph.graph)))
        unfinished.rename(folder)
    return folder


def _take_a_mask(graph: onnx.GraphProto) -> None:
    """Compute the lengths from `attention_mask`, and give logits an axis for positions."""
    small = ("seqlens_k", "total_sequence_length", "last_index")
    inputs = [each for each in graph.input if each.name not in small]
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1, text_model.VOCAB])
    outputs = [logits, *(each for each in graph.output if each.name != "logits")]
    for node in graph.node:
        node.output[:] = ["scores.cast" if name == "logits" else name for name in node.output]
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "one"], ["lengths"], keepdims=0),
        helper.make_node("Sub", ["lengths", "one"], ["lasts"]),
        helper.make_node("Cast", ["lasts"], ["seqlens_k"], to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["total"], start=1, end=2),
        helper.make_node("Squeeze", ["total"], ["total.scalar"]),
        helper.make_node("Cast", ["total.scalar"], ["total_sequence_length"], to=TensorProto.INT32),
        helper.make_node("Shape", ["input_ids"], ["sequence"], start=1, end=2),
        helper.make_node("Sub", ["sequence", "one"], ["last_position"]),
        helper.make_node("Shape", ["input_ids"], ["batch"], start=0, end=1),
        helper.make_node("Expand", ["last_position", "batch"], ["last_index"]),
        *graph.node,
        helper.make_node("Unsqueeze", ["scores.cast", "one"], ["logits"]),
    ]
    for field, members in ((graph.input, [*inputs, mask]), (graph.output, outputs), (graph.node, nodes)):
        kept = list(members)
        del field[:]
        field.extend(kept)


def _config(graph: onnx.GraphProto) -> dict[str, object]:
    """genai_config.json; no token ends a text, as little as at the other engines."""
    caches = [each for each in graph.input if each.name.endswith(".key")]
    _, kv_heads, _, head = (axis.dim_value for axis in caches[0].type.tensor_type.shape.dim)
    attention = next(node for node in graph.node if node.op_type == "GroupQueryAttention")
    heads = next(fact.i for fact in attention.attribute if fact.name == "num_heads")
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    present = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder = {
        "filename": GRAPH,
        "session_options": {"intra_op_num_threads": text_model.THREADS},
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
        "outputs": {"logits": "logits", **present},
        "head_size": head,
        "hidden_size": head * heads,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "num_hidden_layers": len(caches),
    }
    model = {
        "type": "llama",
        "decoder": decoder,
        "context_length": text_model.CONTEXT,
        "vocab_size": text_model.VOCAB,
        "bos_token_id": 0,
        "eos_token_id": text_model.VOCAB - 1,
        "pad_token_id": text_model.VOCAB - 1,
    }
    return {"model": model, "search": {"max_length": text_model.CONTEXT, "past_present_share_buffer": True}}
