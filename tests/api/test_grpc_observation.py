"""Logging and trace settings over gRPC, with Triton's own client: what they say is REST's (test_observation.py)."""

import logging
from collections.abc import Iterator

import pytest

from api.over_grpc import Served
from sandseal_host.observe.logs import log_level, set_log_level
from sandseal_host.observe.observers import Observers
from sandseal_host.settings import Settings

triton = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
pytest.importorskip("opentelemetry.sdk", reason="needs the extra 'traces'")

TOKEN = {"authorization": "Bearer root"}
LOGGING = {
    "log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
    "log_format": "default",
}  # fmt: skip
TRACE = {
    "trace_level": ["TIMESTAMPS"], "trace_rate": ["1000"], "trace_count": ["-1"], "log_frequency": ["0"],
    "trace_file": [""], "trace_mode": ["opentelemetry"],
}  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    observers = Observers(Settings(traces_url="http://127.0.0.1:9/v1/traces", traces_share=0.001))
    served = Served(observers=observers)
    yield served
    served.close()
    observers.close()


@pytest.fixture
def client(served) -> Iterator["triton.InferenceServerClient"]:
    before = logging.getLogger().level
    set_log_level("info")
    served.host.observers.trace(0.001)
    with triton.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        yield client
    logging.getLogger().setLevel(before)


def logged(answer):
    return {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in answer.settings.items()}


def traced(answer):
    return {name: list(value.value) for name, value in answer.settings.items()}


def test_what_is_logged(client):
    assert logged(client.get_log_settings(headers=TOKEN)) == LOGGING
    more = client.update_log_settings({"log_verbose_level": 1, "log_file": ""}, headers=TOKEN)
    assert logged(more) == LOGGING | {"log_verbose_level": 1}
    assert log_level() == "debug"
    assert logged(client.update_log_settings({"log_warning": False}, headers=TOKEN))["log_info"] is False
    assert log_level() == "error"


def test_what_is_traced(client, served):
    assert traced(client.get_trace_settings(headers=TOKEN)) == TRACE
    assert traced(client.get_trace_settings("mlp", headers=TOKEN)) == TRACE
    less = client.update_trace_settings(settings={"trace_rate": "500"}, headers=TOKEN)
    assert traced(less) == TRACE | {"trace_rate": ["500"]}
    assert served.host.observers.traced_share == 0.002
    off = client.update_trace_settings(settings={"trace_level": ["OFF"]}, headers=TOKEN)
    assert traced(off) == TRACE | {"trace_level": ["OFF"], "trace_rate": ["0"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"log_error": False}, "UNIMPLEMENTED.*errors are always logged"),
        ({"log_file": "/etc/x"}, "UNIMPLEMENTED.*log_file"),
        ({"colour": True}, "INVALID_ARGUMENT.*colour"),
        ({"log_info": None}, "INVALID_ARGUMENT.*log_info"),
    ],
)
def test_logging_that_is_refused(client, settings, words):
    with pytest.raises(triton.InferenceServerException, match=words):
        client.update_log_settings(settings, headers=TOKEN)
    assert log_level() == "info"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trace_level": ["TENSORS"]}, "UNIMPLEMENTED.*tensors"),
        ({"trace_count": "5"}, "UNIMPLEMENTED.*trace_count"),
        ({"trace_rate": ["1", "2"]}, "INVALID_ARGUMENT.*trace_rate.*one value"),
        ({"trace_rate": None}, "INVALID_ARGUMENT.*trace_rate.*one value"),
        ({"trace_level": None}, "UNIMPLEMENTED.*trace_level"),
        ({"colour": "red"}, "INVALID_ARGUMENT.*colour"),
    ],
)
def test_traces_that_are_refused(client, served, settings, words):
    with pytest.raises(triton.InferenceServerException, match=words):
        client.update_trace_settings(settings=settings, headers=TOKEN)
    assert served.host.observers.traced_share == 0.001


def test_models_have_none_of_their_own(client):
    with pytest.raises(triton.InferenceServerException, match=r"UNIMPLEMENTED.*traced alike"):
        client.update_trace_settings("mlp", settings={"trace_rate": "5"}, headers=TOKEN)
    with pytest.raises(triton.InferenceServerException, match="NOT_FOUND"):
        client.get_trace_settings("none", headers=TOKEN)


def test_who_may_and_that_acts_are_audited(client, caplog):
    auditor, caller, narrow = ({"authorization": f"Bearer {name}"} for name in ("auditor", "caller", "narrow"))
    caplog.set_level(logging.INFO, "sandseal.audit")
    for look, change in (
        (client.get_log_settings, lambda **who: client.update_log_settings({"log_info": True}, **who)),
        (client.get_trace_settings, lambda **who: client.update_trace_settings(settings={"trace_rate": "5"}, **who)),
    ):
        for headers in (auditor, narrow):
            look(headers=headers)
            with pytest.raises(triton.InferenceServerException, match="PERMISSION_DENIED"):
                change(headers=headers)
        with pytest.raises(triton.InferenceServerException, match="PERMISSION_DENIED"):
            look(headers=caller)
        change(headers=TOKEN)
    told = [(r.getMessage(), r.token, r.outcome) for r in caplog.records if r.name == "sandseal.audit"]
    tokens = (("auditor", "not_permitted"), ("narrow", "not_permitted"), ("root", "OK"))
    assert told == [(f"gRPC {act}", *who) for act in ("log settings", "trace setting") for who in tokens]
