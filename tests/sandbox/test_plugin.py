"""What a well-behaved guest sees and gives, and that no call sees another."""

import contextlib
import gc
import json
import re
import resource
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.guests import ALLOC, DONE, ECHO, X, floats, guest, stage_spec, tensor_spec, texts
from sandseal_host.errors import InputRefused, NotReady, PluginTrapped, QueueFull, RequestInvalid
from sandseal_host.sandbox import MAX_INSTANCES, Plugin, SandboxEngine
from sandseal_host.tensors import KINDS, Tensor, unpack_bytes
from sandseal_signing.tensor import DataType

# Counts its own calls in a global and in memory; every call must find both at zero.
COUNTER = f"""
(f32.store (i32.load offset=8 (call $in (local.get $call) (i32.const 0)))
           (f32.convert_i32_u (i32.add (global.get $calls) (i32.load (i32.const 512)))))
(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
(i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
{ECHO}"""
CALLS = "(global $calls (mut i32) (i32.const 0))"
RESET = '(func (export "sandseal_reset") (global.set $top (i32.const 4096)))'
# Gives out the whole block that the host wrote, as UINT8.
DUMP = f"""
(call $describe (call $out (local.get $call) (i32.const 0))
  (local.get $call) (i64.const 4096) (i64.const 4096)) {DONE}"""


def test_echo(engine: SandboxEngine) -> None:
    with engine.compile(guest(), stage_spec()) as plugin:
        (y,) = plugin.call([floats(1, 2, 3)])
    assert (y.name, y.dtype, y.shape, y.data.tolist()) == ("y", DataType.FP32, (3,), [1, 2, 3])
    assert y.data.flags.owndata


@pytest.mark.parametrize("dtype", [d for d in DataType if d is not DataType.BYTES])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (1, 2, 1, 2, 1, 2, 1, 2)])
def test_every_dtype_and_rank_passes_unchanged(engine: SandboxEngine, dtype: DataType, shape: tuple[int, ...]) -> None:
    axes = tuple(f"a{i}" for i in range(len(shape)))
    spec = stage_spec(inputs=(tensor_spec("x", dtype, *axes),), outputs=(tensor_spec("y", dtype, *axes),))
    data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(KINDS[dtype].numpy)
    with engine.compile(guest(), spec) as plugin:
        (y,) = plugin.call([Tensor("x", dtype, shape, data)])
    np.testing.assert_array_equal(y.data, data)
    assert y.data.dtype == data.dtype


@given(st.lists(st.binary(max_size=40), max_size=8))
@settings(max_examples=30, deadline=None)
def test_bytes_elements_pass_unchanged(engine: SandboxEngine, elements: list[bytes]) -> None:
    spec = stage_spec(inputs=(tensor_spec("x", "BYTES", "n"),), outputs=(tensor_spec("y", "BYTES", "n"),))
    with engine.compile(guest(), spec) as plugin:
        (y,) = plugin.call([texts(*elements)])
    assert unpack_bytes(y) == elements


def test_a_strided_input_arrives_in_order(engine: SandboxEngine) -> None:
    values = np.arange(12, dtype=np.float32)[::3]
    with engine.compile(guest(), stage_spec()) as plugin:
        (y,) = plugin.call([Tensor("x", DataType.FP32, (4,), values)])
    assert y.data.tolist() == [0, 3, 6, 9]


def test_the_block_is_laid_out_as_the_abi_says(engine: SandboxEngine) -> None:
    """Reads the raw bytes that the guest got with offsets written out here, not taken from the code."""
    config, parameters = b'{"k":5}', json.dumps({"top": 3}).encode()
    spec = stage_spec(
        inputs=(tensor_spec("größe", "INT64", 2), X),
        outputs=(tensor_spec("all", "UINT8", "any"),),
        config=config,
    )
    sizes = Tensor("größe", DataType.INT64, (2,), np.array([7, -8], np.int64))
    with engine.compile(guest(DUMP, alloc=ALLOC.replace("4096", "8192")), spec) as plugin:
        block = plugin.call([sizes, floats(1.5, 2.5, 3.5)], parameters)[0].data.tobytes()
    at = 8192  # where the bump allocator starts: every pointer is absolute

    def read(pointer: int, size: int) -> bytes:
        assert pointer % 16 == 0
        return block[pointer - at : pointer - at + size]

    n_in, inputs, n_out, outputs, params, params_len, conf, conf_len, *zeros = struct.unpack_from("<16I", block)
    assert (n_in, n_out, zeros) == (2, 1, [0] * 8)
    assert read(params, params_len) == parameters
    assert read(conf, conf_len) == config
    fields = struct.unpack("<4IQ8q2I", read(inputs, 96))
    assert fields[:2] == (7, 1)  # INT64, rank 1
    assert fields[3:6] == (0, 16, 2)  # flags, byte_len, shape[0]
    assert read(fields[2], 16) == struct.pack("<2q", 7, -8)
    assert read(fields[13], fields[14]).decode() == "größe"
    fields = struct.unpack("<4IQ8q2I", read(inputs + 96, 96))
    assert read(fields[2], 12) == struct.pack("<3f", 1.5, 2.5, 3.5)
    fields = struct.unpack("<4IQ8q2I", read(outputs, 96))
    assert fields[:6] == (2, 1, at, 0, 4096, 4096)  # as the guest set them
    assert read(fields[13], fields[14]) == b"all"


