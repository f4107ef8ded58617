"""Triton's logging and trace settings: what the host logs and traces, changed while it runs, until it starts again."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Request

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import DOCUMENT_BODY, read_document
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import Models
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.observe.logs import log_level, set_log_level
from sandseal_host.observe.observers import Observers
from sandseal_host.registry.tokens import Scope

_FIXED_LOGGING = {"log_file": "", "log_format": "default"}
_FIXED_TRACE = {"trace_count": "-1", "log_frequency": "0", "trace_file": "", "trace_mode": "opentelemetry"}
_OFF, _ON = ["OFF"], ["TIMESTAMPS"]


def add_observation_routes(control: FastAPI, models: Models, observers: Observers, door: Doorkeeper) -> None:
    """Add /v2/logging and /v2/trace/setting, for operators of all models; auditors may look; models have the host's."""
    readers, operator = permit(door, Scope.AUDIT, Scope.OPERATE), permit(door, Scope.OPERATE)

    @control.get("/v2/logging", summary="What is logged")
    async def logging(_: Annotated[Grant, readers]) -> dict[str, Any]:
        return logging_settings(log_level())

    @control.post("/v2/logging", summary="Log more or less", openapi_extra=DOCUMENT_BODY)
    async def set_logging(request: Request, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        grant.need_all_models()
        set_log_level(read_level(await read_document(request), log_level()))
        return logging_settings(log_level())

    @control.get("/v2/trace/setting", summary="What is traced")
    async def trace(_: Annotated[Grant, readers]) -> dict[str, Any]:
        return trace_settings(observers.traced_share)

    @control.post("/v2/trace/setting", summary="Trace more or less", openapi_extra=DOCUMENT_BODY)
    async def set_trace(request: Request, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        grant.need_all_models()
        observers.trace(read_share(await read_document(request), observers.traced_share))
        return trace_settings(observers.traced_share)

    @control.get("/v2/models/{model}/trace/setting", summary="What is traced of a model")
    async def model_trace(model: str, grant: Annotated[Grant, readers]) -> dict[str, Any]:
        grant.need_model(model)
        models.get(model, None)
        return trace_settings(observers.traced_share)

    @control.post("/v2/models/{model}/trace/setting", summary="No model has trace settings of its own")
    async def set_model_trace(model: str, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        grant.need_model(model)
        raise UnsupportedRequest("models are traced alike", hint="POST /v2/trace/setting changes it for all of them")


def logging_settings(level: str) -> dict[str, Any]:
    """A level in Triton's words."""
    at = ("error", "warning", "info", "debug").index(level)
    shown = {"log_info": at >= 2, "log_warning": at >= 1, "log_error": True, "log_verbose_level": int(at >= 3)}
    return {"log_file": "", **shown, "log_format": "default"}


def read_level(wanted: Mapping[str, Any], level: str) -> str:
    """The level that some of these settings, over those of the present one, come to: the least that nothing hides.

    Raises:
        RequestInvalid: an unknown setting, or a value of the wrong type.
        UnsupportedRequest: no errors, a file, or another format.
    """
    settings = _changed(logging_settings(level), wanted, _FIXED_LOGGING)
    if not settings["log_error"]:
        raise UnsupportedRequest("errors are always logged")
    if not settings["log_warning"]:
        return "error"
    if not settings["log_info"]:
        return "warning"
    return "debug" if settings["log_verbose_level"] > 0 else "info"


def trace_settings(share: float | None) -> dict[str, Any]:
    """The part of the requests that are traced, in Triton's words; None where traces are sent nowhere."""
    rate = round(1 / share) if share else 0
    return {"trace_level": _ON if share else _OFF, "trace_rate": str(rate), **_FIXED_TRACE}


def read_share(wanted: Mapping[str, Any], share: float | None) -> float:
    """The part that some of these settings, over the present ones, come to.

    Raises:
        RequestInvalid: an unknown setting, or a value that it does not take.
        UnsupportedRequest: what this host does not trace, or traces are sent nowhere.
    """
    settings = _changed(trace_settings(share), wanted, _FIXED_TRACE)
    level, rate = settings["trace_level"], settings["trace_rate"]
    if level not in (_OFF, _ON):
        raise UnsupportedRequest(f"trace_level is {_OFF} or {_ON} here: tensors are not traced")
    if not (rate.isascii() and rate.isdigit() and len(rate) < 10):
        raise RequestInvalid("trace_rate is one request in so many, as digits", setting="trace_rate")
    if share is None:
        raise UnsupportedRequest("traces are sent nowhere", hint="ask the operator to set SANDSEAL_TRACES_URL")
    if level == _OFF and "trace_level" in wanted:
        return 0.0
    return 1 / int(rate) if int(rate) else float("trace_level" in wanted)


def _changed(settings: Mapping[str, Any], wanted: Mapping[str, Any], fixed: Mapping[str, str]) -> Mapping[str, Any]:
    for name, value in wanted.items():
        if name not in settings:
            raise RequestInvalid(
                f"there is no setting {name[:80]!r}", hint=f"there are {', '.join(settings)}", setting=name
            )
        if type(value) is not type(settings[name]):
            kind = type(settings[name]).__name__
            raise RequestInvalid(f"setting {name!r} takes a value of type {kind}", setting=name)
        if name in fixed and value != fixed[name]:
            raise UnsupportedRequest(f"setting {name!r} is always {fixed[name]!r} here", setting=name)
    return {**settings, **wanted}
