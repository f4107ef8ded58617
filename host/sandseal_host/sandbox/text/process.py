"""The process that has a model's tokenizer, as one thread of the host sees it."""

import json
import pickle
import re
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from sandseal_host.errors import InputRefused, ModelFailed, ModelInvalid, UnsupportedRequest
from sandseal_host.sandbox.children import bury_child, start_child
from sandseal_host.sandbox.text.files import TextFiles
from sandseal_host.sandbox.text.frames import Frames, Kind
from sandseal_host.sandbox.workers.protocol import BrokenMessage, read_error
from sandseal_host.tensors import Tensor, unpack_bytes
from sandseal_signing.tensor import DataType

COMMAND = (sys.executable, "-P", "-B", "-m", "sandseal_host.sandbox.text.child")
_NO_MEMORY = re.compile("memory allocation of|MemoryError|Cannot allocate memory")
_ERRORS = (InputRefused, UnsupportedRequest, ModelFailed, ModelInvalid)
_HINT = "send less text; if it goes on, the publisher must look at the tokenizer and the chat template"


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What a model's tokenizer and chat template may use.

    Args:
        memory_mib: of their process.
        time_s: of one call, with what it waits for a processor.
        start_s: within which the tokenizer must be read.
        max_waiting: calls that may wait; more are refused.
    """

    memory_mib: int = 1024
    time_s: float = 5.0
    start_s: float = 60.0
    max_waiting: int = 1024


class Lost(Exception):
    """Room-internal: the process cannot be used any more; the text goes on after what it is."""

    def __init__(self, why: str, hint: str = _HINT) -> None:
        super().__init__(why)
        self.hint = hint


class TextProcess:
    """A process, from its start; used by the thread that makes it, with which it dies. Blocks.

    Args:
        files: the tokenizer and the template.
        limits: what it may use.

    Raises:
        Lost: it did not come to anything.
        ModelInvalid: the files cannot be used.
    """

    def __init__(self, files: TextFiles, limits: TextLimits) -> None:
        self._limits, self._how = limits, ""
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                self._frames = Frames(ours)
                self._process = start_child((*COMMAND, str(limits.memory_mib << 20)), theirs)
        except OSError as error:
            raise Lost(f"has no process: {error.strerror}", "free memory, processes or descriptors") from None
        try:
            self._begin(limits.start_s)
            self._send(Kind.FILES, pickle.dumps(files))
            self.missing, self.special = _read_ready(self._receive(Kind.READY))
            self.tokens = _read_tokens(self._receive(Kind.TOKENS))
        except BaseException:
            self.close()
            raise

    def ask(self, kind: Kind, body: bytes) -> list[int]:
        """The tokens with which it answers.

        Raises:
            Lost: it takes too long, has ended, or makes no sense.
            InputRefused, UnsupportedRequest, ModelFailed: what it says.
        """
        self._begin(self._limits.time_s)
        self._send(kind, body)
        return _read_ids(self._receive(Kind.IDS), len(self.tokens))

    def alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def close(self) -> str:
        """End it, and say how it ended."""
        self._frames.close()
        self._how = self._how or bury_child(self._process)
        return self._how

    def _begin(self, limit_s: float) -> None:
        self._limit_s, self._frames.deadline = limit_s, time.monotonic() + limit_s

    def _send(self, kind: Kind, body: bytes) -> None:
        with suppress(OSError):  # late, or ended with a last word: what is to come tells
            self._frames.send(kind, body)

    def _receive(self, wanted: Kind) -> bytes:
        try:
            kind, body = self._frames.receive()
            if kind is Kind.ERROR:
                raise read_error(body, _ERRORS)
        except TimeoutError:
            raise Lost(f"did not answer within {self._limit_s:g} s") from None
        except BrokenMessage as error:
            raise Lost(f"makes no sense: {error}") from None
        except (EOFError, OSError):
            raise self._ended() from None
        if kind is not wanted:
            raise Lost(f"makes no sense: {kind.name} is not due")
        return body

    def _ended(self) -> Lost:
        how = self.close()
        if _NO_MEMORY.search(how):
            return Lost(f"wants more than its {self._limits.memory_mib} MiB of memory")
        return Lost(f"ended with {how}")


def _read_ready(body: bytes) -> tuple[tuple[str, ...], frozenset[int]]:
    """What the system could not take away, and the ids of special tokens."""
    try:
        missing, special = json.loads(body)
        return tuple(map(str, missing)), frozenset(map(int, special))
    except (ValueError, TypeError, RecursionError) as error:
        raise Lost(f"makes no sense: {error}") from None


def _read_tokens(body: bytes) -> Sequence[bytes]:
    return unpack_bytes(Tensor("tokens", DataType.BYTES, (-1,), np.frombuffer(body, np.uint8)))


def _read_ids(body: bytes, tokens: int) -> list[int]:
    if len(body) % 4:
        raise Lost("makes no sense: its tokens are cut short")
    ids = np.frombuffer(body, "<i4")
    if ids.size and not 0 <= ids.min() <= ids.max() < tokens:
        raise Lost("makes no sense: it names a token that there is not")
    found: list[int] = ids.tolist()
    return found
