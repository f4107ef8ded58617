"""Inference through the ASGI application, as a client sees it."""

import gzip
import json
import zlib
from typing import Any

import numpy as np
import pytest

HEADER = "Inference-Header-Content-Length"


@pytest.fixture
def host(shared):
    for model in shared[0].models.models:
        model.requests.clear()
    return shared[0]


@pytest.fixture
def client(shared):
    return shared[1]


def tensor(name="x", shape=(1, 16), datatype="FP32", **members: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "datatype": datatype, **members}


def infer(client, model, document, tail=b"", headers=None, **options):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    sized = {HEADER: str(len(text))} if tail else {}
    return client.post(
        f"/v2/models/{model}/infer", content=text + tail, headers={**sized, **(headers or {})}, **options
    )


def ask(client, model, *inputs, **members):
    return infer(client, model, {"inputs": list(inputs), **members})


def refused(answer, status, *words, code="request_invalid"):
    body = answer.json()
    assert answer.status_code == status, answer.text
    assert body["code"] == code
    assert isinstance(body["hint"], str)
    for word in words:
        assert word in body["error"], body["error"]
    return body


class TestJson:
    def test_plain(self, client, host):
        answer = ask(client, "identity", tensor(data=[*range(16)]))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert HEADER.lower() not in answer.headers
        assert answer.text == (
            '{"model_name":"identity","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,16],'
            '"data":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0]}]}'
        )
        assert answer.headers["sandseal-bundle"] == host.models.get("identity").bundle_id
        assert answer.headers["server-timing"] == "queue;dur=1.000, run;dur=2.000"

    def test_needs_no_content_type(self, client):
        document = json.dumps({"inputs": [tensor(data=[0] * 16)]}).encode()
        for headers in ({}, {"Content-Type": "text/plain"}, {"Accept": "text/html"}):
            assert infer(client, "identity", document, headers=headers).status_code == 200

    def test_nested(self, client):
        answer = ask(client, "identity", tensor(shape=(2, 16), data=[[*range(16)], [*range(16, 32)]]))
        assert answer.json()["outputs"][0]["data"] == [float(v) for v in range(32)]

    def test_id_is_echoed_first_and_only_when_given(self, client):
        given = ask(client, "identity", tensor(data=[0] * 16), id="req-42")
        assert given.text.startswith('{"id":"req-42","model_name"')
        for absent in ("", None):
            assert "id" not in ask(client, "identity", tensor(data=[0] * 16), id=absent).json()

    def test_unknown_members_are_ignored(self, client):
        assert ask(client, "identity", tensor(data=[0] * 16, surplus=1), surplus={"a": {}}).status_code == 200

    def test_versions(self, client):
        document = {"inputs": [tensor(data=[0] * 16)]}
        assert infer(client, "versions", document).json()["model_version"] == "3"
        one = client.post("/v2/models/versions/versions/1/infer", json=document)
        assert one.json()["model_version"] == "1"

    @pytest.mark.parametrize(
        ("model", "datatype", "shape", "data"),
        [
            ("flags", "BOOL", (1, 4), [True, False, True, False]),
            ("bytes8", "UINT8", (1, 3), [0, 255, 7]),
            ("wide", "INT64", (1, 3), [-(2**63), 2**63 - 1, 0]),
            ("half", "FP16", (1, 4), [0.5, -1.0, 0.0999755859375, 65504.0]),
            ("brain", "BF16", (1, 4), [0.5, -1.0, 3.140625, 1.0]),
            ("text", "BYTES", (1, 2), ["héllo", ""]),
            ("fixed", "FP32", (2, 3), [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ],
    )
    def test_every_kind_of_data_comes_back(self, client, model, datatype, shape, data):
        (output,) = ask(client, model, tensor(shape=shape, datatype=datatype, data=data)).json()["outputs"]
        if datatype == "FP16":
            assert np.array_equal(np.float16(output["data"]), np.float16(data))
        else:
            assert output["data"] == data
        assert output["datatype"] == datatype
        assert output["shape"] == list(shape)

    def test_nan_and_infinities_both_ways(self, client):
        data = "NaN, Infinity, -Infinity, -0.0" + ", 0.0" * 12
        text = json.dumps({"inputs": [tensor(data=["here"])]}).replace('"here"', data)
        answer = infer(client, "identity", text.encode())
        assert '"data":[NaN,Infinity,-Infinity,-0.0,0.0' in answer.text

    def test_too_large_for_fp32_is_infinite_as_in_triton(self, client):
        answer = ask(client, "identity", tensor(data=[1e300] + [0] * 15))
        assert '"data":[Infinity,0.0' in answer.text

    def test_zero_rows(self, client):
        (output,) = ask(client, "identity", tensor(shape=(0, 16), data=[])).json()["outputs"]
        assert output == {"name": "y", "datatype": "FP32", "shape": [0, 16], "data": []}


class TestOutputs:
    def inputs(self):
        return [
            tensor("a", (1, 4), "FP32", data=[0.0, 1.0, 2.0, 3.0]),
            tensor("b", (1, 4), "INT64", data=[1, 2, 3, 4]),
        ]

    def names(self, client, **members):
        answer = ask(client, "pair", *self.inputs(), **members)
        assert answer.status_code == 200, answer.text
        return [output["name"] for output in answer.json()["outputs"]]

    def test_all_by_default_in_the_models_order(self, client):
        assert self.names(client) == self.names(client, outputs=[]) == ["d", "s"]

    def test_those_asked_for_once_each(self, client):
        assert self.names(client, outputs=[{"name": "s"}]) == ["s"]
        assert self.names(client, outputs=[{"name": "s"}, {"name": "d"}, {"name": "s"}]) == ["d", "s"]

    def test_unknown(self, client):
        refused(ask(client, "pair", *self.inputs(), outputs=[{"name": "z"}]), 400, "'z'")

    def test_without_a_name(self, client):
        refused(ask(client, "pair", *self.inputs(), outputs=[{}]), 400, "'name' is missing")

    def test_classes(self, client):
        asked = [{"name": "s", "parameters": {"classification": 2}}, {"name": "d"}]
        plain, classes = ask(client, "pair", *self.inputs(), outputs=asked).json()["outputs"]
        assert plain == {"name": "d", "datatype": "FP32", "shape": [1, 4], "data": [-1.0] * 4}
        assert classes == {"name": "s", "datatype": "BYTES", "shape": [1, 2], "data": ["7.000000:3", "5.000000:2"]}

    def test_binary_classes(self, client):
        asked = [{"name": "s", "parameters": {"classification": 1, "binary_data": True}}]
        answer = ask(client, "pair", *self.inputs(), outputs=asked)
        assert answer.content.endswith(b'"shape":[1,1],"parameters":{"binary_data_size":14}}]}\n\0\0\x007.000000:3')

    def test_no_classes(self, client):
        off = [{"name": "s", "parameters": {"classification": 0}}]
        assert self.names(client, outputs=off) == ["s"]
        for classes, words in ((-1, "0 or more"), (True, "an integer"), ("2", "an integer")):
            asked = [{"name": "s", "parameters": {"classification": classes}}]
            refused(ask(client, "pair", *self.inputs(), outputs=asked), 400, words)
        strings = tensor(shape=(1, 1), datatype="BYTES", data=["a"])
        refused(
            ask(client, "text", strings, outputs=[{"name": "y", "parameters": {"classification": 1}}]), 400, "BYTES"
        )


class TestBinary:
    x = np.arange(16, dtype=np.float32)
    sized = tensor(parameters={"binary_data_size": 64})

    def test_in_json_out(self, client):
        answer = infer(client, "identity", {"inputs": [self.sized]}, self.x.tobytes())
        assert answer.json()["outputs"][0]["data"] == self.x.tolist()

    @pytest.mark.parametrize(
        "members",
        [
            {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
            {"parameters": {"binary_data_output": True}},
        ],
    )
    def test_in_and_out(self, client, members):
        answer = infer(client, "identity", {"inputs": [self.sized], **members}, self.x.tobytes())
        length = int(answer.headers[HEADER])
        assert answer.headers["content-type"] == "application/octet-stream"
        assert json.loads(answer.content[:length])["outputs"] == [
            {"name": "y", "datatype": "FP32", "shape": [1, 16], "parameters": {"binary_data_size": 64}}
        ]
        assert answer.content[length:] == self.x.tobytes()

    def test_of_an_output_beats_that_of_the_request(self, client):
        wanted = {"outputs": [{"name": "y", "parameters": {"binary_data": False}}]}
        members = {"parameters": {"binary_data_output": True}, **wanted}
        answer = infer(client, "identity", {"inputs": [self.sized], **members}, self.x.tobytes())
        assert answer.json()["outputs"][0]["data"] == self.x.tolist()

    def test_mixture_in_and_out(self, client):
        a = tensor("a", (1, 4), parameters={"binary_data_size": 16})
        b = tensor("b", (1, 4), "INT64", data=[1, 2, 3, 4])
        wanted = [{"name": "s", "parameters": {"binary_data": True}}, {"name": "d"}]
        for inputs in ([a, b], [b, a]):
            answer = infer(client, "pair", {"inputs": inputs, "outputs": wanted}, self.x[:4].tobytes())
            length = int(answer.headers[HEADER])
            d, s = json.loads(answer.content[:length])["outputs"]
            assert d["data"] == [-1.0] * 4
            assert s["parameters"] == {"binary_data_size": 16}
            assert np.frombuffer(answer.content[length:], np.float32).tolist() == [1.0, 3.0, 5.0, 7.0]

    def test_tensors_follow_the_order_of_the_json(self, client):
        a = tensor("a", (1, 4), parameters={"binary_data_size": 16})
        b = tensor("b", (1, 4), "INT64", parameters={"binary_data_size": 32})
        parts = {"a": np.float32([[5, 5, 5, 5]]).tobytes(), "b": np.int64([[1, 2, 3, 4]]).tobytes()}
        for inputs in ([a, b], [b, a]):
            answer = infer(client, "pair", {"inputs": inputs}, b"".join(parts[i["name"]] for i in inputs))
            assert answer.json()["outputs"][0]["data"] == [4.0, 3.0, 2.0, 1.0]

    def test_remembered_json_reads_every_body_anew(self, client):
        document = {"inputs": [self.sized]}
        for value in (1.0, 2.0, 3.0):
            answer = infer(client, "identity", document, np.full(16, value, np.float32).tobytes())
            assert answer.json()["outputs"][0]["data"] == [value] * 16
        refused(infer(client, "identity", document, bytes(68)), 400, "has 173 bytes", "take 169")

    def test_unaligned_tensors_reach_the_model_aligned(self, client, host):
        document = json.dumps({"inputs": [self.sized]})
        for pad in range(4):
            infer(client, "identity", (document + " " * pad).encode(), self.x.tobytes())
        requests = host.models.get("identity").requests
        assert all(request.inputs[0].data.flags.aligned for request in requests)
        assert all(np.array_equal(request.inputs[0].data[0], self.x) for request in requests)

    def test_bytes(self, client):
        packed = b"\x02\0\0\0hi\0\0\0\0"
        sized = tensor(shape=(1, 2), datatype="BYTES", parameters={"binary_data_size": len(packed)})
        wanted = [{"name": "y", "parameters": {"binary_data": True}}]
        answer = infer(client, "text", {"inputs": [sized], "outputs": wanted}, packed)
        assert answer.content.endswith(packed)
        assert infer(client, "text", {"inputs": [sized]}, packed).json()["outputs"][0]["data"] == ["hi", ""]

    def test_bytes_that_are_not_text_cannot_be_json(self, client):
        sized = tensor(shape=(1, 1), datatype="BYTES", parameters={"binary_data_size": 6})
        answer = infer(client, "text", {"inputs": [sized]}, b"\x02\0\0\0\xff\xfe")
        assert "binary_data" in refused(answer, 400, "not UTF-8")["hint"]

    def test_empty_outputs_are_plain_json(self, client):
        empty = tensor(shape=(0, 16), parameters={"binary_data_size": 0})
        answer = infer(client, "identity", {"inputs": [empty], "parameters": {"binary_data_output": True}})
        assert answer.headers["content-type"] == "application/json"
        assert HEADER.lower() not in answer.headers
        assert answer.json()["outputs"][0]["parameters"] == {"binary_data_size": 0}


class TestRaw:
    x = np.arange(6, dtype=np.float32)

    def raw(self, client, model, body, **headers):
        return client.post(f"/v2/models/{model}/infer", content=body, headers={HEADER: "0", **headers})

    def test_whole_body_is_the_tensor(self, client):
        answer = self.raw(client, "fixed", self.x.tobytes())
        assert answer.content[int(answer.headers[HEADER]) :] == self.x.tobytes()

    def test_answer_as_json_when_accepted(self, client):
        answer = self.raw(client, "fixed", self.x.tobytes(), Accept="application/json")
        assert answer.json()["outputs"][0]["data"] == self.x.tolist()

    def test_one_free_axis_follows_from_the_length(self, client):
        answer = self.raw(client, "wide", np.int64([1, 2, 3]).tobytes(), Accept="application/json")
        assert answer.json()["outputs"][0]["shape"] == [1, 3]

    def test_wrong_lengths(self, client):
        refused(self.raw(client, "fixed", bytes(23)), 400, "has 23 bytes", "takes 24")
        refused(self.raw(client, "wide", bytes(9)), 400, "has 9 bytes")

    def test_several_inputs(self, client):
        refused(self.raw(client, "pair", bytes(16)), 400, "one input")

    def test_empty_body(self, client):
        answer = self.raw(client, "wide", b"", Accept="application/json")
        assert answer.json()["outputs"][0]["shape"] == [1, 0]


class TestRefused:
    @pytest.mark.parametrize(
        ("model", "document", "words"),
        [
            ("identity", b"{", ["not JSON"]),
            ("identity", b"", ["not JSON"]),
            ("identity", b"[]", ["not a JSON object"]),
            ("identity", b"[" * 100_000, ["nests deeper than 64"]),
            ("identity", b'{"inputs":' + b"[" * 64 + b"]" * 64 + b"}", ["nests deeper than 64"]),
            ("identity", b'{"inputs":[{"name":"\xff"}]}', ["not JSON"]),
            ("identity", b'{"inputs":[], "inputs":[]}', ["'inputs' stands twice"]),
            ("identity", b'{"inputs":[{"name":"x","name":"x"}]}', ["'name' stands twice"]),
            ("identity", b'{"inputs":[],"a":NaN,"a":1}', ["'a' stands twice"]),
            ("identity", b'{"inputs":[{"name":"\\ud800","a":NaN}]}', ["not JSON"]),
            ("identity", {}, ["'inputs' is missing"]),
            ("identity", {"inputs": {}}, ["'inputs' must be a list"]),
            ("identity", {"inputs": [5]}, ["not a JSON object"]),
            ("identity", {"inputs": []}, ["lacks the inputs ['x']"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "id": 42}, ["'id' must be a string"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": []}, ["'parameters' must be an object"]),
            ("identity", {"inputs": [tensor("z", data=[0] * 16)]}, ["no input 'z'"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)] * 2}, ["'x' stands twice"]),
            ("identity", {"inputs": [{"shape": [1, 16], "datatype": "FP32", "data": []}]}, ["'name' is missing"]),
            ("identity", {"inputs": [{"name": "x", "datatype": "FP32", "data": []}]}, ["'shape' is missing"]),
            ("identity", {"inputs": [{"name": "x", "shape": [1, 16], "data": []}]}, ["'datatype' is missing"]),
            ("identity", {"inputs": [tensor(datatype="INT64", data=[0] * 16)]}, ["'INT64'", "FP32"]),
            ("identity", {"inputs": [tensor(datatype="fp32", data=[0] * 16)]}, ["'fp32'"]),
            ("identity", {"inputs": [tensor(shape=(1, 15), data=[0] * 15)]}, ["[1, 15]", "['batch', 16]"]),
            ("identity", {"inputs": [tensor(shape=(16,), data=[0] * 16)]}, ["[16]"]),
            ("identity", {"inputs": [tensor(shape=(-1, 16), data=[0] * 16)]}, ["integers from 0"]),
            ("identity", {"inputs": [tensor(shape=(1.0, 16), data=[0] * 16)]}, ["integers from 0"]),
            ("identity", {"inputs": [tensor(shape=(True, 16), data=[0] * 16)]}, ["integers from 0"]),
            ("identity", {"inputs": [tensor(shape=("1", 16), data=[0] * 16)]}, ["integers from 0"]),
            ("identity", {"inputs": [tensor(shape=(2**62, 16), data=[0] * 16)]}, ["integers from 0"]),
            ("wide", {"inputs": [tensor(shape=(2**31 - 1, 2**31 - 1), datatype="INT64", data=[])]}, ["more elements"]),
            ("wide", {"inputs": [tensor(shape=(2**31 - 1, 0), datatype="INT64", data=[0])]}, ["has 1 elements"]),
            ("identity", {"inputs": [tensor()]}, ["either data or"]),
            ("identity", {"inputs": [tensor(data=[0] * 16, parameters={"binary_data_size": 64})]}, ["either data or"]),
            ("identity", {"inputs": [tensor(data=5)]}, ["not a list"]),
            ("identity", {"inputs": [tensor(data=[0] * 15)]}, ["has 15 elements", "takes 16"]),
            ("identity", {"inputs": [tensor(data=[0] * 17)]}, ["has 17 elements"]),
            ("identity", {"inputs": [tensor(shape=(2, 16), data=[[0] * 15, [0] * 17])]}, ["nor nested as its shape"]),
            ("identity", {"inputs": [tensor(data=[[[0] * 16]])]}, ["nor nested as its shape"]),
            ("identity", {"inputs": [tensor(data=[None] + [0] * 15)]}, ["null among data"]),
            ("identity", {"inputs": [tensor(data=["1"] + [0] * 15)]}, ["a string among data"]),
            ("identity", {"inputs": [tensor(data=[True] + [0] * 15)]}, ["a boolean among data"]),
            ("identity", {"inputs": [tensor(data=[{}] + [0] * 15)]}, ["an object among data"]),
            ("flags", {"inputs": [tensor(shape=(1, 4), datatype="BOOL", data=[True, 1, 0, False])]}, ["an integer"]),
            ("bytes8", {"inputs": [tensor(shape=(1, 1), datatype="UINT8", data=[256])]}, ["does not fit", "UINT8"]),
            ("bytes8", {"inputs": [tensor(shape=(1, 1), datatype="UINT8", data=[-1])]}, ["does not fit"]),
            ("bytes8", {"inputs": [tensor(shape=(1, 1), datatype="UINT8", data=[1.5])]}, ["a fraction"]),
            ("wide", {"inputs": [tensor(shape=(1, 1), datatype="INT64", data=[2**63])]}, ["does not fit"]),
            ("wide", {"inputs": [tensor(shape=(1, 1), datatype="INT64", data=[2**70])]}, ["beyond 64 bits"]),
            ("text", {"inputs": [tensor(shape=(1, 2), datatype="BYTES", data=[1, 2])]}, ["an integer among data"]),
            (
                "pair",
                {"inputs": [tensor("a", (1, 4), data=[0] * 4), tensor("b", (2, 4), "INT64", data=[0] * 8)]},
                ["'b'"],
            ),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": {"timeout": -1}}, ["'timeout'"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": {"priority": "1"}}, ["'priority'"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": {"sandseal.class": "x"}}, ["realtime"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": {"o": {}}}, ["'o'"]),
            ("identity", {"inputs": [tensor(data=[0] * 16)], "parameters": {"triton_x": 1}}, ["reserved"]),
        ],
    )
    def test_json(self, client, host, model, document, words):
        refused(infer(client, model, document), 400, *words)
        assert not host.models.get(model).requests

    @pytest.mark.parametrize(
        ("size", "tail", "words"),
        [
            (60, bytes(60), ["has 60 bytes", "takes 64"]),
            (128, bytes(128), ["has 128 bytes", "takes 64"]),
            (64, bytes(60), ["take"]),
            (64, bytes(68), ["take"]),
            (-64, bytes(64), ["has -64 bytes"]),
            ("64", bytes(64), ["'binary_data_size' must be an integer"]),
        ],
    )
    def test_binary_sizes(self, client, size, tail, words):
        sized = tensor(parameters={"binary_data_size": size})
        refused(infer(client, "identity", {"inputs": [sized]}, tail), 400, *words)

    def test_header_lengths(self, client):
        body = json.dumps({"inputs": [tensor(data=[0] * 16)]}).encode()
        for length, words in {
            "-5": "not a number of bytes",
            "abc": "not a number of bytes",
            "9" * 30: "not a number of bytes",
            str(len(body) + 1): "but the body has",
            "10": "not JSON",
        }.items():
            refused(infer(client, "identity", body, headers={HEADER: length}), 400, words)
        answer = infer(client, "identity", body, headers={HEADER: str(2**32 + len(body))})
        refused(answer, 413, "bytes of JSON", code="too_large")

    def test_malformed_bytes(self, client):
        for packed, count in ((b"\x09\0\0\0hi", 1), (b"\x02\0\0\0hi", 2), (b"\x02\0\0\0hi\0", 1), (b"", 1)):
            sized = tensor(shape=(1, count), datatype="BYTES", parameters={"binary_data_size": len(packed)})
            refused(infer(client, "text", {"inputs": [sized]}, packed), 400, "'x'")

    def test_bool_bytes_beyond_one(self, client):
        sized = tensor(shape=(1, 4), datatype="BOOL", parameters={"binary_data_size": 4})
        refused(infer(client, "flags", {"inputs": [sized]}, b"\0\1\2\1"), 400, "0 or 1")

    def test_shared_memory(self, client):
        shared = tensor(parameters={"shared_memory_region": "r0", "shared_memory_byte_size": 64})
        refused(ask(client, "identity", shared), 501, code="unsupported")

    def test_unknown_models(self, client):
        for path in ("nope/infer", "versions/versions/9/infer"):
            answer = client.post(f"/v2/models/{path}", json={"inputs": []})
            refused(answer, 404, code="model_unknown")
        refused(client.post("/v2/models/versions/versions/abc/infer"), 404, code="route_unknown")

    def test_model_that_is_not_ready(self, client, host, monkeypatch):
        monkeypatch.setattr(host.models.get("mlp"), "state", "loading")
        answer = ask(client, "mlp", tensor(shape=(1, 128), data=[0] * 128))
        refused(answer, 503, code="not_ready")
        assert answer.headers["retry-after"] == "1"

    def test_methods(self, client):
        for method in ("GET", "PUT", "OPTIONS", "DELETE"):
            answer = client.request(method, "/v2/models/identity/infer")
            refused(answer, 405, method, code="method_not_allowed")
            assert answer.headers["allow"] == "POST"

    def test_multipart(self, client):
        answer = client.post("/v2/models/identity/infer", files={"file": b"x"})
        assert "--data-binary" in refused(answer, 415, code="media_type_unsupported")["hint"]


class TestCompression:
    document = json.dumps({"inputs": [tensor(data=[1.5] * 16)]}).encode()

    def test_gzip_and_deflate(self, client):
        for encoding, body in (("gzip", gzip.compress(self.document)), ("deflate", zlib.compress(self.document))):
            answer = infer(client, "identity", body, headers={"Content-Encoding": encoding})
            assert answer.json()["outputs"][0]["data"] == [1.5] * 16

    def test_header_length_counts_what_comes_out(self, client):
        text = json.dumps({"inputs": [TestBinary.sized]}).encode()
        body = gzip.compress(text + TestBinary.x.tobytes())
        headers = {"Content-Encoding": "gzip", HEADER: str(len(text))}
        answer = infer(client, "identity", body, headers=headers)
        assert answer.json()["outputs"][0]["data"] == TestBinary.x.tolist()

    def test_refused(self, client):
        zipped = gzip.compress(self.document)
        for body in (self.document, zipped[:-3], zipped + b"x"):
            refused(infer(client, "identity", body, headers={"Content-Encoding": "gzip"}), 400)
        answer = infer(client, "identity", zipped, headers={"Content-Encoding": "br"})
        refused(answer, 501, "'br'", code="encoding_unsupported")
        assert answer.headers["accept-encoding"] == "gzip, deflate"
