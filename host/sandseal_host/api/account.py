"""What is told of an inference that is over, whichever way it came."""

from collections.abc import Mapping
from typing import Any

from sandseal_host.api.prepared import Prepared
from sandseal_host.api.request_id import given_id
from sandseal_host.observe.finished import Finished
from sandseal_signing.errors import SandsealError

_MAX_ID = 128  # characters


def account(prepared: Prepared, headers: Mapping[bytes, bytes], own_id: str, **facts: Any) -> Finished:
    """The account of an inference.

    Args:
        prepared: of the model version that was asked.
        headers: its, or a call's metadata; the id and the trace of the request are there.
        own_id: what the request's body calls it, where its headers do not.
        facts: the rest of `Finished`.
    """
    manifest, given = prepared.manifest, given_id(headers)
    return Finished(
        model=manifest.name,
        version=manifest.version,
        bundle=prepared.bundle,
        request_id=_visible(own_id) if given is None else given.decode(),
        traceparent=headers.get(b"traceparent", b"").decode("latin-1"),
        **facts,
    )


def _visible(own_id: str) -> str:
    """What of it can stand in a line of the log, which a terminal may show."""
    return "".join(each for each in own_id[:_MAX_ID] if each.isprintable())


def verdict(error: BaseException) -> str:
    """An error in one word."""
    return error.code if isinstance(error, SandsealError) else "internal"
