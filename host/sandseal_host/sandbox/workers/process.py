"""One sandbox worker as the host sees it: its process, its socket, its region, and the calls that it holds."""

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress

from sandseal_host.sandbox.children import bury_child, kill_child, start_child
from sandseal_host.sandbox.workers.call import Call, Stay
from sandseal_host.sandbox.workers.protocol import MAX_MESSAGE, Answer, Kind, pack_end, pack_number
from sandseal_host.sandbox.workers.region import Region, offsets

COMMAND = (sys.executable, "-P", "-B", "-m", "sandseal_host.sandbox.workers.worker")

SLOTS = 8
_MESSAGES = 64  # read in one turn of the loop


class WorkerProcess:
    """A process that runs plugins; spawned, not forked, by the thread that makes this, and gone when that is.

    Args:
        memory: bytes that the process may use.
        pooling: see `SandboxEngine`.
        command: what is started, with the worker's arguments appended.

    `lost` is for whoever serves it, and is resolved with the reason when it is given up.

    Raises:
        OSError: no process, descriptor or memory is to be had.
    """

    def __init__(self, memory: int, *, pooling: bool, command: Sequence[str] = COMMAND) -> None:
        self.handed: deque[Call] = deque()
        self.writing: list[Call] = []  # calls whose data it does not have in full
        self.free = list(range(SLOTS))
        self.known: set[int] = set()
        self.streams: dict[int, Stay] = {}  # whose instances it has
        self.waiting: list[Call] = []  # calls of these that are not handed over; a heap
        self.since = self.allowance_s = 0.0  # when the first call's time began, and what it gets beyond its limit
        self.lines = 0  # logged since somebody looked
        self.lost: asyncio.Future[str]
        slot_size = 2 * memory  # inputs and outputs each fit into a guest, and that into the memory
        with ExitStack() as undo:
            file = Region.create(SLOTS, slot_size)
            with os.fdopen(file):  # which closes it
                self.region = Region(file, SLOTS, slot_size)
                undo.callback(self.region.close)
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.callback(self._channel.close)
                with theirs:
                    arguments = map(str, (file, SLOTS, slot_size, memory, int(pooling)))
                    self._process = start_child((*command, *arguments), theirs, (file,))
            undo.pop_all()
        self._channel.setblocking(False)
        self._inbox = bytearray(MAX_MESSAGE)

    def busy_s(self, now: float) -> float:
        """How long it will take for the calls that it has, as far as is known; longer, if the first takes longer."""
        if not (self.handed or self.writing):
            return 0.0
        return max(sum(call.stage.call_s for call in (*self.handed, *self.writing)), now - self.since)

    def release(self, call: Call, answer: Answer) -> None:
        """Let another call have the slot of one that is answered; nothing of that is left in it."""
        self.free.append(call.slot)
        if answer.error is None:
            layout = call.layout
            self.region.clear(call.slot, 0, layout.parameters_at + len(call.parameters))
            *_, end = offsets([*(output.size for output in answer.outputs), 0], layout.outputs_at)
            self.region.clear(call.slot, layout.outputs_at, end - layout.outputs_at)
        elif not call.trial:
            self.region.clear_all(call.slot)  # how much was written before it failed is not known

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._channel.fileno()

    def load(self, number: int, plugin: int) -> None:
        """Give it a plugin; see `WorkerPlugin.seal`.

        Raises:
            OSError: it is gone, or does not read.
        """
        socket.send_fds(self._channel, [pack_number(Kind.LOAD, number)], [plugin])
        self.known.add(number)

    def drop(self, number: int) -> None:
        """Take a plugin back."""
        if number in self.known:
            self.known.discard(number)
            with suppress(OSError):  # then it is gone, or will be
                self._channel.send(pack_number(Kind.DROP, number))

    def end(self, stream: int) -> None:
        """Let a stream's instance go."""
        self.streams.pop(stream, None)
        with suppress(OSError):  # then it is gone, or will be
            self._channel.send(pack_end(stream))

    def order(self, orders: Sequence[bytes]) -> None:
        """Hand calls over, in one message where they fit into one.

        Raises:
            OSError: it is gone, or does not read.
        """
        together = sum(map(len, orders)) < MAX_MESSAGE
        for part in [b"".join(orders)] if together else orders:
            self._channel.send(bytes([Kind.ORDERS]) + part)

    def receive(self) -> Iterator[bytes]:
        """What it says, as far as it has arrived; an empty message where it is gone.

        Raises:
            OSError: the connection broke.
        """
        for _ in range(_MESSAGES):
            try:
                size = self._channel.recv_into(self._inbox)
            except BlockingIOError:
                return
            yield bytes(self._inbox[:size])
            if not size:
                return

    def kill(self) -> None:
        """End it at once."""
        kill_child(self._process)

    def bury(self) -> str:
        """End it, wait until it has ended, let go of everything, and say how it ended; blocks."""
        how = bury_child(self._process)
        self._channel.close()
        self.region.close()
        return how
