"""A message from somebody who was let in, and what a call says beside its message."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from google.protobuf.message import DecodeError
from grpc.aio import ServicerContext

from sandseal_host.api.grant import Grant
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.tls import Names
from sandseal_host.api.visit import QUICK_BYTES
from sandseal_host.errors import RequestInvalid

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Asked:
    """A message, and whose it is.

    Args:
        message: as parsed.
        size: bytes that it had.
        grant: of the caller.
        context: of the call.
    """

    message: Message
    size: int
    grant: Grant
    context: ServicerContext

    @property
    def patience_s(self) -> float:
        """Seconds that the caller still waits."""
        left = self.context.time_remaining()
        return math.inf if left is None else left


def address_of(context: ServicerContext) -> str:
    """Where a call comes from, out of gRPC's name of its peer, such as `ipv4:127.0.0.1:50000`."""
    peer = context.peer()
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


def certificate_of(context: ServicerContext) -> Names:
    """The names of the client's certificate."""
    found = context.auth_context()
    kinds = ("x509_common_name", "x509_subject_alternative_name")
    return tuple(name.decode("utf-8", "replace") for kind in kinds for name in found.get(kind, ()))


async def parsed(form: Any, sent: bytes) -> Message:
    """The message that was sent.

    Raises:
        RequestInvalid: it is none of this form.
    """
    try:
        return await quick_or_apart(len(sent), form.FromString, sent)
    except DecodeError as error:
        raise RequestInvalid(f"the message is no {form.DESCRIPTOR.name}", hint="use the protocol's own file") from error


async def quick_or_apart(size: int, work: Callable[..., _Result], *arguments: Any) -> _Result:
    """Work on a message: on a thread where that is large, so that others get their turns."""
    return await asyncio.to_thread(work, *arguments) if size > QUICK_BYTES else work(*arguments)
