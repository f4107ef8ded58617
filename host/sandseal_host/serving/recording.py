"""When requests arrive at a lane, and in which shapes; never what they hold, or whose they are."""

from dataclasses import dataclass

from sandseal_host.serving.request import Request

MAX_ARRIVALS = 200_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request.

    Args:
        at_s: seconds since the recording began.
        service_class: its class's name.
        shapes: of the model's inputs, in their order.
    """

    at_s: float
    service_class: str
    shapes: tuple[tuple[int, ...], ...]


class Recording:
    """The arrivals since it began, 200,000 at most.

    Args:
        began: seconds on the monotonic clock.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self.arrivals: list[Arrival] = []

    def note(self, request: Request, now: float) -> None:
        """Take down a request; does nothing when the recording is full."""
        if len(self.arrivals) < MAX_ARRIVALS:
            shapes = tuple(tensor.shape for tensor in request.inputs)
            self.arrivals.append(Arrival(now - self._began, request.service_class.name, shapes))
