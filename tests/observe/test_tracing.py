"""Traces: one span for a request, one for each stage in it, and the caller's trace goes on."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra 'traces'")

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sandseal_host.observe.finished import Finished
from sandseal_host.observe.tracing import Tracer
from support.finished import finished

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def trace(exporter):
    def run(one: Finished, share: float = 1.0):
        tracer = Tracer(SimpleSpanProcessor(exporter), share)
        tracer(one)
        tracer.close()
        return {span.name: span for span in exporter.get_finished_spans()}

    return run


def test_a_span_for_the_request_and_for_each_stage(trace):
    spans = trace(finished(timings={"pre": 0.01, "queue": 0.02, "run": 0.03, "post": 0.04}))
    assert list(spans) == ["pre", "queue", "run", "post", "request"]
    request = spans.pop("request")
    assert request.kind is SpanKind.SERVER
    assert request.parent is None
    assert {span.parent.span_id for span in spans.values()} == {request.context.span_id}
    assert {span.context.trace_id for span in spans.values()} == {request.context.trace_id}


def test_times_are_those_of_the_request(trace):
    spans = trace(finished(seconds=0.5, decoded=0.1, timings={"queue": 0.1, "run": 0.2}))
    request, queue, run = spans["request"], spans["queue"], spans["run"]
    milliseconds = [
        round((at - request.start_time) / 1e6)
        for at in (queue.start_time, queue.end_time, run.start_time, run.end_time, request.end_time)
    ]
    assert milliseconds == [100, 200, 200, 400, 500]


def test_says_what_became_of_it(trace):
    request = trace(finished(status=503, verdict="queue_full", tenant="acme"))["request"]
    assert request.attributes["sandseal.verdict"] == "queue_full"
    assert request.attributes["sandseal.tenant"] == "acme"
    assert request.attributes["http.response.status_code"] == 503
    assert request.status.status_code is StatusCode.ERROR


def test_what_a_client_did_wrong_is_no_error_of_the_host(trace):
    assert trace(finished(status=400, verdict="request_invalid"))["request"].status.status_code is StatusCode.UNSET


def test_goes_on_with_the_callers_trace(trace):
    request = trace(finished(traceparent=f"00-{TRACE}-{CALLER}-01"), share=0.0)["request"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == CALLER
    assert request.parent.is_remote


@pytest.mark.parametrize("flags", ["00", "02"])
def test_what_the_caller_does_not_trace_is_not_traced(trace, flags):
    assert trace(finished(traceparent=f"00-{TRACE}-{CALLER}-{flags}")) == {}


@pytest.mark.parametrize("header", ["", "x", "00-0-0-01", f"00-{TRACE}-{CALLER}", f"ff-{TRACE}-{CALLER}-01"])
def test_a_header_that_is_none_begins_a_trace(trace, header):
    assert trace(finished(traceparent=header))["request"].parent is None


def test_the_share_may_change(exporter):
    tracer = Tracer(SimpleSpanProcessor(exporter), 0.0)
    tracer(finished())
    tracer.share = 1.0
    tracer(finished(request_id="later"))
    assert tracer.share == 1.0
    tracer.close()
    assert [s.attributes["sandseal.request_id"] for s in exporter.get_finished_spans() if s.name == "request"] == [
        "later"
    ]


def test_the_share_that_is_traced(trace):
    assert trace(finished(), share=0.0) == {}
