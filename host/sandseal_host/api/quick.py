"""Inferences that wait for nothing before their model is asked."""

from sandseal_host.api.auth import Doorkeeper, token_key
from sandseal_host.api.exchange import check_size, read_size
from sandseal_host.api.forms import Headers, ProtocolForm
from sandseal_host.api.head import Head
from sandseal_host.api.routes import Action, Route
from sandseal_host.api.tls import Names
from sandseal_host.api.visit import QUICK_BYTES, Edge, Visit
from sandseal_signing.errors import SandsealError


class QuickPath:
    """Lets small inferences in whose tokens were seen a moment ago; of all others `Endpoint.answer` says what is wrong.

    Args:
        edge: what all inferences share.
        door: knows who asks.
        form: the protocol's.
    """

    def __init__(self, edge: Edge, door: Doorkeeper, form: ProtocolForm) -> None:
        self._edge, self._door, self._form = edge, door, form

    def read(self, route: Route, headers: Headers) -> Head | None:
        """What a head says; None for that of a request that cannot come this way."""
        size = read_size(headers)
        if route.action is not Action.INFER or size is None or size > QUICK_BYTES:
            return None
        if b"content-encoding" in headers or b"transfer-encoding" in headers:
            return None
        try:
            layout = self._form.layout(headers)
            check_size(size, layout.limit)
        except SandsealError:
            return None
        return Head(route, headers, token_key(headers.get(b"authorization")), size, layout)

    def enter(self, head: Head, certificate: Names) -> Visit | None:
        """The visit of a request; None for one that may not enter, or not without waiting."""
        grant = self._door.recall(head.token, certificate)
        if grant is None:
            return None
        try:
            return Visit(self._edge, head.route, head.headers, grant, self._form, head.layout)
        except SandsealError:
            return None