def test_output_axes_are_preset(engine: SandboxEngine) -> None:
    """Fixed axes hold their size, free ones -1; the guest copies both into its output."""
    body = f"""
    (call $describe (call $out (local.get $call) (i32.const 0))
      (i32.add (call $out (local.get $call) (i32.const 1)) (i32.const 24)) (i64.const 64) (i64.const 8))
    (call $describe (call $out (local.get $call) (i32.const 1)) (i32.const 16) (i64.const 0) (i64.const 3))
    (i64.store offset=32 (call $out (local.get $call) (i32.const 1)) (i64.const 0)) {DONE}"""
    spec = stage_spec(outputs=(tensor_spec("axes", "INT64", 8), tensor_spec("z", "FP32", 3, "free")))
    with engine.compile(guest(body), spec) as plugin:
        axes, z = plugin.call([floats(1)])
    assert axes.data.tolist() == [3, 0, 0, 0, 0, 0, 0, 0]  # the guest wrote the free one before the copy
    assert z.shape == (3, 0)


def test_a_call_sees_nothing_of_an_earlier_one(engine: SandboxEngine) -> None:
    with engine.compile(guest(COUNTER, extra=CALLS), stage_spec()) as plugin:
        assert [plugin.call([floats(9)])[0].data[0] for _ in range(5)] == [0] * 5


def test_memory_of_a_fresh_instance_is_zero(engine: SandboxEngine) -> None:
    """One plugin fills all its memory with 0xAA; another, on the same slots, gives out all of its own."""
    fill = guest(f"(memory.fill (i32.const 8192) (i32.const 0xAA) (i32.const 110000)) {ECHO}")
    with engine.compile(fill, stage_spec()) as first:
        for _ in range(50):
            first.call([floats(1)])
    peek = f"""
    (call $describe (call $out (local.get $call) (i32.const 0)) (i32.const 8192) (i64.const 100000)
      (i64.const 100000)) {DONE}"""
    spec = stage_spec(outputs=(tensor_spec("m", "UINT8", "any"),))
    with engine.compile(guest(peek), spec) as second:
        for _ in range(50):
            assert not second.call([floats(1)])[0].data.any()


def test_an_instance_keeps_its_state_and_is_reset(engine: SandboxEngine) -> None:
    with (
        engine.compile(guest(COUNTER, extra=CALLS + RESET), stage_spec()) as plugin,
        plugin.instance() as instance,
    ):
        assert [instance.call([floats(9)])[0].data[0] for _ in range(3)] == [0, 2, 4]


def test_initialize_runs_once_before_the_first_call(engine: SandboxEngine) -> None:
    extra = CALLS + '(func (export "_initialize") (global.set $calls (i32.add (global.get $calls) (i32.const 40))))'
    with engine.compile(guest(COUNTER, extra=extra), stage_spec()) as plugin, plugin.instance() as instance:
        assert [instance.call([floats(9)])[0].data[0] for _ in range(2)] == [40, 42]


def test_inputs_that_are_not_the_specs_are_refused(engine: SandboxEngine) -> None:
    spec = stage_spec(inputs=(X, tensor_spec("z", "FP32", "n")), outputs=(tensor_spec("y", "FP32", "n"),))
    with engine.compile(guest(), spec) as plugin:
        for inputs in (
            [floats(1)],
            [floats(1), floats(1)],
            [floats(1), floats(1, 2, name="z")],
            [floats(1), Tensor("z", DataType.FP32, (1,), np.zeros(1, np.float64))],
            [floats(1), Tensor("z", DataType.INT32, (1,), np.zeros(1, np.int32))],
        ):
            with pytest.raises(RequestInvalid):
                plugin.call(inputs)
        assert plugin.call([floats(1), floats(2, name="z")])[0].data.tolist() == [1]
        assert plugin.statistics().calls == 6
        assert plugin.statistics().refused == 5


# Echoes its input; or refuses with it as the text; or traps: as the first byte says.
MOODY = f"""(local $x i32) (local.set $x (call $in (local.get $call) (i32.const 0)))
(block $echo (block $refuse
  (br_if $echo (i32.eq (i32.load8_u (i32.load offset=8 (local.get $x))) (i32.const {ord("e")})))
  (br_if $refuse (i32.eq (i32.load8_u (i32.load offset=8 (local.get $x))) (i32.const {ord("r")}))) unreachable)
  (i32.store offset=32 (local.get $call) (i32.load offset=8 (local.get $x)))
  (i32.store offset=36 (local.get $call) (i32.load offset=16 (local.get $x))) (return (i32.const 1)))
{ECHO}"""


