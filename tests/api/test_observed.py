"""What is told of each inference when it is over: ids, traces and verdicts, on either face and either plane."""

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
import structlog

from api.double import HostDouble, ModelsDouble, identity, mlp
from api.test_faces import Faces, request
from api.web import Web
from sandseal_host.observe.logs import configure_logging
from sandseal_host.observe.observers import Observers
from sandseal_host.settings import Settings
from support.finished import finished

ID = b"X-Request-Id: r-1"
JSON = b'{"id":"own","inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def faces() -> Iterator[Faces]:
    made = Faces()
    made.compare(request(JSON))
    yield made
    made.close()


@pytest.fixture
def lines():
    root = logging.getLogger()
    handlers, level, stream = root.handlers[:], root.level, io.StringIO()
    configure_logging(json=True, stream=stream)
    yield lambda: list(map(json.loads, stream.getvalue().splitlines()))
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def observed(**settings) -> HostDouble:
    return HostDouble(
        ModelsDouble(mlp(), identity("wide", "FP32", "batch", "n")), observers=Observers(Settings(**settings))
    )


class TestIds:
    def test_an_id_comes_back(self, faces):
        (answer,) = faces.compare(request(JSON, ID))
        assert b"\r\nx-request-id: r-1\r\n" in answer

    def test_with_what_is_refused_too(self, faces):
        nowhere = request(JSON, ID, target=b"/v2/models/nowhere/infer")
        for sent, status in ((request(b"{", ID), 400), (nowhere, 404), (request(JSON, ID, token=b""), 401)):
            (answer,) = faces.compare(sent)
            assert answer.startswith(b"HTTP/1.1 %d" % status)
            assert b"\r\nx-request-id: r-1\r\n" in answer

    @pytest.mark.parametrize("given", [b"", b"a b", b"a\xff", b"x" * 129])
    def test_what_is_no_id_does_not(self, faces, given):
        (answer,) = faces.compare(request(JSON, b"X-Request-Id: " + given))
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"x-request-id" not in answer

    def test_nothing_without_one(self, faces):
        assert b"x-request-id" not in faces.compare(request(JSON))[0]

    def test_on_the_control_plane(self, client):
        for path, status in (("/v1/bundles", 200), ("/v1/nothing", 404)):
            answer = client.get(path, headers={"Authorization": "Bearer root", "X-Request-Id": "r-2"})
            assert (answer.status_code, answer.headers["x-request-id"]) == (status, "r-2")


class TestLog:
    def test_a_line_says_who_asked_what_and_what_it_came_to(self, lines):
        host = observed(log_requests="all")
        with Web(host.app, "root") as client:
            headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
            assert client.post("/v2/models/wide/infer", content=JSON, headers=headers).status_code == 200
            assert client.post("/v2/models/wide/infer", content=b"{}").status_code == 400
        good, bad = [line for line in lines() if line["logger"] == "sandseal.requests"]
        facts = ("request_id", "trace_id", "tenant", "model", "version", "status", "verdict", "service_class")
        assert [good[fact] for fact in facts] == ["own", TRACE, "acme", "wide", 1, 200, "ok", "standard"]
        assert good["bundle"] == host.models.get("wide", None).bundle_id
        assert [bad[fact] for fact in ("request_id", "status", "verdict")] == ["", 400, "request_invalid"]

    def test_an_id_in_a_body_puts_nothing_on_a_terminal(self, lines):
        host = observed(log_requests="all")
        with Web(host.app, "root") as client:
            content = JSON.replace(b"own", b"a\\u001b]0;b\\n\\u2028c")
            assert client.post("/v2/models/wide/infer", content=content).status_code == 200
        assert lines()[-1]["request_id"] == "a]0;bc"

    def test_nobody_looks_unless_settings_say_so(self, lines):
        host = observed()
        assert host.app.endpoint.edge.observer is None
        with Web(host.app, "root") as client:
            assert client.post("/v2/models/wide/infer", content=JSON).status_code == 200
        assert lines() == []

    def test_an_act_on_the_control_plane_has_its_id(self, lines):
        with Web(observed().app, "root") as client:
            client.post("/v2/repository/models/wide/load", headers={"X-Request-Id": "r-3"})
        (line,) = [line for line in lines() if line["logger"] == "sandseal.audit"]
        assert line["request_id"] == "r-3"

    def test_an_observer_that_fails_harms_no_answer(self, lines):
        observers = Observers(Settings(log_requests="all"))
        observers._each.insert(0, lambda _: 1 / 0)
        host = HostDouble(ModelsDouble(identity("wide", "FP32", "batch", "n")), observers=observers)
        with Web(host.app, "root") as client:
            assert client.post("/v2/models/wide/infer", content=JSON).status_code == 200
        assert [line["event"] for line in lines()] == ["an inference could not be observed", "request"]


class TestProfiles:
    def test_are_listed_and_fetched_by_operators(self):
        host = observed(profile_slower_s=0.001)
        profiles = host.observers.profiles
        profiles(finished(seconds=0.5, request_id="r-4"))
        with Web(host.app, "root") as client:
            until = time.monotonic() + 20
            while not (listed := client.get("/v1/profiles").json())["profiles"]:
                assert time.monotonic() < until
            assert listed["threshold_s"] == 0.001
            (entry,) = listed["profiles"]
            assert (entry["model"], entry["request_id"]) == ("acme.double", "r-4")
            document = client.get(f"/v1/profiles/{entry['id']}").json()
            assert document["profiles"][0]["type"] == "sampled"
            assert client.get("/v1/profiles/99").status_code == 404
        host.observers.close()

    def test_of_models_that_a_token_may_not_see_are_not_there(self):
        host = observed(profile_slower_s=0.001)
        profiles = host.observers.profiles
        profiles(finished(seconds=0.5))
        until = time.monotonic() + 20
        while not profiles.profiles():
            assert time.monotonic() < until
        (kept,) = profiles.profiles()
        with Web(host.app, "narrow") as client:
            assert client.get("/v1/profiles").json()["profiles"] == []
            assert client.get(f"/v1/profiles/{kept.id}").status_code == 404
        host.observers.close()

    def test_none_where_it_is_off(self, client):
        answer = client.get("/v1/profiles", headers={"Authorization": "Bearer root"})
        assert answer.json() == {"threshold_s": None, "profiles": []}

    def test_need_an_operator(self, client):
        for path in ("/v1/profiles", "/v1/profiles/1"):
            assert client.get(path, headers={"Authorization": "Bearer auditor"}).status_code == 403
