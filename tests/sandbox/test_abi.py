"""Guests that return nonsense: every violation is a PluginBadOutput that names plugin and output."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.guests import ALIAS, DONE, data, floats, guest, refuse, stage_spec, tensor_spec
from sandseal_host.errors import InputRefused, PluginBadOutput, PluginOutOfMemory
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.abi import MAX_ELEMENTS
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import DataType

OUT = "(call $out (local.get $call) (i32.const 0))"
# After a correct answer of FP32 [3] at the input's address, one field is set wrong.
BROKEN = {
    "data is null": f"(i32.store offset=8 {OUT} (i32.const 0))",
    "data beyond memory": f"(i32.store offset=8 {OUT} (i32.const 131064))",
    "data at the very end": f"(i32.store offset=8 {OUT} (i32.const -4))",
    "data unaligned": f"(i32.store offset=8 {OUT} (i32.const 4097))",
    "dtype": f"(i32.store {OUT} (i32.const 6))",
    "rank 0": f"(i32.store offset=4 {OUT} (i32.const 0))",
    "rank 2": f"(i32.store offset=4 {OUT} (i32.const 2))",
    "rank 4 billion": f"(i32.store offset=4 {OUT} (i32.const -1))",
    "flags": f"(i32.store offset=12 {OUT} (i32.const 1))",
    "byte_len short": f"(i64.store offset=16 {OUT} (i64.const 8))",
    "byte_len wraps": f"(i64.store offset=16 {OUT} (i64.const 0x10000000c))",
    "byte_len negative": f"(i64.store offset=16 {OUT} (i64.const -1))",
    "axis other than the input's": f"(call $describe {OUT} (i32.const 4096) (i64.const 8) (i64.const 2))",
    "axis left free": f"(i64.store offset=24 {OUT} (i64.const -1))",
    "axis whose product wraps": f"""(call $describe {OUT} (i32.const 4096) (i64.const 0)
                                                    (i64.const 0x4000000000000000))""",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_descriptor(engine: SandboxEngine, name: str) -> None:
    body = ALIAS + BROKEN[name] + DONE
    with (
        engine.compile(guest(body), stage_spec(), label="bad") as plugin,
        pytest.raises(PluginBadOutput, match="plugin 'bad', output 'y'") as caught,
    ):
        plugin.call([floats(1, 2, 3)])
    assert caught.value.data == {"plugin": "bad", "output": "y"}


def test_pointers_that_the_guest_changes_are_not_followed(engine: SandboxEngine) -> None:
    body = f"{ALIAS} (memory.fill (local.get $call) (i32.const -1) (i32.const 64)) {DONE}"
    with engine.compile(guest(body), stage_spec()) as plugin:
        assert plugin.call([floats(1, 2)])[0].data.tolist() == [1, 2]


def test_fixed_axis(engine: SandboxEngine) -> None:
    with (
        engine.compile(guest(), stage_spec(outputs=(tensor_spec("y", "FP32", 4),))) as plugin,
        pytest.raises(PluginBadOutput, match=r"shape \[3\], not \[4\]"),
    ):
        plugin.call([floats(1, 2, 3)])


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


def test_an_output_that_was_not_set(engine: SandboxEngine) -> None:
    with engine.compile(guest(DONE), stage_spec()) as plugin, pytest.raises(PluginBadOutput, match="shape"):
        plugin.call([floats(1)])


def test_product_of_two_axes_does_not_wrap(engine: SandboxEngine) -> None:
    spec = stage_spec(outputs=(tensor_spec("y", "FP32", "a", "b"),))
    body = f"""(call $describe {OUT} (i32.const 4096) (i64.const 0) (i64.const 0x100000000))
               (i64.store offset=32 {OUT} (i64.const 0x100000000)) {DONE}"""
    with engine.compile(guest(body), spec) as plugin, pytest.raises(PluginBadOutput, match="takes"):
        plugin.call([floats(1)])


def test_axes_that_no_array_can_have(engine: SandboxEngine) -> None:
    spec = stage_spec(outputs=(tensor_spec("y", "FP32", "a", "b", "c"),))
    body = f"""(call $describe {OUT} (i32.const 4096) (i64.const 0) (i64.const 0x7fffffffffffffff))
               (i64.store offset=32 {OUT} (i64.const 0x7fffffffffffffff)) (i64.store offset=40 {OUT} (i64.const 0))
               {DONE}"""
    with engine.compile(guest(body), spec) as plugin, pytest.raises(PluginBadOutput, match="shape"):
        plugin.call([floats(1)])


@pytest.mark.parametrize(
    ("elements", "count", "why"),
    [
        (b"\x01\0\0\0a", 2, "reaches beyond"),
        (b"\x02\0\0\0a", 1, "reaches beyond"),
        (b"\xff\xff\xff\xffa", 1, "reaches beyond"),
        (b"\x01\0\0\0abc", 1, "after its 1"),
        (b"", MAX_ELEMENTS + 1, "over 65536"),
        (b"", -1, "shape"),
    ],
)
def test_bytes_elements_that_do_not_fill_it(engine: SandboxEngine, elements: bytes, count: int, why: str) -> None:
    spec = stage_spec(outputs=(tensor_spec("y", "BYTES", "k"),))
    body = f"(call $describe {OUT} (i32.const 1024) (i64.const {len(elements)}) (i64.const {count})) {DONE}"
    module = guest(body, extra=data(elements))
    with engine.compile(module, spec) as plugin, pytest.raises(PluginBadOutput, match=why):
        plugin.call([floats(1)])


def test_bool_elements_are_0_or_1(engine: SandboxEngine) -> None:
    spec = stage_spec(outputs=(tensor_spec("y", "BOOL", "k"),))
    body = f"(call $describe {OUT} (i32.const 1024) (i64.const 3) (i64.const 3)) {DONE}"
    with engine.compile(guest(body, extra=data(b"\0\1\1")), spec) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [False, True, True]
    with engine.compile(guest(body, extra=data(b"\0\1\2")), spec) as plugin, pytest.raises(PluginBadOutput):
        plugin.call([floats(1)])


def test_outputs_may_overlap_but_not_multiply(engine: SandboxEngine) -> None:
    """Ten outputs over the same 100 KB would let 128 KiB of guest memory cost 1 MB of the host's."""
    names = [f"y{i}" for i in range(10)]
    spec = stage_spec(outputs=tuple(tensor_spec(name, "UINT8", "k") for name in names))

    def body(size: int) -> str:
        return "".join(
            f"""(call $describe (call $out (local.get $call) (i32.const {i}))
                                (i32.const 8) (i64.const {size}) (i64.const {size}))"""
            for i in range(10)
        )

    with engine.compile(guest(body(1000) + DONE), spec) as plugin:
        assert len({y.data.tobytes() for y in plugin.call([floats(1)])}) == 1
    with engine.compile(guest(body(100_000) + DONE), spec) as plugin, pytest.raises(PluginBadOutput, match="together"):
        plugin.call([floats(1)])