def moods(plugin: Plugin, thread: int, orders: Sequence[tuple[str, int]]) -> Iterator[tuple[bytes, bytes]]:
    """What a thread sends, one call after the other, and what it gets for it."""
    for number, (mood, size) in enumerate(orders):
        sent = f"{mood} thread {thread} call {number} ".encode().ljust(size, b"%d" % thread)
        try:
            (y,) = plugin.call([Tensor("x", DataType.UINT8, (len(sent),), np.frombuffer(sent, np.uint8))])
            yield sent, y.data.tobytes()
        except InputRefused as refusal:
            yield sent, refusal.message.encode()
        except PluginTrapped:
            yield sent, b"trapped"


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("eert"), st.integers(1, 4000)), max_size=15), min_size=2, max_size=6)
)
@settings(max_examples=25, deadline=None)
def test_threads_get_their_own_bytes_refusals_and_traps(
    engine: SandboxEngine, orders: list[list[tuple[str, int]]]
) -> None:
    byte = {"inputs": (tensor_spec("x", "UINT8", "n"),), "outputs": (tensor_spec("y", "UINT8", "n"),)}
    with engine.compile(guest(MOODY), stage_spec(**byte)) as plugin, ThreadPoolExecutor(len(orders)) as threads:
        pairs = threads.map(lambda item: list(moods(plugin, *item)), enumerate(orders))
        for sent, got in chain.from_iterable(pairs):
            assert got == (b"trapped" if sent.startswith(b"t") else sent)
        assert plugin.statistics().calls == sum(map(len, orders))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", [True, False])
def test_ten_thousand_fresh_instances_leave_nothing_behind(engine: SandboxEngine, pooling: bool) -> None:
    """Nine of ten answer, one traps. What leaks grows in every fifth of the calls; a pool that fills up, in some."""
    if pooling and not engine.pooling:
        pytest.skip("no memory pool on this machine")
    inputs = [Tensor("x", DataType.UINT8, (8,), np.frombuffer(b"%b for me" % mood, np.uint8)) for mood in (b"e", b"t")]
    byte = {"inputs": (tensor_spec("x", "UINT8", "n"),), "outputs": (tensor_spec("y", "UINT8", "n"),)}
    files, memory = [], []
    with SandboxEngine(pooling=pooling) as own, own.compile(guest(MOODY), stage_spec(**byte)) as plugin:
        for _ in range(5):
            for number in range(2_000):
                with contextlib.suppress(PluginTrapped):
                    plugin.call([inputs[number % 10 == 9]])
            gc.collect()
            files.append(open_descriptors())
            memory.append(resident_kib())
    assert min(after - before for before, after in pairwise(files)) <= 0
    assert min(after - before for before, after in pairwise(memory)) < 256


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0


def resident_kib() -> int:
    """The process's memory now; where that is not told, the most that it ever had."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_forgotten_instance_gives_its_slot_back(engine: SandboxEngine) -> None:
    with engine.compile(guest(), stage_spec()) as plugin:
        for _ in range(MAX_INSTANCES + 10):
            plugin.instance()


def test_more_instances_than_the_pool_holds_are_refused(engine: SandboxEngine) -> None:
    if not engine.pooling:
        pytest.skip("no memory pool on this machine")
    with engine.compile(guest(), stage_spec()) as plugin:
        held = [plugin.instance() for _ in range(MAX_INSTANCES)]
        with pytest.raises(QueueFull):
            plugin.call([floats(1)])
        for instance in held:
            instance.close()
        assert plugin.call([floats(1)])[0].data.tolist() == [1]


def test_closed_handles_say_so() -> None:
    engine = SandboxEngine(pooling=False)
    plugin = engine.compile(guest(), stage_spec())
    instance, other = plugin.instance(), engine.compile(guest(), stage_spec())
    plugin.close()
    with pytest.raises(NotReady, match="is closed"):
        plugin.call([floats(1)])
    assert instance.call([floats(1)])[0].data.tolist() == [1]  # it outlives its plugin
    instance.close()
    instance.close()
    with pytest.raises(NotReady, match="instance"):
        instance.call([floats(1)])
    engine.close()
    with pytest.raises(NotReady, match="engine is closed"):
        other.call([floats(1)])
    with pytest.raises(NotReady, match="engine is closed"):
        engine.compile(guest(), stage_spec())


def test_on_demand_memory_works_alike() -> None:
    with SandboxEngine(pooling=False) as engine, engine.compile(guest(COUNTER, extra=CALLS), stage_spec()) as plugin:
        assert [plugin.call([floats(9)])[0].data[0] for _ in range(3)] == [0] * 3
