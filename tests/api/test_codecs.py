"""Codecs by property: what goes in comes out, whichever form it takes on the way."""

import json
import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from api.double import identity, spec
from sandseal_host.api.json_document import load_object
from sandseal_host.api.json_tensor import json_from_tensor, tensor_from_json
from sandseal_host.api.request_decoder import RequestDecoder
from sandseal_host.api.response_encoder import ResponseEncoder
from sandseal_host.api.terms import Terms
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.serving.request import STANDARD, Response
from sandseal_host.tensors import KINDS, Tensor, pack_bytes
from sandseal_signing.tensor import DataType

bounded = settings(max_examples=50, deadline=None)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype, shape = draw(st.sampled_from(list(DataType))), draw(SHAPES)
    if dtype is DataType.BYTES:
        count = math.prod(shape)
        texts = draw(st.lists(st.text(max_size=5), min_size=count, max_size=count))
        return Tensor("x", dtype, shape, pack_bytes([text.encode() for text in texts]))
    elements = st.floats(width=32) if dtype is DataType.BF16 else None
    array = draw(hnp.arrays(np.float32 if dtype is DataType.BF16 else KINDS[dtype].numpy, shape, elements=elements))
    if dtype is DataType.BF16:
        array = (np.atleast_1d(array).view(np.uint32) >> 16).astype(np.uint16).reshape(shape)
    return Tensor("x", dtype, shape, array)


def same(left: Tensor, right: Tensor) -> bool:
    if left.dtype is DataType.BF16:
        floats = [(t.data.astype(np.uint32) << 16).view(np.float32) for t in (left, right)]
        return np.array_equal(*floats, equal_nan=True)
    return left.shape == right.shape and np.array_equal(left.data, right.data, equal_nan=left.data.dtype.kind == "f")


def decoder(tensor: Tensor) -> RequestDecoder:
    return RequestDecoder(identity("m", tensor.dtype, *tensor.shape).manifest, Terms(STANDARD))


