import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandseal_signing.errors import JsonInvalid, LimitExceeded, ManifestInvalid
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import (
    TEXT_INPUT,
    TEXT_OUTPUT,
    Batching,
    Manifest,
    check_size,
    parse_manifest,
    render_manifest,
)
from sandseal_signing.schema import Node
from sandseal_signing.stage import LOGITS_INPUTS, LOGITS_OUTPUTS, Limits, StageSpec, read_stage
from sandseal_signing.tensor import DataType, TensorSpec
from sandseal_signing.variants import Precision, VariantSpec
from support.bundles import manifest
from support.manifests import (
    BAD,
    GENERATION,
    GOOD,
    ONLY_THE_READER_REFUSES,
    POST,
    Change,
    changed,
    full,
    generating,
    variants,
)

DATA = Path(__file__).parent / "data"


def parse(document: object) -> Manifest:
    return parse_manifest(json.dumps(document).encode())


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD)
def test_good_manifests(change: Change) -> None:
    assert parse(changed(change)).model.inputs


@pytest.mark.parametrize(
    "change", [*BAD.values(), *ONLY_THE_READER_REFUSES.values()], ids=[*BAD, *ONLY_THE_READER_REFUSES]
)
def test_bad_manifests_are_refused_by_place(change: Change) -> None:
    data = json.dumps(changed(change)).encode()
    with pytest.raises((ManifestInvalid, JsonInvalid)) as caught:
        parse_manifest(data)
    assert caught.value.message.startswith(caught.value.data["where"])
    assert caught.value.message.isprintable()
    assert caught.value.hint


def test_the_released_schema_1_stays_readable() -> None:
    read = parse_manifest((DATA / "bundle-1.json").read_bytes())
    assert (read.name, read.version, read.release) == ("acme.file-type", 7, "1.2.0")
    assert read.not_before == datetime(2026, 1, 1, tzinfo=UTC)
    assert read.expires == datetime(2027, 12, 31, tzinfo=UTC)
    assert read.model.file == "model.onnx"
    assert read.model.external_data == ("model.onnx.data", "weights/more.bin")
    assert read.model.domains == ("", "com.microsoft")
    assert read.model.batching == Batching(32, 500)
    assert read.model.raw == ("image/png", "image/*")
    assert read.model.outputs == (TensorSpec("y", DataType.BF16, ("batch", 1000)),)
    assert read.pre is not None
    assert read.pre.limits == Limits(32, 50)
    assert read.pre.imports == ("log", "now", "random", "asset")
    assert read.pre.config == '{"mean":0.485,"nested":{"a":"\u00e4\U0001f600","b":null},"std":[0.25,1e-07]}'.encode()
    assert read.post is not None
    assert (read.post.on_failure, read.post.mode) == ("refuse", "stream")
    assert read.post.assets == ("assets/labels.txt",)
    assert read.stages == (read.pre, read.post)
    assert [tensor.name for tensor in read.inputs] == ["image"]
    assert [tensor.name for tensor in read.outputs] == ["label", "score"]
    assert read.metadata["licence"] == "Apache-2.0"
    assert read.model.variants == (
        VariantSpec(Precision.FP16, "model.fp16.onnx"),
        VariantSpec(Precision.FP32, "model.onnx", ("model.onnx.data", "weights/more.bin")),
    )
    assert read.files == {
        "model.onnx",
        "model.onnx.data",
        "weights/more.bin",
        "model.fp16.onnx",
        "plugins/pre.wasm",
        "plugins/post.wasm",
        "assets/labels.txt",
    }
    assert set(read.reserved) == {
        "model.queue",
        "post.mode",
    }


def test_a_language_models_manifest_of_the_released_schema_1_stays_readable() -> None:
    read = parse_manifest((DATA / "bundle-1-generation.json").read_bytes())
    assert read.generation == GenerationSpec(
        tokenizer="tokenizer.json",
        chat_template="chat_template.jinja",
        context=8192,
        stop_ids=(2, 0),
        add_bos=1,
        defaults={
            "temperature": 0.7,
            "top_p": 0.95,
            "top_k": 40,
            "min_p": 0.05,
            "repetition_penalty": 1.1,
            "max_tokens": 256,
        },
    )
    assert read.inputs == (TEXT_INPUT,)
    assert read.outputs == (TEXT_OUTPUT,)
    assert read.logits == StageSpec(
        "plugins/grammar.wasm", "constrain", LOGITS_INPUTS, LOGITS_OUTPUTS, imports=("asset",), mode="stream"
    )
    assert read.stages == (read.logits,)
    assert read.files == {
        "model.onnx", "model.onnx.data", "tokenizer.json", "chat_template.jinja", "plugins/grammar.wasm",
    }  # fmt: skip
    assert read.reserved == ()


def test_a_variants_graph_and_weights_stand_in_for_the_models_own() -> None:
    half = {"precision": "FP16", "file": "half.onnx", "external_data": ["half.data"], "requires": "cuda"}
    model = parse(changed(variants(half))).model
    assert model.weights == ("model.onnx.data", "half.data")
    chosen = model.as_variant(model.variants[0])
    assert (chosen.file, chosen.external_data, chosen.inputs) == ("half.onnx", ("half.data",), model.inputs)


