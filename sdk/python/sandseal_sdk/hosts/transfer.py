"""Pushing a large bundle as an offer: blobs in parallel, from where the host's copy ends, whatever breaks meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sandseal_sdk.errors import HostRefused, HostUnreachable, NotFound
from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.call import Call
from sandseal_sdk.hosts.patience import Patience
from sandseal_sdk.hosts.seal_index import SealIndex
from sandseal_sdk.hosts.target import Waits
from sandseal_signing.pack import Progress

LARGE = 64 << 20
"""From this size of a .seal file on, in bytes, a push is an offer when nothing else is asked for."""

_PIECE = 32 << 20  # what is lost at most when the host refuses a request while we are still sending
_LATER = (429, 502, 503, 504)
_AGAIN = ("blob_unknown", "offer_incomplete", "digest_mismatch", "size_mismatch", "file_missing")
_ROUNDS = 3
_WAITS = Waits(answer_s=600.0)  # after the last byte the host writes all of them to its disk
_FINISH = Waits(answer_s=None)

_Result = TypeVar("_Result")


class Send(Protocol):
    """Sends a request once; raises for every answer that is not a success and not accepted."""

    def __call__(self, call: Call, waits: Waits | None = None, /) -> Answer:
        """The answer."""
        ...


class OfferPush:
    """One push of one .seal file.

    Args:
        send: the client's.
        seal: the file; signed.
        progress: gets the length of everything sent for the first time, or found there, from several threads.
        parallel: blobs under way at once.
        patience: how broken requests are tried again.
    """

    def __init__(
        self, send: Send, seal: Path, progress: Progress, *, parallel: int = 4, patience: Patience | None = None
    ) -> None:
        self._send, self._progress = send, progress
        self._parallel, self._patience = parallel, patience or Patience()
        self._index = SealIndex.read(seal)
        self._done: Counter[str] = Counter()
        self._guard = threading.Lock()
        self._stopped = threading.Event()

    def run(self) -> dict[str, Any]:
        """Offer, send what is missing, finish; the answer is as `Client.push`'s.

        Raises:
            HostRefused, HostUnreachable: for good, or too often.
        """
        for left in reversed(range(_ROUNDS)):
            offer = self._insistently(lambda: self._send(Call("POST", "/v1/bundles/offers", self._index.head))).json()
            self._found(offer["missing"])
            try:
                self._send_all(offer["id"], offer["missing"])
                return self._finish(offer["id"])
            except HostRefused as refused:
                # The offer ended, or the host found a blob damaged: the next offer says what to send.
                if refused.code not in _AGAIN or not left:
                    raise
        raise AssertionError("the last round returns or raises")

    def _finish(self, offer: str) -> dict[str, Any]:
        call = Call("POST", f"/v1/bundles/{offer}/finish")
        return dict(self._insistently(lambda: self._send(call, _FINISH)).json())

    def _send_all(self, offer: str, missing: Sequence[dict[str, Any]]) -> None:
        with ThreadPoolExecutor(self._parallel, "sandseal-push") as pool:
            try:
                for sent in [pool.submit(self._send_blob, offer, blob["digest"], blob["offset"]) for blob in missing]:
                    sent.result()
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                self._stopped.clear()

    def _send_blob(self, offer: str, digest: str, at: int) -> None:
        """Send a blob from byte `at` on until the host has all of it."""
        path = f"/v1/blobs/sha256/{digest}?offer={offer}"
        size, failures = self._index.places[digest][1], 0
        while at < size:
            end = min(size, at + _PIECE)
            headers = {"Content-Range": f"bytes {at}-{end - 1}/{size}", "Content-Length": str(end - at)}
            before = at
            try:
                answer = self._send(Call("PUT", path, self._counted(digest, at, end), headers), _WAITS)
                at = answer.json()["offset"]
                failures = 0 if at > before else failures + 1
            except (HostRefused, HostUnreachable) as error:
                failures += 1
                self._pause(failures, error, again=(409, *_LATER))
                at = self._offset(path, digest)
                failures = 0 if at > before else failures

    def _offset(self, path: str, digest: str) -> int:
        """How much of a blob the host has."""
        head = self._insistently(lambda: self._send(Call("HEAD", path, accept=(404,))))
        if head.status == 404:
            raise NotFound(f"the host expects blob {digest} no longer", status=404, code="blob_unknown")
        return int(head.headers["upload-offset"])

    def _insistently(self, ask: Callable[[], _Result]) -> _Result:
        failures = 0
        while True:
            try:
                return ask()
            except (HostRefused, HostUnreachable) as error:
                failures += 1
                self._pause(failures, error, again=_LATER)

    def _pause(self, failures: int, error: HostRefused | HostUnreachable, again: Sequence[int]) -> None:
        """Wait before another try; raise the error when it is of no use."""
        if isinstance(error, HostRefused) and error.status not in again:
            raise error
        if self._stopped.wait(self._patience.after(failures, error)):
            raise error

    def _counted(self, digest: str, at: int, end: int) -> Iterator[bytes]:
        for chunk in self._index.content(digest, at, end):
            if self._stopped.is_set():
                raise HostUnreachable("another blob of this push failed")
            yield chunk
            at += len(chunk)
            self._advance(digest, at)

    def _found(self, missing: Sequence[dict[str, Any]]) -> None:
        """Count what the host has already."""
        offsets = {blob["digest"]: blob["offset"] for blob in missing}
        for digest, (_, size) in self._index.places.items():
            self._advance(digest, offsets.get(digest, size))

    def _advance(self, digest: str, at: int) -> None:
        with self._guard:
            fresh, self._done[digest] = at - self._done[digest], max(at, self._done[digest])
        if fresh > 0:
            self._progress(fresh)
