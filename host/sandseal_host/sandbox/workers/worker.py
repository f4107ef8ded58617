"""A sandbox worker: the process in which plugins run, started by `process.py`.

It imports everything of ours before it gives everything up, so it needs no more files. Standard input is its socket
to the host; where that ends, so does the worker.
"""

import gc
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandseal_host.confinement import confine
from sandseal_host.errors import ClientGone, InputRefused
from sandseal_host.sandbox.abi import LAST
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.instance import Instance
from sandseal_host.sandbox.plugin import Plugin
from sandseal_host.sandbox.statistics import InstanceUsage
from sandseal_host.sandbox.stream_seats import MAX_STREAMS
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.protocol import (
    MAX_MESSAGE,
    Answer,
    Described,
    Kind,
    Order,
    pack_answer,
    pack_log,
    pack_ready,
    read_end,
    read_number,
    read_orders,
)
from sandseal_host.sandbox.workers.region import Region, SlotLayout
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.errors import SandsealError
from sandseal_signing.tensor import DataType

_INSTANCES = MAX_STREAMS + 2  # those of streams; one that runs, and one to spare
_STDLIB = str(Path(os.__file__).parent)  # which imports parts of itself, such as encodings, when they are needed
_LEVEL_STEP = 10  # between the standard library's levels of logging; the ABI counts in ones

Ran = tuple[InstanceUsage, Sequence[Described], SandsealError | None]
"""A call that has ended: what it used, its outputs, why it has none."""


def main() -> None:
    """Take the arguments that `process.py` gives, give up everything else, and serve until the host leaves."""
    file, slots, slot_size, memory, pooling = map(int, sys.argv[1:])
    channel = socket.socket(fileno=os.dup(0))
    region = Region(file, slots, slot_size)
    os.close(file)
    missing = confine(memory=memory, cpu_s=None, threads=1, readable=(_STDLIB,))
    worker = Worker(channel, region, pooling=bool(pooling))
    gc.freeze()
    worker.serve(missing)
    os._exit(0)


class Worker:
    """Runs calls one after another, in the order in which they are handed over.

    Args:
        channel: to the host, a socket of whole messages.
        region: the calls' data.
        pooling: see `SandboxEngine`.
    """

    def __init__(self, channel: socket.socket, region: Region, *, pooling: bool) -> None:
        self._channel, self._region = channel, region
        self._engine = SandboxEngine(log=self._log, pooling=pooling, instances=_INSTANCES)
        self._plugins: dict[int, Plugin | SandsealError] = {}
        self._streams: dict[int, Instance] = {}
        self._running = 0  # number of the plugin that runs, or ran last
        self._slot = 0  # of the call that runs

    def serve(self, missing: Sequence[str]) -> None:
        """Do what the host says until it leaves.

        Args:
            missing: what the system could not take away from this process.
        """
        self._channel.send(pack_ready(missing))
        while True:
            message, files, _, _ = socket.recv_fds(self._channel, MAX_MESSAGE, 1)
            if not message:
                return
            kind, body = message[0], message[1:]
            if kind == Kind.ORDERS:
                for order in read_orders(body):
                    self._channel.send(pack_answer(self._answer(order)))
            elif kind == Kind.LOAD:
                self._load(read_number(body), WorkerPlugin.open(files[0]))
            elif kind == Kind.END:
                self._end(read_end(body))
            else:
                self._plugins.pop(read_number(body), None)

    def _load(self, number: int, plugin: WorkerPlugin) -> None:
        self._running = number
        try:
            self._plugins[number] = self._engine.compile(
                plugin.wasm, plugin.spec, assets=plugin.assets, label=plugin.label, code=plugin.code
            )
        except SandsealError as error:
            self._plugins[number] = error.with_traceback(None)

    def _answer(self, order: Order) -> Answer:
        self._running = order.plugin
        plugin = self._plugins[order.plugin]
        if isinstance(plugin, SandsealError):
            return Answer(order.number, error=plugin)
        if order.trial:
            return Answer(order.number)
        dropped, began = plugin.statistics().log_dropped, time.monotonic()
        usage, outputs, error = self._run(plugin, order)
        dropped, wall_s = plugin.statistics().log_dropped - dropped, time.monotonic() - began
        return Answer(order.number, wall_s, usage.cpu_s, usage.memory_bytes, dropped, outputs, error)

    def _run(self, plugin: Plugin, order: Order) -> Ran:
        self._slot, slot, usage = order.slot, order.slot, InstanceUsage(0, 0, 0.0)
        if self._cancelled():
            return usage, (), ClientGone("nobody waits for this call any more")
        layout = SlotLayout.of([size for size, _ in order.inputs], order.parameters)
        inputs, parameters = self._inputs(plugin, order, layout)
        room = self._region.room(slot, layout.outputs_at)
        try:
            with self._instance(plugin, order) as instance:
                try:
                    outputs = instance.call(inputs, parameters, room, flags=order.flags)
                finally:
                    usage = instance.usage()
        except SandsealError as error:
            return usage, (), error
        return usage, [Described(output.nbytes, output.shape) for output in outputs], None

    @contextmanager
    def _instance(self, plugin: Plugin, order: Order) -> Iterator[Instance]:
        """The instance that an order is for; a stream's stays for its next call, if this one goes well."""
        if not order.stream:
            with plugin.instance(self._cancelled) as instance:
                yield instance
            return
        instance = self._streams.get(order.stream) or plugin.instance(self._cancelled)
        self._streams[order.stream] = instance
        over = True
        try:
            yield instance
            over = bool(order.flags & LAST)
        except InputRefused:
            over = False
            raise
        finally:
            if over:
                self._end(order.stream)

    def _end(self, stream: int) -> None:
        if (instance := self._streams.pop(stream, None)) is not None:
            instance.close()

    def _cancelled(self) -> bool:
        return self._region.cancelled(self._slot)

    def _inputs(self, plugin: Plugin, order: Order, layout: SlotLayout) -> tuple[Sequence[Tensor], bytes]:
        region, slot, tensors = self._region, order.slot, []
        for spec, described, at in zip(plugin.spec.inputs, order.inputs, layout.inputs_at, strict=True):
            shape = described.shape if spec.dtype is not DataType.BYTES else described.size
            array = region.array(slot, at, shape, KINDS[spec.dtype].numpy)
            tensors.append(Tensor(spec.name, spec.dtype, described.shape, array))
        return tensors, region.text(slot, layout.parameters_at, order.parameters)

    def _log(self, _label: str, level: int, line: str) -> None:
        self._channel.send(pack_log(self._running, level // _LEVEL_STEP - 1, line))


if __name__ == "__main__":
    main()