@pytest.mark.parametrize(("precision", "floor", "reaches"), [("INT8", "FP16", False), ("FP32", "FP16", True)])
def test_precisions_are_in_order(precision: str, floor: str, reaches: bool) -> None:
    assert Precision(precision).reaches(Precision(floor)) is reaches
    assert Precision(floor).reaches(Precision(floor))


def test_the_smallest_generation_gets_the_stated_defaults() -> None:
    read = parse(changed(generating()))
    assert read.generation == GenerationSpec("tokenizer.json", context=8192)
    assert read.files >= {"tokenizer.json"}
    assert parse(manifest()).generation is None


def test_the_smallest_manifest_gets_the_stated_defaults() -> None:
    read = parse(manifest())
    assert read == Manifest("acme.tiny", 1, read.model)
    assert read.model.batching == Batching(max_rows=1, max_delay_us=0)
    assert read.model.domains == ("",)
    assert read.stages == ()
    assert read.inputs == read.model.inputs
    assert read.outputs == read.model.outputs
    assert read.reserved == ()


def test_stages_are_resolved_against_the_model() -> None:
    read = parse(full())
    assert read.pre is not None
    assert read.post is not None
    assert read.pre.outputs == read.model.inputs
    assert read.post.inputs == read.model.outputs
    assert read.post.limits == Limits(memory_mib=64, time_ms=1000)
    assert read.post.config == b"{}"


def test_rows_are_counted_by_a_first_axis_called_batch() -> None:
    assert TensorSpec("x", DataType.FP32, ("batch", 4)).batched
    assert not TensorSpec("x", DataType.FP32, ("n", 4)).batched
    assert not TensorSpec("x", DataType.FP32, ()).batched


def test_batching_needs_rows_in_every_model_tensor() -> None:
    document = full()
    document["model"]["outputs"].append({"name": "scalar", "dtype": "FP32", "shape": []})
    with pytest.raises(ManifestInvalid, match=r"model\.batching: max_rows over 1 needs 'batch'"):
        parse(document)
    document["model"]["batching"]["max_rows"] = 1
    assert parse(document).model.outputs[1].shape == ()


def test_a_manifest_is_strict_json_of_limited_size() -> None:
    data = json.dumps(manifest()).encode()
    with pytest.raises(JsonInvalid, match=r"bundle\.json: not strict JSON .member 'name' stands twice"):
        parse_manifest(data[:-1] + b',"name":"acme.other"}')
    assert parse_manifest(data + b" " * (256 * 1024 - len(data)))
    with pytest.raises(LimitExceeded, match=r"bundle\.json has 262145 bytes, over 262144"):
        parse_manifest(data + b" " * (256 * 1024 + 1 - len(data)))
    with pytest.raises(LimitExceeded):
        check_size(256 * 1024 + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(name="Acme"),
            "name: must be 1 to 128 of a-z, 0-9, '.', '_' and '-', the first a letter or digit",
        ),
        (
            lambda d: d["pre"].update(imports=["exec"]),
            'pre.imports: must be a list of some of log, now, random, asset, not ["exec"]',
        ),
        (
            generating(stop_ids=[2, -1]),
            "generation.stop_ids: must be a list of integers from 0 to 2147483647, not [2, -1]",
        ),
        (
            generating(defaults={"top_p": 2}),
            "generation.defaults.top_p: must be a number from 0 to 1, not 2",
        ),
        (
            generating(logits={"plugin": "l.wasm", "function": "f", "mode": "stream"}),
            "generation.logits.mode: is always the same for logits, and cannot be given",
        ),
        (
            lambda d: (generating()(d), d.update(post=POST)),
            "post: cannot stand beside generation; a tokenizer.json and a logits stage do its work",
        ),
        (
            lambda d: d.update(generation=GENERATION),
            "model: must have the one input text_input and the one output text_output, BYTES [1], to generate",
        ),
        (
            lambda d: d["model"]["inputs"][0].update(shape=["n", "batch"]),
            "model.inputs[0].shape: axis 1 cannot be 'batch'",
        ),
        (lambda d: d["model"].update(file="../m"), "model.file: file name '../m' has a part '.' or '..'"),
        (lambda d: d.update(expires="soon"), "expires: must be a time such as '2027-12-31T00:00:00Z', not \"soon\""),
        (lambda d: d["pre"].update(outputs=[]), "pre.outputs: is not a member of this schema"),
    ],
)
def test_a_refusal_says_what_and_where(change: Change, message: str) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        parse(changed(change))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("value", ["2027-12-31", "inf", "nan"])
def test_a_stage_in_toml_holds_only_what_json_can_say(value: str) -> None:
    stage = tomllib.loads(f"plugin = 'p.wasm'\nfunction = 'f'\nconfig = {{a = [1.5, {value}]}}")
    with pytest.raises(ManifestInvalid, match=r"plugin\.toml\.config: cannot be written as JSON"):
        read_stage(Node(stage, "plugin.toml", ManifestInvalid), [], (), ())
    stage["config"]["a"].pop()
    assert read_stage(Node(stage, "plugin.toml", ManifestInvalid), [], (), ()).config == b'{"a":[1.5]}'


def test_rendering_is_for_people_and_reads_back() -> None:
    data = render_manifest(full())
    assert data.startswith(b'{\n  "schema": "sandseal.bundle/1",\n')
    assert data.endswith(b"}\n")
    assert parse_manifest(data) == parse(full())
    with pytest.raises(ManifestInvalid):
        render_manifest({**full(), "version": 0})
