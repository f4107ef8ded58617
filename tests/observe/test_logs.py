"""Logs: one line an event, whoever logs it."""

import io
import json
import logging

import pytest
import structlog

from sandseal_host.observe.logs import configure_logging, get_logger, log_level, set_log_level


@pytest.fixture
def stream():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_from_both_kinds_of_logger(stream):
    configure_logging(json=True, stream=stream)
    get_logger("sandseal.a").info("loaded", model="m", version=3)
    logging.getLogger("other").warning("it is %s", "late", extra={"model": "m"})
    ours, theirs = lines(stream)
    assert {k: ours[k] for k in ("event", "model", "version", "level", "logger")} == {
        "event": "loaded", "model": "m", "version": 3, "level": "info", "logger": "sandseal.a",
    }  # fmt: skip
    assert theirs["event"] == "it is late"
    assert theirs["model"] == "m"
    assert theirs["timestamp"].endswith("Z")


def test_level(stream):
    configure_logging(json=True, level="warning", stream=stream)
    get_logger("a").info("quiet")
    get_logger("a").error("loud")
    logging.getLogger("b").info("quiet")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_acts_and_requests_are_written_at_any_level(stream):
    configure_logging(json=True, level="error", stream=stream)
    get_logger("sandseal.requests").info("request")
    logging.getLogger("sandseal.audit").info("act")
    assert [line["event"] for line in lines(stream)] == ["request", "act"]


@pytest.mark.parametrize("as_json", [True, False])
def test_tracebacks_show_no_local_variables(stream, as_json):
    configure_logging(json=as_json, stream=stream)
    secret = "sst_" + "top-secret"
    try:
        raise RuntimeError(f"broken {len(secret)}")
    except RuntimeError as error:
        get_logger("a").error("unexpected", incident="abc", exc_info=error)
    written = stream.getvalue()
    assert "RuntimeError: broken 14" in written
    assert "abc" in written
    assert "top-secret" not in written.replace('"sst_" + "top-secret"', "").replace('\\"sst_\\" + \\"top-secret\\"', "")


def test_the_level_changes_while_the_host_runs(stream):
    configure_logging(json=True, stream=stream)
    ours, theirs, chatty = get_logger("sandseal.a"), logging.getLogger("b"), logging.getLogger("httpx")
    for level in ("info", "debug", "error", "info"):
        set_log_level(level)
        assert log_level() == level
        for name, logger in (("ours", ours), ("theirs", theirs), ("chatty", chatty)):
            logger.debug(f"{name} at {level}")
            logger.info(f"{name} at {level}")
    written = [(line["event"], line["level"]) for line in lines(stream)]
    at_debug = [(f"{name} at debug", level) for name in ("ours", "theirs", "chatty") for level in ("debug", "info")]
    at_info = [("ours at info", "info"), ("theirs at info", "info")]
    assert written == [*at_info, *at_debug, *at_info]
