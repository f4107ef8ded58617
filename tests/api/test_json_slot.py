"""Requests that repeat all but their numbers: the same answers as when everything is read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_host.api.json_slot import is_skeleton, split_data
from sandseal_host.api.request_decoder import RequestDecoder
from sandseal_host.api.terms import Terms
from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.request import STANDARD
from sandseal_signing.manifest import Manifest, ModelSpec
from sandseal_signing.tensor import DataType, TensorSpec

SPEC = TensorSpec("x", DataType.FP32, ("batch", 2))
MANIFEST = Manifest("m", 1, ModelSpec("m.onnx", (SPEC,), (SPEC,)))


def request(data: str, **members: object) -> bytes:
    rest = json.dumps({"id": "1", **members})[1:]
    return f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,2],"data":{data}}}],{rest}'.encode()


def decode(decoder: RequestDecoder, text: bytes):
    """The tensor's values and the id, or what was wrong."""
    try:
        inference = decoder.decode(memoryview(text), len(text))
    except RequestInvalid as error:
        return error.message
    return [str(value) for value in inference.inputs[0].data.ravel()], inference.plan.id


TEXTS = [
    "[1,2]", "[1.5, -2e3]", "[3,4]", "[[5,6]]", "[NaN,1]", "[Infinity,-Infinity]", "[1,2,3]", "[1]", "[]", "[true,1]",
    '["1",2]', "[null,1]", "null", "[1,2", "1,2]", "[1,]", '["]",1]', "{}", "[1,2],\"data\":[3,4]", "[1e999,0]",
    '[1,2],"extra":null', '[1,2],"parameters":{"data":[9,9]}',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_known_skeleton_changes_no_answer(text: str) -> None:
    warm = RequestDecoder(MANIFEST, Terms(STANDARD))
    assert decode(warm, request("[7,8]")) == (["7.0", "8.0"], "1")
    assert decode(warm, request(text)) == decode(RequestDecoder(MANIFEST, Terms(STANDARD)), request(text))
    assert decode(warm, request("[9,8]")) == (["9.0", "8.0"], "1")


@given(st.lists(st.sampled_from([*TEXTS, "[0,0]"]), max_size=6))
def test_no_order_of_requests_changes_an_answer(texts: list[str]) -> None:
    warm = RequestDecoder(MANIFEST, Terms(STANDARD))
    for text in texts:
        assert decode(warm, request(text)) == decode(RequestDecoder(MANIFEST, Terms(STANDARD)), request(text))


def test_numbers_that_stand_elsewhere_are_not_the_data() -> None:
    warm = RequestDecoder(MANIFEST, Terms(STANDARD))
    for first in ("[1,2]", "[3,4]"):
        text = (
            f'{{"parameters":{{"data":{first}}},'
            '"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[5,6]}]}'
        ).encode()
        assert decode(warm, text) == decode(RequestDecoder(MANIFEST, Terms(STANDARD)), text)


@pytest.mark.parametrize("text", [b"", b"{}", b'"data":', b'"data":[', b'"data": 1]', b'{"data":"]"}'])
def test_what_has_no_list_has_no_skeleton(text: bytes) -> None:
    assert split_data(text) is None


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b'{"inputs":[{"data":null}],"id":null}', b'{"inputs":[{"data":1},{"data":null}]}',
     b'{"inputs":null}', b'{"inputs":[null]}', b'{"data":null}'],
)  # fmt: skip
def test_what_is_no_skeleton(text: bytes) -> None:
    assert not is_skeleton(text)