def test_memory_is_measured_after_the_call(engine: SandboxEngine) -> None:
    """A guest may grow its memory and answer from there."""
    body = f"""(drop (memory.grow (i32.const 2))) (i32.store (i32.const 200000) (i32.const 7))
               (call $describe {OUT} (i32.const 200000) (i64.const 4) (i64.const 1)) {DONE}"""
    with engine.compile(guest(body), stage_spec(outputs=(tensor_spec("y", "INT32", "k"),))) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [7]


@pytest.mark.parametrize("returned", ["-16", "131056", "2147483632", "4100", "1"])
def test_alloc_returns_nonsense(engine: SandboxEngine, returned: str) -> None:
    alloc = f'(func (export "sandseal_alloc") (param i32 i32) (result i32) (i32.const {returned}))'
    with (
        engine.compile(guest(alloc=alloc), stage_spec()) as plugin,
        pytest.raises(PluginBadOutput, match="sandseal_alloc returned"),
    ):
        plugin.call([floats(*range(100))])


def test_alloc_returns_nothing(engine: SandboxEngine) -> None:
    alloc = '(func (export "sandseal_alloc") (param i32 i32) (result i32) (i32.const 0))'
    with engine.compile(guest(alloc=alloc), stage_spec()) as plugin, pytest.raises(PluginOutOfMemory) as caught:
        plugin.call([floats(1)])
    assert caught.value.data["trap"] == "out_of_memory"
    assert caught.value.data["limit"] == 4 << 20


def test_a_call_larger_than_the_limit(engine: SandboxEngine) -> None:
    large = Tensor("x", DataType.FP32, (2 << 20,), np.zeros(2 << 20, np.float32))
    with engine.compile(guest(), stage_spec(memory_mib=4)) as plugin, pytest.raises(PluginOutOfMemory):
        plugin.call([large])


def test_refusal_with_text(engine: SandboxEngine) -> None:
    text = "image is 3 px, \x1b[31mneeds 224\n"
    module = guest(refuse(text), extra=data(text.encode()))
    with engine.compile(module, stage_spec(), label="p") as plugin, pytest.raises(InputRefused) as caught:
        plugin.call([floats(1)])
    assert caught.value.message == "image is 3 px, \\x1b[31mneeds 224\\n"
    assert caught.value.data == {"plugin": "p", "status": 7}


def test_refusal_without_text(engine: SandboxEngine) -> None:
    with engine.compile(guest("(i32.const 255)"), stage_spec()) as plugin, pytest.raises(InputRefused) as caught:
        plugin.call([floats(1)])
    assert "status 255" in caught.value.message


def test_refusal_with_too_much_text(engine: SandboxEngine) -> None:
    body = """(memory.fill (i32.const 8192) (i32.const 97) (i32.const 5000))
              (i32.store offset=32 (local.get $call) (i32.const 8192))
              (i32.store offset=36 (local.get $call) (i32.const 5000)) (i32.const 1)"""
    with engine.compile(guest(body), stage_spec()) as plugin, pytest.raises(InputRefused) as caught:
        plugin.call([floats(1)])
    assert caught.value.message == "a" * 4096 + "…"


@pytest.mark.parametrize(("at", "size"), [(131071, 2), (-1, 1), (0, -1), (-4, 8)])
def test_refusal_with_text_out_of_bounds(engine: SandboxEngine, at: int, size: int) -> None:
    body = f"""(i32.store offset=32 (local.get $call) (i32.const {at}))
               (i32.store offset=36 (local.get $call) (i32.const {size})) (i32.const 1)"""
    with (
        engine.compile(guest(body), stage_spec()) as plugin,
        pytest.raises(PluginBadOutput, match=r"call\.error points outside"),
    ):
        plugin.call([floats(1)])


@pytest.mark.parametrize("status", [-1, 256, 2**31 - 1])
def test_unknown_status(engine: SandboxEngine, status: int) -> None:
    with (
        engine.compile(guest(f"(i32.const {status})"), stage_spec()) as plugin,
        pytest.raises(PluginBadOutput, match=f"returned status {status}"),
    ):
        plugin.call([floats(1)])


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
