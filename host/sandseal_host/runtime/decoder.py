"""A decoder on a device: token ids in, logits out; each sequence's keys and values stay in its slot.

Past and present are the same memory, so that a step writes one position and copies nothing. Slots next to each other
are a batch by where they lie: each such range has an IO binding of its own, made once, in which a run binds the few
small inputs anew and never the buffers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.errors import ModelFailed, ModelInvalid, NotReady
from sandseal_host.runtime.decoder_signature import PAST, PRESENT, SIDES, DecoderSignature
from sandseal_host.runtime.decoder_slots import Kv, Slots, make_slots
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.failures import run_failure
from sandseal_host.runtime.graph import check_graph
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.opening import open_core
from sandseal_host.runtime.staging import Staging
from sandseal_signing.manifest import ModelSpec

_FLOATS = {np.dtype(np.float32): 1, np.dtype(np.float16): 10}  # ONNX TensorProto numbers
_INT32, _INT64 = 6, 7


@dataclass(frozen=True, slots=True)
class DecoderStatistics:
    """A decoder's memory and runs.

    Args:
        device: where it runs.
        resident_bytes: as a session's; without the slots, as far as nobody wrote to them.
        buffer_bytes: of the slots.
        slots: sequences that it holds at once.
        slot_bytes: of each.
        prefills_total, decodes_total: runs of either kind.
        tokens_total: that went through them.
    """

    device: str
    resident_bytes: int
    buffer_bytes: int
    slots: int
    slot_bytes: int
    prefills_total: int
    decodes_total: int
    tokens_total: int


class Decoder:
    """A loaded decoder; one run at a time. Made by `open`.

    Args:
        core: the session.
        signature: of its graph.
        device: where it runs.
        staging: the session's, where the device's memory is not the host's.
        slots: sequences that it holds at once.
        context: the most positions of each.
    """

    def __init__(
        self,
        core: onnxruntime.InferenceSession,
        signature: DecoderSignature,
        device: Device,
        staging: Staging | None,
        slots: int,
        context: int,
    ) -> None:
        self._core, self._signature, self._device, self._staging = core._sess, signature, device, staging
        self.slots, self.context, self.vocab = slots, context, signature.vocab
        self.slot_bytes = signature.slot_bytes(context)
        self._memory: Slots = make_slots(signature, slots, context, staging)
        self._host = ort.OrtDevice(ort.OrtDevice.cpu(), ort.OrtDevice.default_memory(), 0)
        self._bindings: dict[tuple[int, int], Any] = {}
        self._logits: NDArray[Any] = np.empty(slots * signature.vocab, signature.logits)
        self._prefills = self._decodes = self._tokens = self._resident = 0
        self._closed = False

    @classmethod
    def open(
        cls,
        files: ModelFiles,
        device: Device,
        *,
        slots: int,
        context: int,
        threads: int = 1,
        warming: Callable[[onnxruntime.RunOptions], None] = lambda _: None,
    ) -> Self:
        """Load a decoder and run it once; arguments that a `Session.open` has too are explained there.

        Args:
            slots: sequences that it holds at once; their memory is taken now.
            context: the most positions of each.

        Raises:
            ModelInvalid: it does not load, or is no decoder of the form that this needs.
            DeviceUnavailable: it cannot run on the device.
            MemoryExhausted: there is no room.
        """
        before, spec = device.used(), files.spec
        locations = check_graph(spec, files.graph)
        signature = DecoderSignature.read(spec, files.graph)
        staging = device.staging()
        # A step is hundreds of small products: threads that fell asleep between them would take a third more time.
        core = open_core(files, locations, device, staging, threads=threads, spinning=True)
        device.check_session(core)
        try:
            decoder = cls(core, signature, device, staging, slots, context)
        except Exception as error:
            raise run_failure(error) from error
        try:
            handle = onnxruntime.RunOptions()
            warming(handle)
            decoder._warm_up(spec, handle)
        except Exception:
            decoder.close()
            raise
        slots_bytes = decoder._memory.nbytes if staging else 0  # the host's are not in memory yet
        decoder._resident = max(0, device.used() - before - slots_bytes)
        return decoder

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._device

    @property
    def closed(self) -> bool:
        """Whether its memory was given back."""
        return self._closed

    @property
    def resident(self) -> dict[str, int]:
        """By device: what it took, with its slots."""
        return {str(self._device): self._resident + self._memory.nbytes}

    def settle(self) -> None:
        """Keep the calling thread, which will run it, near the device."""
        self._device.settle()

    def prefill(self, slot: int, ids: Sequence[int], start: int) -> NDArray[np.float32]:
        """Run the next tokens of one sequence.

        Args:
            slot: that holds the sequence.
            ids: at least one.
            start: positions that the slot holds already.

        Returns:
            FP32 [vocab]: the logits behind the last token; good until the next run.

        Raises:
            ModelFailed, MemoryExhausted: the run failed.
            NotReady: the decoder is closed.
        """
        self._prefills += 1
        logits: NDArray[np.float32] = self._run(slot, np.array([ids], np.int64), np.array([start], np.int64))[0]
        return logits

    def decode(self, tokens: Sequence[int], lengths: Sequence[int]) -> NDArray[np.float32]:
        """Run one token of each sequence in the first slots.

        A sequence that should not get on takes part with any token: what is written behind its length is overwritten.

        Args:
            tokens: of slot 0, 1 and so on.
            lengths: positions that each slot holds already.

        Returns:
            FP32 [slots, vocab]: the logits behind each token; good until the next run.

        Raises:
            ModelFailed, MemoryExhausted: the run failed.
            NotReady: the decoder is closed.
        """
        self._decodes += 1
        return self._run(0, np.array(tokens, np.int64)[:, None], np.array(lengths, np.int64))

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first positions of a slot into another."""
        self._memory.move(source, target, length)

    def save(self, slot: int, length: int) -> Kv:
        """A copy of the first positions of a slot, in the host's memory."""
        return self._memory.save(slot, length)

    def restore(self, slot: int, kv: Kv) -> None:
        """Copy them back into any slot."""
        self._memory.restore(slot, kv)

    def statistics(self) -> DecoderStatistics:
        """The figures at this moment."""
        return DecoderStatistics(
            device=str(self._device),
            resident_bytes=self._resident,
            buffer_bytes=0 if self._closed else self._memory.nbytes,
            slots=self.slots,
            slot_bytes=self.slot_bytes,
            prefills_total=self._prefills,
            decodes_total=self._decodes,
            tokens_total=self._tokens,
        )

    def rest(self) -> None:
        """There is nothing to give back: what a run leaves behind is never more than a chunk's."""

    def close(self) -> None:
        """Give all memory back; no run may be in flight."""
        self._closed = True
        self._bindings.clear()
        self._core = self._memory = self._staging = None  # type: ignore[assignment]
        self._logits = np.empty(0, self._signature.logits)
        self._device.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self,
        slot: int,
        ids: NDArray[np.int64],
        starts: NDArray[np.int64],
        handle: onnxruntime.RunOptions | None = None,
    ) -> NDArray[np.float32]:
        """Run tokens [batch, sequence] of slots next to each other, each behind what it holds."""
        if self._closed:
            raise NotReady("the decoder is closed")
        self._tokens += ids.size
        staging = self._staging
        if staging is not None:
            staging.enter()
        with staging.gate.shared() if staging is not None else nullcontext():
            try:
                io = self._binding(slot, len(ids))
                small = self._bind_inputs(io, ids, starts)
                logits = self._bind_logits(io, *ids.shape)
                self._core.run_with_iobinding(io, handle)
            except Exception as error:
                raise run_failure(error) from error
        del small  # was read where it lay
        return logits[:, -1].astype(np.float32, copy=False)

    def _bind_inputs(self, io: Any, ids: NDArray[np.int64], starts: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        """Bind all but keys and values, in the form that the graph wants them; from the host, wherever it runs."""
        batch, sequence = ids.shape
        totals = starts + sequence
        longest = int(totals.max())
        small: dict[str, NDArray[Any]] = {"input_ids": ids}
        if "attention_mask" in self._signature.inputs:
            small["attention_mask"] = (np.arange(longest) < totals[:, None]).astype(np.int64)
        else:
            small["seqlens_k"] = (totals - 1).astype(np.int32)
            small["total_sequence_length"] = np.array(longest, np.int32)
        if "position_ids" in self._signature.inputs:
            small["position_ids"] = starts[:, None] + np.arange(sequence)
        if "last_index" in self._signature.inputs:
            small["last_index"] = np.full(batch, sequence - 1, np.int64)
        for name, array in small.items():
            kind = _INT32 if array.dtype == np.int32 else _INT64
            io.bind_input(name, self._host, kind, array.shape, array.ctypes.data)
        return small

    def _bind_logits(self, io: Any, batch: int, sequence: int) -> NDArray[Any]:
        """Where the logits will lie: [batch, positions, vocab]."""
        every = self._signature.every_position
        shape = (batch, sequence if every else 1, self.vocab)
        size = int(np.prod(shape))
        if size > self._logits.size:
            self._logits = np.empty(size, self._signature.logits)
        bound = shape if every else (batch, self.vocab)
        io.bind_output("logits", self._host, _FLOATS[self._signature.logits], bound, self._logits.ctypes.data)
        return self._logits[:size].reshape(shape)

    def _binding(self, slot: int, batch: int) -> Any:
        """The binding of so many slots from this one on."""
        io = self._bindings.get((slot, batch))
        if io is None:
            io = self._bindings[slot, batch] = self._make_binding(slot, batch)
        return io

    def _make_binding(self, slot: int, batch: int) -> Any:
        signature, io = self._signature, ort.SessionIOBinding(self._core)
        shape = (batch, signature.kv_heads, self.context, signature.head)
        kind = _FLOATS[signature.dtype]
        device = self._host if self._staging is None else self._staging.ort_device
        for layer in range(signature.layers):
            for i, side in enumerate(SIDES):
                pointer = self._memory.pointer(2 * layer + i, slot)
                io.bind_input(PAST.format(layer, side), device, kind, shape, pointer)
                io.bind_output(PRESENT.format(layer, side), device, kind, shape, pointer)
        return io

    def _warm_up(self, spec: ModelSpec, handle: onnxruntime.RunOptions) -> None:
        """Run the first two positions and the last: allocates what runs need, and shows that all stays in the slot."""
        for position in range(min(2, self.context)):
            self._run(0, np.zeros((1, 1), np.int64), np.array([position], np.int64), handle)
        if not self.save(0, 1).data.any():
            raise ModelInvalid(f"{spec.file} does not write keys and values to where the past ones lie")
        try:
            self._run(0, np.zeros((1, 1), np.int64), np.array([self.context - 1], np.int64), handle)
        except ModelFailed as error:  # it would take all that are in a run with it along
            raise ModelInvalid(
                f"{spec.file} does not run {self.context} positions: {error.message}",
                hint="lower generation.context in bundle.json to what the graph has",
            ) from error
