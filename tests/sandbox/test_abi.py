"""How outputs are read: what may be odd about them, and that anything else is a bad output (many are in the zoo)."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.guests import ALIAS, DONE, data, floats, guest, stage_spec, tensor_spec
from sandseal_host.errors import PluginBadOutput, PluginOutOfMemory
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType

OUT = "(call $out (local.get $call) (i32.const 0))"


def test_pointers_that_the_guest_changes_are_not_followed(engine: SandboxEngine) -> None:
    body = f"{ALIAS} (memory.fill (local.get $call) (i32.const -1) (i32.const 64)) {DONE}"
    with engine.compile(guest(body), stage_spec()) as plugin:
        assert plugin.call([floats(1, 2)])[0].data.tolist() == [1, 2]


def test_a_named_axis_is_the_same_in_every_output(engine: SandboxEngine) -> None:
    spec = stage_spec(outputs=(tensor_spec("a", "FP32", "k"), tensor_spec("b", "FP32", "k")))
    first = f"(call $describe {OUT} (i32.const 64) (i64.const 8) (i64.const 2))"
    same, other = (
        f"""{first} (call $describe (call $out (local.get $call) (i32.const 1))
                    (i32.const 64) (i64.const {4 * size}) (i64.const {size})) {DONE}"""
        for size in (2, 3)
    )
    with engine.compile(guest(same), spec) as plugin:
        assert [y.shape for y in plugin.call([floats(1)])] == [(2,), (2,)]
    with engine.compile(guest(other), spec) as plugin, pytest.raises(PluginBadOutput, match="'b'"):
        plugin.call([floats(1)])


def test_bool_elements(engine: SandboxEngine) -> None:
    spec = stage_spec(outputs=(tensor_spec("y", "BOOL", "k"),))
    body = f"(call $describe {OUT} (i32.const 1024) (i64.const 3) (i64.const 3)) {DONE}"
    with engine.compile(guest(body, extra=data(b"\0\1\1")), spec) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [False, True, True]


def test_outputs_may_overlap(engine: SandboxEngine) -> None:
    names = [f"y{i}" for i in range(10)]
    spec = stage_spec(outputs=tuple(tensor_spec(name, "UINT8", "k") for name in names))
    same = "".join(
        f"""(call $describe (call $out (local.get $call) (i32.const {i}))
                            (i32.const 8) (i64.const 1000) (i64.const 1000))"""
        for i in range(10)
    )
    with engine.compile(guest(same + DONE), spec) as plugin:
        assert len({y.data.tobytes() for y in plugin.call([floats(1)])}) == 1


def test_memory_is_measured_after_the_call(engine: SandboxEngine) -> None:
    """A guest may grow its memory and answer from there."""
    body = f"""(drop (memory.grow (i32.const 2))) (i32.store (i32.const 200000) (i32.const 7))
               (call $describe {OUT} (i32.const 200000) (i64.const 4) (i64.const 1)) {DONE}"""
    with engine.compile(guest(body), stage_spec(outputs=(tensor_spec("y", "INT32", "k"),))) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [7]


def test_a_call_larger_than_the_limit(engine: SandboxEngine) -> None:
    large = Tensor("x", DataType.FP32, (2 << 20,), np.zeros(2 << 20, np.float32))
    with engine.compile(guest(), stage_spec(memory_mib=4)) as plugin, pytest.raises(PluginOutOfMemory):
        plugin.call([large])


_FIELD = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 4096, 4097, 65536, 131072, 2**31, 2**32 - 1])
_WIDE = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 4, 8, 65536, 2**32, 2**62, 2**63 - 1])


@given(st.tuples(_FIELD, _FIELD, _FIELD, st.sampled_from([0, 0, 0, 1])), _WIDE, st.lists(_WIDE, min_size=8, max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_descriptor_is_a_tensor_or_a_bad_output(
    engine: SandboxEngine, fields: tuple[int, ...], size: int, axes: list[int]
) -> None:
    """The guest copies its input, any 96 bytes, over its output's descriptor."""
    plugin = _DESCRIBER.get(engine) or _DESCRIBER.setdefault(engine, _describer(engine))
    descriptor = struct.pack("<4Iq8q2I", *fields, size, *axes, 0, 0)
    try:
        (y,) = plugin.call([Tensor("x", DataType.UINT8, (96,), np.frombuffer(descriptor, np.uint8))])
    except PluginBadOutput:
        return
    assert (fields[0], fields[1], fields[3]) == (2, 2, 0)
    assert y.shape == tuple(axes[:2])
    assert y.nbytes == size == axes[0] * axes[1] == y.data.size


_DESCRIBER: dict[SandboxEngine, object] = {}


def _describer(engine: SandboxEngine):
    body = (
        f"""(memory.copy {OUT} (i32.load offset=8 (call $in (local.get $call) (i32.const 0))) (i32.const 96)) {DONE}"""
    )
    spec = stage_spec(inputs=(tensor_spec("x", "UINT8", 96),), outputs=(tensor_spec("y", "UINT8", "a", "b"),))
    return engine.compile(guest(body), spec)
