"""What a request says about itself: how urgent it is, how long it may take, what its plugins should know."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.request import CLASSES, ServiceClass
from sandseal_signing.receipt import is_nonce

_LEVELS = {c.level: c for c in CLASSES.values()}
_CONSUMED = frozenset({"priority", "timeout", "binary_data_output", "sandseal.class", "sandseal.receipt"})
_SCALARS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a request wants to be served.

    Args:
        service_class: decides urgency.
        timeout_s: seconds after which nobody wants the answer; infinite when the request does not say.
        parameters: what is left of the request's parameters, as UTF-8 JSON for the plugins.
        nonce: what its receipt repeats; None when none is asked for.
    """

    service_class: ServiceClass
    timeout_s: float = math.inf
    parameters: bytes = b"{}"
    nonce: str | None = None


def read_terms(parameters: Mapping[str, Any], default: Terms) -> Terms:
    """Read the parameters of the protocol (`priority`, `timeout` in microseconds) and our own (`sandseal.*`).

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


def _nonce(parameters: Mapping[str, Any]) -> str | None:
    match parameters.get("sandseal.receipt"):
        case None | False:
            return None
        case True:
            return ""
        case str(nonce):
            return check_nonce(nonce)
    raise RequestInvalid("parameter 'sandseal.receipt' must be a nonce, true or false", parameter="sandseal.receipt")


def _check_own(name: str, value: Any) -> None:
    if type(value) not in _SCALARS:
        raise RequestInvalid(f"parameter {name[:80]!r} must be a number, a boolean or a string", parameter=name[:80])
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise RequestInvalid(f"parameter {name[:80]!r} is an integer of over 64 bits", parameter=name[:80])
    if name.startswith(("triton_", "sandseal.")):
        raise RequestInvalid(f"parameter {name[:80]!r} has a reserved prefix", parameter=name[:80])
