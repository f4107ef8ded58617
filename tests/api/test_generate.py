"""The generate extension on models that answer once; what Triton said to the same is in the comments."""

import json

import pytest

from api.test_faces import faces as faces
from api.test_faces import request
from sandseal_host.serving.request import BATCH


def ask(client, model, body, path="generate", **options):
    return client.post(f"/v2/models/{model}/{path}", content=json.dumps(body).encode(), **options)


@pytest.mark.parametrize(
    ("model", "body", "member"),
    [
        ("text", {"x": "hi"}, {"y": "hi"}),
        ("text", {"x": ["hi"]}, {"y": "hi"}),
        ("text", {"x": "hi", "id": "7"}, {"id": "7", "y": "hi"}),
        ("text", {"x": "hi", "id": 7}, {"id": "7", "y": "hi"}),
        ("text", {"x": ["a", "b"]}, {"y": ["a", "b"]}),
        ("text", {"x": [["a", "b"], ["c", "d"]]}, {"y": ["a", "b", "c", "d"]}),
        ("identity", {"x": list(range(16))}, {"y": [float(n) for n in range(16)]}),
        ("identity", {"x": list(range(32))}, {"y": [float(n) for n in range(32)]}),
        ("fixed", {"x": [1, 2, 3, 4, 5, 6]}, {"y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
        ("flags", {"x": [True, False, True, False]}, {"y": [True, False, True, False]}),
        ("pair", {"a": [1, 2, 3, 4], "b": [1, 1, 1, 1]}, {"d": [0.0, 1.0, 2.0, 3.0], "s": [2.0, 3.0, 4.0, 5.0]}),
    ],
)
def test_members_are_inputs_and_outputs(client, model, body, member):
    answer = ask(client, model, body)
    assert answer.status_code == 200
    assert answer.json() == {"model_name": model, "model_version": "1", **member}
    assert answer.headers["content-type"] == "application/json"
    assert "run;dur=" in answer.headers["server-timing"]


def test_a_version(client):
    x = list(range(16))
    assert ask(client, "versions", {"x": x}).json()["model_version"] == "3"
    assert client.post("/v2/models/versions/versions/1/generate", json={"x": x}).json()["model_version"] == "1"


def test_other_members_are_parameters(client, host):
    body = {"x": "hi", "temperature": 0.5, "parameters": {"priority": 3, "stream": False}}
    assert ask(client, "text", body).status_code == 200
    asked = host.models.get("text").requests[-1]
    assert asked.service_class is BATCH
    assert json.loads(asked.parameters) == {"temperature": 0.5, "stream": False}


def test_a_stream_has_the_one_answer(client):
    answer = ask(client, "text", {"x": "hi"}, "generate_stream")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text == 'data: {"model_name":"text","model_version":"1","y":"hi"}\n\n'


@pytest.mark.parametrize("path", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("model", "body", "status", "words"),
    [
        ("text", {}, 400, "lacks the inputs ['x']"),
        ("identity", {"x": [1, 2, 3]}, 400, "3 values"),
        ("fixed", {"x": [[1, 2, 3]]}, 400, "[1, 3]"),
        ("identity", {"x": "hi"}, 400, "values"),
        ("bytes8", {"x": "hi"}, 400, "a string"),
        ("text", {"x": {"a": 1}}, 400, "an object"),
        ("text", {"x": "hi", "z": [1]}, 400, "'z'"),
        ("text", {"x": "hi", "parameters": [1]}, 400, "'parameters'"),
        ("text", {"x": "hi", "triton_x": 1}, 400, "reserved"),
        ("nope", {"x": "hi"}, 404, "no model 'nope'"),
    ],
)
def test_refusals(client, path, model, body, status, words):
    answer = ask(client, model, body, path)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert answer.headers["content-type"] == "application/json"


def test_no_json_other_methods_and_strangers(client):
    assert client.post("/v2/models/text/generate", content=b"{").status_code == 400
    answer = client.get("/v2/models/text/generate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert ask(client, "text", {"x": "hi"}, headers={"Authorization": "Bearer publisher"}).status_code == 403
    assert ask(client, "text", {"x": "hi"}, headers={"Authorization": "Bearer narrow"}).status_code == 404


@pytest.mark.parametrize("path", [b"generate", b"generate_stream"])
def test_both_faces_answer_alike(faces, path):
    target = b"/v2/models/text/" + path
    (answer,) = faces.compare(request(b'{"x":"hi"}', target=target))
    assert b'"y":"hi"}' in answer
    faces.compare(request(b"{}", target=target), request(b'{"x":"hi"}', target=target, version=b"1.0"))
