"""What the host logs and traces, in Triton's words; changed while it runs, until it starts again."""

from collections.abc import Mapping
from typing import Any

from sandseal_host.api.grant import Grant
from sandseal_host.api.ports import Models
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.observe.logs import log_level, set_log_level
from sandseal_host.observe.observers import Observers

Settings = dict[str, Any]

_FIXED_LOGGING = {"log_file": "", "log_format": "default"}
_FIXED_TRACE = {"trace_count": "-1", "log_frequency": "0", "trace_file": "", "trace_mode": "opentelemetry"}
_OFF, _ON = ["OFF"], ["TIMESTAMPS"]


class Observation:
    """Triton's logging and trace settings: of the whole host, which its models have too.

    Whether a grant's scopes let it look or change is its faces' to check, as early as they can.

    Args:
        models: the models that can answer.
        observers: look at what was answered.
    """

    def __init__(self, models: Models, observers: Observers) -> None:
        self._models, self._observers = models, observers

    def logging(self) -> Settings:
        """What is logged."""
        return logging_settings(log_level())

    def set_logging(self, grant: Grant, wanted: Mapping[str, Any]) -> Settings:
        """Log more or less.

        Raises:
            NotPermitted: the grant does not reach all models.
            RequestInvalid, UnsupportedRequest: see `read_level`.
        """
        grant.need_all_models()
        set_log_level(read_level(wanted, log_level()))
        return logging_settings(log_level())

    def trace(self, grant: Grant, model: str = "") -> Settings:
        """What is traced, of a model where one is named.

        Raises:
            ModelUnknown, NotReady: the model cannot be looked at.
        """
        if model:
            grant.need_model(model)
            self._models.get(model, None)
        return trace_settings(self._observers.traced_share)

    def set_trace(self, grant: Grant, wanted: Mapping[str, Any], model: str = "") -> Settings:
        """Trace more or less.

        Raises:
            NotPermitted: the grant does not reach all models.
            RequestInvalid, UnsupportedRequest: see `read_share`; a model is named, and it is there for the grant.
        """
        if model:
            grant.need_model(model)
            raise UnsupportedRequest("models are traced alike", hint="change it for all of them: name no model")
        grant.need_all_models()
        self._observers.trace(read_share(wanted, self._observers.traced_share))
        return trace_settings(self._observers.traced_share)


def logging_settings(level: str) -> Settings:
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


def trace_settings(share: float | None) -> Settings:
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
