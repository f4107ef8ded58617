"""What heads of requests say, worked out once where a connection brings the same one again, as clients do."""

from typing import NamedTuple

from sandseal_host.api.forms import Headers, Layout
from sandseal_host.api.routes import Route

_END = b"\r\n\r\n"
_MAX_KNOWN, _MAX_BYTES = 8, 2048  # of each connection, of which there may be thousands


class Head(NamedTuple):
    """The head of an inference, as far as it says the same each time that it comes.

    Args:
        route: which model.
        headers: by lower-case name.
        token: what its token is known by, see `token_key`.
        size: bytes of its body.
        layout: of its body.
    """

    route: Route
    headers: Headers
    token: bytes | None
    size: int
    layout: Layout


class Heads:
    """The heads that came on one connection, by their bytes; they are forgotten with it, and with them its token."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def find(self, data: bytes) -> tuple[Head | None, bytes]:
        """The head and the body of a request that is just this data; no head where that is not known."""
        end = data.find(_END) + len(_END)
        head = self._known.get(data[:end])
        return (head, data[end:]) if head is not None and len(data) == end + head.size else (None, b"")

    def remember(self, data: bytes, head: Head) -> None:
        """Keep the head that was parsed from this data, which a request begins with."""
        raw = data[: data.find(_END) + len(_END)]
        # Nothing stands before its first line, and each line has HTTP's own end: so the parser saw it end here too.
        plain = raw.startswith(b"POST ") and raw.endswith(_END) and raw.count(b"\n") == raw.count(b"\r\n")
        if plain and len(raw) <= _MAX_BYTES:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[raw] = head
