"""Triton's logging and trace settings, and what they do to the host."""

import logging

import pytest

from api.double import HostDouble, ModelsDouble, mlp
from api.web import Web
from sandseal_host.observe.logs import log_level, set_log_level
from sandseal_host.observe.observers import Observers
from sandseal_host.settings import Settings

LOGGING, TRACE = "/v2/logging", "/v2/trace/setting"


@pytest.fixture(autouse=True)
def at_info():
    before = logging.getLogger().level
    set_log_level("info")
    yield
    logging.getLogger().setLevel(before)


@pytest.fixture
def traced():
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra 'traces'")
    observers = Observers(Settings(traces_url="http://127.0.0.1:9/v1/traces", traces_share=0.001))
    host = HostDouble(ModelsDouble(mlp()), observers=observers)
    with Web(host.app, "root") as client:
        yield client
    observers.close()


class TestLogging:
    def test_as_triton_shows_it(self, client):
        assert client.get(LOGGING).json() == {
            "log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
            "log_format": "default",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wanted", "level"),
        [
            ({}, "info"),
            ({"log_verbose_level": 1}, "debug"),
            ({"log_info": False}, "warning"),
            ({"log_info": False, "log_verbose_level": 2}, "warning"),
            ({"log_warning": False}, "error"),
            ({"log_file": "", "log_format": "default"}, "info"),
        ],
    )
    def test_levels(self, client, wanted, level):
        answer = client.post(LOGGING, json=wanted)
        assert answer.status_code == 200
        assert answer.json() == client.get(LOGGING).json()
        assert log_level() == level

    def test_back_again(self, client):
        client.post(LOGGING, json={"log_verbose_level": 1})
        client.post(LOGGING, json={"log_verbose_level": 0})
        assert log_level() == "info"

    @pytest.mark.parametrize(
        ("wanted", "status"),
        [
            ({"log_info": "yes"}, 400),
            ({"log_verbose_level": True}, 400),
            ({"colour": True}, 400),
            ({"log_error": False}, 501),
            ({"log_file": "/etc/x"}, 501),
            ({"log_format": "ISO8601"}, 501),
        ],
    )
    def test_refusals_change_nothing(self, client, wanted, status):
        assert client.post(LOGGING, json={"log_verbose_level": 1} | wanted).status_code == status
        assert log_level() == "info"


class TestTraces:
    def test_as_triton_shows_them(self, client, traced):
        off, on = client.get(TRACE).json(), traced.get(TRACE).json()
        assert off == {
            "trace_level": ["OFF"], "trace_rate": "0", "trace_count": "-1", "log_frequency": "0", "trace_file": "",
            "trace_mode": "opentelemetry",
        }  # fmt: skip
        assert on == off | {"trace_level": ["TIMESTAMPS"], "trace_rate": "1000"}
        assert traced.get("/v2/models/mlp/trace/setting").json() == on

    @pytest.mark.parametrize(
        ("wanted", "share"),
        [
            ({}, 0.001),
            ({"trace_rate": "500"}, 0.002),
            ({"trace_rate": "0"}, 0),
            ({"trace_level": ["OFF"]}, 0),
            ({"trace_level": ["OFF"], "trace_rate": "5"}, 0),
            ({"trace_level": ["TIMESTAMPS"]}, 0.001),
            ({"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}, 1),
        ],
    )
    def test_the_rate_is_the_share_that_is_traced(self, traced, wanted, share):
        answer = traced.post(TRACE, json=wanted)
        assert answer.status_code == 200
        assert answer.json() == traced.get(TRACE).json()
        rate = int(answer.json()["trace_rate"])
        assert (1 / rate if rate else 0) == share

    def test_on_again(self, traced):
        traced.post(TRACE, json={"trace_level": ["OFF"]})
        assert traced.post(TRACE, json={"trace_level": ["TIMESTAMPS"]}).json()["trace_rate"] == "1"

    @pytest.mark.parametrize(
        ("wanted", "status"),
        [
            ({"trace_rate": 500}, 400),
            ({"trace_rate": "-1"}, 400),
            ({"colour": "red"}, 400),
            ({"trace_level": ["TENSORS"]}, 501),
            ({"trace_count": "5"}, 501),
            ({"trace_file": "x"}, 501),
        ],
    )
    def test_refusals(self, traced, wanted, status):
        assert traced.post(TRACE, json=wanted).status_code == status
        assert traced.get(TRACE).json()["trace_rate"] == "1000"

    def test_where_traces_are_sent_nowhere(self, client):
        answer = client.post(TRACE, json={"trace_rate": "5"})
        assert answer.status_code == 501
        assert "SANDSEAL_TRACES_URL" in answer.json()["hint"]

    def test_models_have_none_of_their_own(self, traced):
        assert traced.post("/v2/models/mlp/trace/setting", json={"trace_rate": "5"}).status_code == 501
        assert traced.get("/v2/models/none/trace/setting").status_code == 404


def test_who_may(host):
    with Web(host.app, "auditor") as auditor, Web(host.app, "caller") as caller, Web(host.app, "narrow") as narrow:
        for path in (LOGGING, TRACE):
            assert auditor.get(path).status_code == 200
            assert auditor.post(path, json={}).status_code == 403
            assert caller.get(path).status_code == 403
            assert narrow.get(path).status_code == 200
            refused = narrow.post(path, json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
            assert "all models" in refused.json()["error"]
        assert narrow.get("/v2/models/identity/trace/setting").status_code == 404
