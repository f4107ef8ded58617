"""The request log: one line an inference, with all that one looks for later."""

import io
import json
import logging

import pytest
import structlog

from sandseal_host.observe.logs import configure_logging
from sandseal_host.observe.request_log import RequestLog, trace_id
from support.finished import finished

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def lines():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(json=True, stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], root.level = before, level
    structlog.reset_defaults()


def test_a_line_has_the_request_and_what_became_of_it(lines):
    RequestLog(failures_only=False)(finished(request_id="r1", traceparent=f"00-{TRACE}-b7ad6b7169203331-01"))
    (line,) = lines()
    facts = ("event", "request_id", "trace_id", "tenant", "model", "version", "bundle", "status", "verdict", "run_ms")
    assert [line[fact] for fact in facts] == [
        "request", "r1", TRACE, "t", "acme.double", 3, "ab" * 32, 200, "ok", 2.0
    ]  # fmt: skip
    assert line["total_ms"] == 250.0


def test_failures_alone(lines):
    log = RequestLog(failures_only=True)
    log(finished())
    log(finished(status=503, verdict="queue_full", timings={}))
    assert [(line["status"], line["verdict"]) for line in lines()] == [(503, "queue_full")]


@pytest.mark.parametrize("header", ["", "x", f"00-{TRACE}", f"00-{TRACE[1:]}-b7ad6b7169203331-01"])
def test_no_trace(header):
    assert trace_id(header) == ""
