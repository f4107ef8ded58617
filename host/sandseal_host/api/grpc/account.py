"""What an inference over gRPC is counted as, and what is told of it."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from grpc.aio import ServicerContext

from sandseal_host.api.account import account, verdict
from sandseal_host.api.prepared import Prepared
from sandseal_host.api.problems import status_of
from sandseal_host.api.response_encoder import server_timing
from sandseal_host.api.visit import Edge
from sandseal_host.errors import ClientGone
from sandseal_signing.errors import SandsealError


class CallAccount:
    """One inference's, from its arrival on.

    Args:
        edge: what all share.
        tenant: of whoever asks.
        prepared: of the model that is asked; changed where another takes its place.
    """

    def __init__(self, edge: Edge, tenant: str, prepared: Prepared) -> None:
        self._edge, self._tenant, self.prepared = edge, tenant, prepared
        self.arrived = self.asked = monotonic()
        self.service_class = edge.default_class
        self.timings: Mapping[str, float] = {}

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What is said beside an answer, as REST has it in headers: who made it, and how long each stage took."""
        return ("sandseal-bundle", self.prepared.bundle), ("server-timing", server_timing(self.timings).decode())

    @contextmanager
    def kept(self, context: ServicerContext, own_id: str) -> Iterator[None]:
        """Count and tell how what is done meanwhile ends.

        Args:
            context: the call's.
            own_id: what the message calls the request.
        """
        status, came_to = 500, "internal"
        try:
            yield
            status, came_to = 200, "ok"
        except SandsealError as error:
            status, came_to = status_of(type(error)), verdict(error)
            raise
        except asyncio.CancelledError:
            status, came_to = 499, ClientGone.code
            raise
        finally:
            ended, decode_s = monotonic(), self.timings.get("decode", 0.0)
            self.prepared.meter.count(status, self.service_class, self._tenant, ended - self.arrived, decode_s)
            if self._edge.observer is not None:
                told = account(
                    self.prepared, headers_of(context), own_id,
                    arrived=self.arrived, asked=self.asked, ended=ended, status=status, verdict=came_to,
                    service_class=self.service_class, tenant=self._tenant, timings=self.timings,
                )  # fmt: skip
                self._edge.observer(told)


def headers_of(context: ServicerContext) -> dict[bytes, bytes]:
    """A call's metadata, as HTTP has headers."""
    metadata = context.invocation_metadata() or ()
    return {name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in metadata}
