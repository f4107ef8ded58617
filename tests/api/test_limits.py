"""What a body may make of the host, whatever its size."""

import gzip
import json

import pytest

from api.double import HostDouble, ModelsDouble, identity
from api.test_control import as_
from api.test_infer import refused, tensor
from api.web import Web
from sandseal_host.api.body import MAX_DOCUMENT_BYTES
from sandseal_host.api.json_document import load_object
from sandseal_host.api.settings import ApiSettings, JsonLimits
from sandseal_host.errors import RequestInvalid, TooLarge


@pytest.fixture(scope="module")
def client():
    settings = ApiSettings(json=JsonLimits(values=40, depth=8), max_ratio=100)
    models = ModelsDouble(identity("wide", "FP32", "batch", "n"), identity("text", "BYTES", "batch", "n"))
    with Web(HostDouble(models, settings).app, "root") as client:
        yield client


def infer(client, body, **headers):
    return client.post("/v2/models/wide/infer", content=body, headers=headers)


class TestJson:
    def test_values(self, client):
        few, many = (json.dumps({"inputs": [tensor(shape=(1, n), data=[1] * n)]}).encode() for n in (30, 40))
        assert infer(client, few).status_code == 200
        assert refused(infer(client, many), 413, code="too_large")["limit"] == 40

    def test_depth(self, client):
        def nested(depth: int) -> bytes:
            return b'{"inputs":[],"a":%b%b}' % (b"[" * depth, b"]" * depth)

        refused(infer(client, nested(7)), 400)
        assert refused(infer(client, nested(8)), 400, "nests deeper than 8")["limit"] == 8

    @pytest.mark.parametrize("value", ["[" * 99, "]" * 99, "{[" * 50 + "]}" * 50, '\\"' + "[" * 99])
    def test_brackets_in_strings_do_not_nest(self, value):
        assert load_object(json.dumps({"a": [value, {"b": value}]}).encode(), limits=JsonLimits(depth=4))

    @pytest.mark.parametrize("nested", [b"[[],[[],[[],[[],[]]]]]", b'{"a":{"b":{"c":{"d":{}}}}}', b'[[[[["]]]]]"'])
    def test_nesting_between_siblings(self, nested):
        with pytest.raises(RequestInvalid, match="nests deeper than 4"):
            load_object(b'{"a":%b}' % nested, limits=JsonLimits(depth=4))

    def test_the_hint_names_what_to_do(self):
        with pytest.raises(TooLarge) as refusal:
            load_object(b"[" + b"0," * 9 + b"0]", limits=JsonLimits(values=9))
        assert "binary" in str(refusal.value.hint)


def test_a_body_that_swells(client):
    document = {"inputs": [tensor(shape=(1, 1), data=[1])], "id": " " * (2 << 20)}
    body = gzip.compress(json.dumps(document).encode())
    refused(infer(client, body, **{"content-encoding": "gzip"}), 413, "when decompressed", code="too_large")


@pytest.mark.parametrize("path", ["/v1/tokens", "/v1/revocations", "/v1/trust/explain", "/v2/repository/index"])
def test_documents_of_the_control_plane(client, path):
    answer = client.post(path, content=b" " * (MAX_DOCUMENT_BYTES + 1))
    assert refused(answer, 413, code="too_large")["limit"] == MAX_DOCUMENT_BYTES


@pytest.mark.parametrize("path", ["/v2/models/wide/infer", "/v1/models/text/call", "/v1/bundles"])
def test_multipart_is_never_parsed(client, path):
    refused(client.post(path, files={"file": b"x"}), 415, code="media_type_unsupported")


@pytest.mark.parametrize("path", ["/v1/tokens", "/v1/trust/explain", "/v2/repository/index"])
def test_forms_are_no_documents(client, path):
    refused(client.post(path, data={"name": "x"}), 400)
    refused(client.post(path, files={"file": b"x"}, headers=as_("root")), 400)