def described(tensor: Tensor, **members: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": tensor.dtype, "shape": list(tensor.shape), **members}


@bounded
@given(tensors())
def test_json_round_trip(tensor):
    text = json_from_tensor(tensor, "literal")
    again = tensor_from_json(spec("x", tensor.dtype, *tensor.shape), tensor.shape, json.loads(text))
    assert same(again, tensor)


@bounded
@given(tensors())
def test_nested_json_says_the_same(tensor):
    flat = json.loads(json_from_tensor(tensor, "literal"))
    nested = json.loads(json_from_tensor(tensor, "literal", nested=True))
    if not tensor.shape:
        assert json.dumps([nested]) == json.dumps(flat)
        return
    again = tensor_from_json(spec("x", tensor.dtype, *tensor.shape), tensor.shape, nested)
    assert same(again, tensor)


@bounded
@given(tensors(), st.integers(0, 7))
def test_binary_requests(tensor, pad):
    text = json.dumps({"inputs": [described(tensor, parameters={"binary_data_size": tensor.nbytes})]}).encode()
    body = text + b" " * pad + tensor.data.tobytes()
    inference = decoder(tensor).decode(memoryview(body), len(text) + pad)
    assert same(inference.inputs[0], tensor)
    assert inference.inputs[0].data.flags.aligned


@bounded
@given(tensors())
def test_json_requests(tensor):
    text = b'{"inputs":[%s]}' % json.dumps(described(tensor, data=["here"])).encode()
    body = text.replace(b'["here"]', json_from_tensor(tensor, "literal"))
    assert same(decoder(tensor).decode(memoryview(body), len(body)).inputs[0], tensor)


@bounded
@given(tensors())
def test_binary_answers(tensor):
    model = identity("m", tensor.dtype, *tensor.shape)
    text = json.dumps(
        {
            "inputs": [described(tensor, parameters={"binary_data_size": tensor.nbytes})],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    asked = decoder(tensor).decode(memoryview(text + tensor.data.tobytes()), len(text))
    output = Tensor("y", tensor.dtype, tensor.shape, tensor.data)
    answer = ResponseEncoder(model.manifest, "id").encode(asked.plan, Response((output,), {}))
    length = int(dict(answer.headers).get(b"inference-header-content-length", len(answer.body)))
    (entry,) = json.loads(answer.body[:length])["outputs"]
    assert entry["shape"] == list(tensor.shape)
    assert entry["parameters"]["binary_data_size"] == tensor.nbytes
    assert answer.body[length:] == tensor.data.tobytes()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
MEMBERS = st.sampled_from(["name", "shape", "datatype", "data", "parameters", "binary_data_size"])
ENTRIES = st.lists(st.dictionaries(MEMBERS, JSON | st.sampled_from(["x", "FP32", [1, 4], [0.5] * 4]), max_size=6))


@pytest.mark.slow
@bounded
@given(st.fixed_dictionaries({"inputs": ENTRIES}, optional={"outputs": ENTRIES, "parameters": JSON, "id": JSON}))
def test_strange_requests_are_refused_or_read(document):
    body = json.dumps(document).encode()
    model = identity("m", "FP32", "batch", 4)
    try:
        inference = RequestDecoder(model.manifest, Terms(STANDARD)).decode(memoryview(body), len(body))
    except (RequestInvalid, UnsupportedRequest):
        return
    assert inference.inputs[0].data.dtype == np.float32


@bounded
@given(st.binary(max_size=60), st.integers(0, 60))
def test_strange_bytes_are_refused(body, header):
    model = identity("m", "FP32", "batch", 4)
    with pytest.raises(RequestInvalid):
        RequestDecoder(model.manifest, Terms(STANDARD)).decode(memoryview(body), min(header, len(body)))


@bounded
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_documents_are_read_as_the_standard_library_does(document):
    text = json.dumps(document).encode()
    try:
        found = load_object(text)
    except RequestInvalid:  # half of a surrogate pair, or a number beyond the doubles
        return
    assert json.dumps(found) == json.dumps(json.loads(text), default=float) or any(
        abs(value) >= 2**63 for value in _integers(document)
    )


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in _integers(part)]
    return [value] if type(value) is int else []


@bounded
@given(
    st.lists(st.sampled_from([b'"a":1', b'"b":NaN', b'"a":"x:y"', b'"\\u0061":2', b'"c":{"d":1,"d":2}']), max_size=4)
)
def test_a_member_named_twice_is_always_found(members):
    text = b"{" + b",".join(members) + b"}"
    names = [{b'"\\u0061":2': b"a"}.get(m, m[1:2]) for m in members]
    twice = len(set(names)) < len(names) or b"d" in text
    if not twice:
        load_object(text)
        return
    with pytest.raises(RequestInvalid, match="stands twice"):
        load_object(text)


class TestCost:
    """What a request can make the host do while it is read grows no faster than the request."""

    @pytest.fixture(autouse=True)
    def bound(self):
        began = time.process_time()
        yield
        assert time.process_time() - began < 5  # each of these took a quarter of a minute

    def test_a_member_named_twice_among_many(self):
        members = ",".join(f'"{i:x}":1' for i in range(28_000))
        with pytest.raises(RequestInvalid, match="'zz' stands twice"):
            load_object(f'{{{members},"zz":1,"zz":2}}'.encode())

    def test_a_shape_of_many_axes(self):
        axes = ",".join(["2147483647"] * 80_000)
        text = f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{axes}],"data":[]}}]}}'.encode()
        decoder = RequestDecoder(identity("m", "FP32", "batch", 2).manifest, Terms(STANDARD))
        with pytest.raises(RequestInvalid, match="80000 axes") as refusal:
            decoder.decode(memoryview(text), len(text))
        assert len(refusal.value.message) < 200


class TestNonFinite:
    tensor = Tensor("y", DataType.FP32, (4,), np.float32([np.nan, 0.1, np.inf, -np.inf]))

    def test_literals_by_default_as_triton(self):
        assert json_from_tensor(self.tensor, "literal") == b"[NaN,0.1,Infinity,-Infinity]"

    def test_null_by_setting(self):
        assert json_from_tensor(self.tensor, "null") == b"[null,0.1,null,null]"

    def test_error_by_setting(self):
        with pytest.raises(RequestInvalid, match="'y' holds NaN"):
            json_from_tensor(self.tensor, "error")
        finite = Tensor("y", DataType.FP32, (1,), np.float32([0.1]))
        assert json_from_tensor(finite, "error") == b"[0.1]"


def test_fp32_is_the_shortest_decimal_that_reads_back():
    tensor = Tensor("y", DataType.FP32, (2,), np.float32([1 / 3, 1e-45]))
    text = json_from_tensor(tensor, "literal")
    assert text == b"[0.33333334,1e-45]"
    assert np.array_equal(np.float32(json.loads(text)), tensor.data)


def test_bf16_rounds_to_nearest_even():
    values = [1.0, 1.00390625, 1.01171875, float("nan"), -float("inf"), 3.4e38]
    bits = tensor_from_json(spec("x", "BF16", 6), (6,), values).data
    assert [f"{b:04x}" for b in bits] == ["3f80", "3f80", "3f82", "7fc0", "ff80", "7f80"]
