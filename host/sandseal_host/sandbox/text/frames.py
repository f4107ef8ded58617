"""What passes between the host and the process that has a tokenizer: frames of a size, a kind and a body."""

import socket
import struct
import time
from enum import IntEnum

from sandseal_host.sandbox.workers.protocol import BrokenMessage

MAX_BODY = 64 << 20  # bytes
_HEAD = struct.Struct("<IB")


class Kind(IntEnum):
    """Kinds of frames: the first three come from the host."""

    FILES = 1  # TextFiles, which only the host writes, pickled
    ENCODE = 2  # text
    CHAT = 3  # messages and options, as JSON
    READY = 4  # what the system could not take away, and ids of special tokens, as JSON; then TOKENS
    TOKENS = 5  # as a BYTES tensor
    IDS = 6  # INT32
    ERROR = 7  # as JSON


class Frames:
    """A stream socket that carries frames, for blocking use; closed with it.

    Args:
        channel: connected.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.deadline = float("inf")
        """On the monotonic clock; what is not through by then is a TimeoutError."""

    def send(self, kind: Kind, body: bytes | bytearray | memoryview) -> None:
        """Send a frame.

        Raises:
            TimeoutError, OSError: the other side does not read, or is gone.
        """
        self._wait()
        self._channel.sendall(_HEAD.pack(len(body), kind))
        self._wait()
        self._channel.sendall(body)

    def receive(self) -> tuple[Kind, bytes]:
        """The next frame.

        Raises:
            TimeoutError, OSError: it does not come.
            EOFError: the other side is gone.
            BrokenMessage: it is none.
        """
        size, number = _HEAD.unpack(self._read(_HEAD.size))
        if size > MAX_BODY or number not in Kind.__members__.values():
            raise BrokenMessage("a frame has an unknown kind or is too long")
        return Kind(number), self._read(size)

    def close(self) -> None:
        """Close the socket."""
        self._channel.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait()
            part = self._channel.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError("the other side is gone")
            parts += part
        return bytes(parts)

    def _wait(self) -> None:
        if self.deadline == float("inf"):
            return
        if (left := self.deadline - time.monotonic()) <= 0:
            raise TimeoutError
        self._channel.settimeout(left)
