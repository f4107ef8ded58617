"""Rows divided among requests and put together again."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_host.errors import ModelFailed
from sandseal_host.serving.rows import join_rows, split_rows
from sandseal_host.tensors import KINDS, Tensor, pack_bytes, unpack_bytes
from sandseal_signing.tensor import DataType, TensorSpec


def spec(name: str, dtype: DataType, *rest: int | str, batched: bool = True) -> TensorSpec:
    return TensorSpec(name, dtype, ("batch", *rest) if batched else rest)


def texts(rows: int, each: int, name: str = "t") -> Tensor:
    return Tensor(name, DataType.BYTES, (rows, each), pack_bytes([b"%d" % i * (i % 3) for i in range(rows * each)]))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Tensor, TensorSpec]:
    rows = draw(st.shared(st.integers(1, 40), key="rows"))
    dtype = draw(st.sampled_from(DataType))
    rest = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    shape = (rows, *rest)
    count = int(np.prod(shape))
    if dtype is DataType.BYTES:
        data = pack_bytes(draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count)))
    else:
        data = (np.arange(count) % 2).astype(KINDS[dtype].numpy).reshape(shape)
    return Tensor("t", dtype, shape, data), TensorSpec("t", dtype, ("batch", *rest))


@given(st.lists(tensors(), min_size=1, max_size=3), st.integers(1, 45))
def test_what_was_split_is_joined_to_the_same(given_ones: list[tuple[Tensor, TensorSpec]], most: int) -> None:
    inputs, specs = zip(*given_ones, strict=True)
    parts = list(split_rows(inputs, specs, most))
    sizes = [part[0].shape[0] for part in parts]
    assert sum(sizes) == inputs[0].shape[0]
    assert all(0 < size <= most for size in sizes)
    assert all(size == most for size in sizes[:-1])
    for part in parts:
        for tensor in part:
            assert tensor.shape[0] == part[0].shape[0]
            fixed = tensor.dtype is not DataType.BYTES
            assert tensor.data.shape == tensor.shape if fixed else len(unpack_bytes(tensor)) == np.prod(tensor.shape)
    for joined, whole in zip(join_rows(parts), inputs, strict=True):
        assert (joined.name, joined.dtype, joined.shape) == (whole.name, whole.dtype, whole.shape)
        assert joined.data.dtype == whole.data.dtype
        assert joined.data.tobytes() == whole.data.tobytes()


def test_what_counts_no_rows_goes_into_every_part() -> None:
    rows = Tensor("x", DataType.FP32, (5, 2), np.arange(10, dtype=np.float32).reshape(5, 2))
    scale = Tensor("scale", DataType.FP32, (3,), np.ones(3, np.float32))
    specs = (spec("x", DataType.FP32, 2), spec("scale", DataType.FP32, 3, batched=False))
    parts = list(split_rows((rows, scale), specs, 2))
    assert [part[0].shape for part in parts] == [(2, 2), (2, 2), (1, 2)]
    assert all(part[1] is scale for part in parts)
    assert list(split_rows((scale,), specs[1:], 2)) == [(scale,)]


def test_texts_keep_their_rows() -> None:
    parts = list(split_rows((texts(3, 2),), (spec("t", DataType.BYTES, 2),), 2))
    assert [unpack_bytes(part[0]) for part in parts] == [[b"", b"1", b"22", b""], [b"4", b"55"]]
    assert parts[1][0].shape == (1, 2)


def test_rows_that_go_in_one_request_are_not_copied() -> None:
    tensor = texts(3, 1)
    assert next(split_rows((tensor,), (spec("t", DataType.BYTES, 1),), 3))[0] is tensor
    assert join_rows([(tensor,)]) == (tensor,)


def test_rows_without_elements_are_made_when_they_are_asked_for() -> None:
    rows = 2**31 - 1
    tensor = Tensor("x", DataType.FP32, (rows, 0), np.empty((rows, 0), np.float32))
    first, second = islice(split_rows((tensor,), (spec("x", DataType.FP32, "n"),), 2), 2)
    assert first[0].shape == second[0].data.shape == (2, 0)


def test_parts_of_different_shapes_are_not_one_tensor() -> None:
    with pytest.raises(ModelFailed, match=r"'t' has rows of the shapes \[\[1\], \[2\]\]"):
        join_rows([(texts(1, 1),), (texts(1, 2),)])
