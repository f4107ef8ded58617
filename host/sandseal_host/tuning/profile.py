"""A recorded profile as a file: `sandseal record` writes it, `sandseal tune` reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from sandseal_host.errors import SettingsInvalid
from sandseal_host.serving.recording import MAX_ARRIVALS, Arrival
from sandseal_host.serving.request import CLASSES
from sandseal_signing.schema import Node

SCHEMA = "sandseal.profile/1"

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What one model was asked.

    Args:
        model: its name.
        seconds: how long was recorded.
        arrivals: in the order in which they came.
    """

    model: str
    seconds: float
    arrivals: tuple[Arrival, ...]


def read_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        SettingsInvalid: it cannot be read, or is none.
    """
    try:
        root = Node(orjson.loads(path.read_bytes()), "", SettingsInvalid)
    except (OSError, orjson.JSONDecodeError) as error:
        raise SettingsInvalid(f"cannot read the profile {path}: {error}", hint="`sandseal record` writes one") from None
    root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
    name, seconds = root.text("model"), root.number("seconds", low=0, high=1e6)
    root.integer("version")
    shapes = [_shapes(root, given) for given in _list(root, "shapes")]
    arrivals = tuple(_arrival(root, given, shapes) for given in _list(root, "arrivals"))
    root.close()
    if not arrivals:
        raise SettingsInvalid(
            f"the profile {path} holds no arrivals: nothing was asked while it was recorded",
            hint="record again while the model is asked, or for longer",
        )
    return Profile(name, seconds, arrivals)


def _list(root: Node, name: str) -> list[Any]:
    given = root.take(name)
    if not isinstance(given, list) or len(given) > MAX_ARRIVALS:
        root.fail(name, f"must be a list of at most {MAX_ARRIVALS}")
    return given


def _shapes(root: Node, given: Any) -> Shapes:
    if not isinstance(given, list) or not all(isinstance(shape, list) and all(map(_is_size, shape)) for shape in given):
        root.fail("shapes", f"must hold a list of shapes for each kind of request, not {given!r:.60}")
    return tuple(map(tuple, given))


def _arrival(root: Node, given: Any, shapes: Sequence[Shapes]) -> Arrival:
    match given:
        case [int(micros), str(name), int(kind)] if micros >= 0 and name in CLASSES and 0 <= kind < len(shapes):
            arrival = Arrival(micros / 1e6, name, shapes[kind])
        case _:
            root.fail("arrivals", f"must hold [microseconds, class, which of the shapes], not {given!r:.60}")
    return arrival


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31
