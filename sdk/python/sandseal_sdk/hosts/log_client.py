"""A host's transparency log over REST."""

from collections.abc import Callable, Iterator

from sandseal_signing.errors import ProofInvalid
from sandseal_signing.merkle import decode_hash


class LogClient:
    """Reads a host's log (an `audit.LogSource`).

    Args:
        get: `Client.get` of a client whose token has scope audit or operate.
    """

    def __init__(self, get: Callable[..., bytes]) -> None:
        self._get = get

    def checkpoint(self) -> bytes:
        """The newest checkpoint."""
        return self._get("/v1/log/checkpoint")

    def entries(self, start: int, end: int) -> Iterator[bytes]:
        """The entries from number `start` on and before `end`, page by page.

        Raises:
            ProofInvalid: the host has no more, or gives more than was asked for.
        """
        while start < end:
            page = self._get("/v1/log/entries", start=start, end=end).splitlines()
            if not 0 < len(page) <= end - start:
                raise ProofInvalid(f"the host gave {len(page)} entries where {start} to {end} were asked for")
            yield from page
            start += len(page)

    def proof(self, number: int, size: int) -> bytes:
        """That an entry is in the log of this size, as a tlog-proof."""
        return self._get("/v1/log/proof", index=number, size=size)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """That the log of size `new` continues that of size `old`."""
        text = self._get("/v1/log/proof", old=old, new=new).decode("ascii", errors="replace")
        return tuple(map(decode_hash, text.split()))
