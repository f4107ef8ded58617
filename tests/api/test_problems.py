"""The problem table: complete, and one shape for all."""

import html
import importlib
import json
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest

import sandseal_host
import sandseal_signing
from sandseal_host.api.errors import EncodingUnsupported, MethodWrong
from sandseal_host.api.problems import STATUS, problem, status_of
from sandseal_host.errors import ClientError, HostError, NotAuthenticated, QueueFull, RequestInvalid
from sandseal_signing.errors import SandsealError


def leaves(kind: type[SandsealError]) -> Iterator[type[SandsealError]]:
    below = kind.__subclasses__()
    if not below:
        yield kind
    for child in below:
        yield from leaves(child)


def test_every_error_of_the_host_is_in_the_table():
    for package in (sandseal_signing, sandseal_host):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if module.name.endswith("errors"):
                importlib.import_module(module.name)
    ours = [leaf for leaf in leaves(SandsealError) if leaf.__module__.startswith(("sandseal_signing", "sandseal_host"))]
    assert len(ours) > 40
    assert [leaf.__name__ for leaf in ours if STATUS.keys().isdisjoint(leaf.__mro__)] == []


def test_codes_tell_errors_apart():
    groups = [kind for kind in STATUS if kind.__subclasses__()]
    codes = [kind.code for kind in STATUS if kind not in groups]
    assert len(set(codes)) == len(codes)


def test_validation_is_never_422():
    assert 422 not in STATUS.values()
    assert STATUS[RequestInvalid] == 400


def test_a_class_that_is_not_listed_takes_its_ancestors_status():
    class Special(RequestInvalid):
        pass

    class Strange(HostError):
        pass

    assert status_of(Special) == 400
    assert status_of(Strange) == 500


def test_shape():
    answer = problem(RequestInvalid("it is wrong", hint="do better", tensor="x", got=[1, 2]))
    assert answer.headers == ((b"content-type", b"application/json"),)
    assert json.loads(answer.body) == {
        "error": "it is wrong",
        "code": "request_invalid",
        "hint": "do better",
        "type": "/problems/request_invalid",
        "tensor": "x",
        "got": [1, 2],
    }


def test_data_cannot_hide_the_error():
    error = ClientError("true", error="false", code="false")
    assert json.loads(problem(error).body) == {
        "error": "true", "code": "error", "hint": "", "type": "/problems/error",
    }  # fmt: skip


@pytest.mark.parametrize("fact", [2**70, b"\xff", np.int64(3), {1: 2}, {1, 2}, "\ud800", float("nan"), object()])
def test_any_fact_can_be_told(fact):
    assert json.loads(problem(RequestInvalid("x", fact=fact)).body)["error"] == "x"


def test_headers():
    assert (b"retry-after", b"2") in problem(QueueFull("full", retry_after=1.2)).headers
    assert (b"retry-after", b"1") in problem(QueueFull("full", retry_after=0.0)).headers
    assert (b"retry-after", b"86400") in problem(QueueFull("full", retry_after=float("inf"))).headers
    assert problem(NotAuthenticated("who")).headers[1][0] == b"www-authenticate"
    assert (b"allow", b"POST") in problem(MethodWrong("no", allow="POST")).headers
    assert problem(EncodingUnsupported("br")).headers[1] == (b"accept-encoding", b"gzip, deflate")


def test_every_code_has_a_page_that_its_type_leads_to(client):
    index = client.get("/problems").text
    for kind in STATUS:
        answer = problem(kind("x", allow="GET") if kind is MethodWrong else kind("x"))
        document = json.loads(answer.body)
        page = client.get(document["type"])
        assert page.status_code == 200, kind
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert f"its status is {answer.status}." in page.text
        assert html.escape(kind.hint) in page.text
        assert f'<a href="problems/{kind.code}">' in index


def test_no_page_for_what_is_no_code(client):
    answer = client.get("/problems/<script>")
    assert answer.status_code == 404
    assert answer.json()["code"] == "route_unknown"


def test_what_nobody_foresaw_is_told_by_its_incident():
    document = json.loads(problem(ZeroDivisionError("secret")).body)
    assert document["code"] == "internal"
    assert "secret" not in str(document)
    assert len(document["incident"]) == 32
