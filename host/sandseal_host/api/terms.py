"""What a request says about itself: how urgent it is, how long it may take, what its plugins should know."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sandseal_host.errors import PrecisionUnavailable, RequestInvalid
from sandseal_host.serving.request import CLASSES, ServiceClass, Step
from sandseal_signing.receipt import is_nonce
from sandseal_signing.variants import Precision

_LEVELS = {c.level: c for c in CLASSES.values()}
_CONSUMED = frozenset({"priority", "timeout", "binary_data_output"}) | {
    f"sandseal.{own}" for own in ("class", "receipt", "min_precision")
}
_MAX_SEQUENCE_ID = 128  # characters
_SCALARS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a request wants to be served.

    Args:
        service_class: decides urgency.
        timeout_s: seconds after which nobody wants the answer; infinite when the request does not say.
        parameters: what is left of the request's parameters, as UTF-8 JSON for the plugins.
        nonce: what its receipt repeats; None when none is asked for.
        step: where in its sequence it stands; None when it names none.
        floor: the coarsest precision that may answer; None for any.
    """

    service_class: ServiceClass
    timeout_s: float = math.inf
    parameters: bytes = b"{}"
    nonce: str | None = None
    step: Step | None = None
    floor: Precision | None = None

    def check(self, precision: Precision | None) -> None:
        """See that a model may answer; one without variants counts as FP32.

        Raises:
            PrecisionUnavailable: it is served in a coarser precision than was asked for.
        """
        served = precision or Precision.FP32
        if self.floor is not None and not served.reaches(self.floor):
            raise PrecisionUnavailable(
                f"the model is served in {served}, coarser than {self.floor}", served=served, floor=self.floor
            )


def read_terms(parameters: Mapping[str, Any], default: Terms) -> Terms:
    """Read the parameters of the protocol (`priority`, `timeout` in microseconds, `sequence_id`) and our own.

    Whatever they do not say is as in `default`. `priority` 0 and levels that no class has mean the default, as they do
    to Triton; `sandseal.class` wins over it.

    Raises:
        RequestInvalid: a value of the wrong type or range, or a reserved name.
    """
    if not parameters or (len(parameters) == 1 and "binary_data_output" in parameters):
        return default
    priority, timeout = _unsigned(parameters, "priority"), _unsigned(parameters, "timeout")
    own = {name: value for name, value in parameters.items() if name not in _CONSUMED}
    for name, value in own.items():
        _check_own(name, value)
    return Terms(
        _class(parameters, _LEVELS.get(priority, default.service_class)),
        timeout / 1e6 if timeout else math.inf,
        orjson.dumps(own),
        _nonce(parameters),
        _step(parameters) if "sequence_id" in parameters else None,
        _floor(parameters),
    )


def check_nonce(nonce: str) -> str:
    """The nonce, if a receipt can repeat it.

    Raises:
        RequestInvalid: it cannot.
    """
    if not is_nonce(nonce):
        raise RequestInvalid("a receipt's nonce has at most 128 visible ASCII characters")
    return nonce


def _unsigned(parameters: Mapping[str, Any], name: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value < 2**64:
        raise RequestInvalid(f"parameter {name!r} must be an integer of 0 or more, of 64 bits", parameter=name)
    return value


def _class(parameters: Mapping[str, Any], default: ServiceClass) -> ServiceClass:
    name = parameters.get("sandseal.class")
    if name is None:
        return default
    if type(name) is not str or name not in CLASSES:
        raise RequestInvalid(f"parameter 'sandseal.class' must be one of {list(CLASSES)}", classes=list(CLASSES))
    return CLASSES[name]


def _floor(parameters: Mapping[str, Any]) -> Precision | None:
    name = parameters.get("sandseal.min_precision")
    if name is None:
        return None
    if type(name) is not str or name not in Precision.__members__:
        raise RequestInvalid(f"parameter 'sandseal.min_precision' must be one of {', '.join(Precision)}")
    return Precision(name)


def _nonce(parameters: Mapping[str, Any]) -> str | None:
    match parameters.get("sandseal.receipt"):
        case None | False:
            return None
        case True:
            return ""
        case str(nonce):
            return check_nonce(nonce)
    raise RequestInvalid("parameter 'sandseal.receipt' must be a nonce, true or false", parameter="sandseal.receipt")


def _step(parameters: Mapping[str, Any]) -> Step | None:
    """Where in its sequence a request stands; 0 and an empty text name none, as to Triton."""
    name = parameters["sequence_id"]
    if not (type(name) is str and len(name) <= _MAX_SEQUENCE_ID):
        name = _unsigned(parameters, "sequence_id") or ""
    flags = [parameters.get(flag, False) for flag in ("sequence_start", "sequence_end")]
    if any(type(flag) is not bool for flag in flags):
        raise RequestInvalid("parameters 'sequence_start' and 'sequence_end' must be true or false")
    return Step(str(name), *flags) if name else None


def _check_own(name: str, value: Any) -> None:
    if type(value) not in _SCALARS:
        raise RequestInvalid(f"parameter {name[:80]!r} must be a number, a boolean or a string", parameter=name[:80])
    if type(value) is float and not math.isfinite(value):  # which plugins' JSON cannot say
        raise RequestInvalid(f"parameter {name[:80]!r} is no finite number", parameter=name[:80])
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise RequestInvalid(f"parameter {name[:80]!r} is an integer of over 64 bits", parameter=name[:80])
    if name.startswith(("triton_", "sandseal.")):
        raise RequestInvalid(f"parameter {name[:80]!r} has a reserved prefix", parameter=name[:80])
