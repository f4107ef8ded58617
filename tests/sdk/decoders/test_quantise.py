import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from sandseal_sdk.decoders.quantise import BLOCK, Quantised, quantise, quantise_rows

ROWS, COLUMNS = 48, 96


def weights(columns: int = COLUMNS) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((ROWS, columns)).astype(np.float32)


def dequantised(found: Quantised, bits: int) -> np.ndarray:
    steps, zeros = found.packed.astype(np.int32), 128
    if bits == 4:
        steps = np.stack([steps & 15, steps >> 4], -1).reshape(*steps.shape[:2], BLOCK)
        assert found.zeros is not None
        packed = found.zeros.astype(np.int32)
        zeros = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)[:, : steps.shape[1], None]
    return ((steps - zeros) * found.scales[..., None]).reshape(len(steps), -1)


def multiplied(node: NodeProto, left: np.ndarray, weights: dict[str, np.ndarray], kind: int) -> np.ndarray:
    """What ONNX Runtime makes of x and constants: y, [rows, columns]."""
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(left.dtype), left.shape)
    y = helper.make_tensor_value_info("y", kind, ["rows", "columns"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"x": left})
    return product


@pytest.mark.parametrize(("bits", "error"), [(8, 0.006), (4, 0.085)])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS - 7])
def test_rounded_weights_are_near_the_weights(bits: int, error: float, columns: int) -> None:
    exact = weights(columns)
    near = dequantised(quantise(exact, bits), bits)
    assert near.shape == (ROWS, COLUMNS)
    assert not near[:, columns:].any()
    assert np.sqrt(np.mean((near[:, :columns] - exact) ** 2)) < error


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
def test_a_block_of_one_number_is_kept(bits: int, value: float) -> None:
    rows = np.full((2, BLOCK), value, np.float32)
    np.testing.assert_allclose(dequantised(quantise(rows, bits), bits), rows, rtol=1e-6)


def test_blocks_that_fit_into_four_bits_are_kept() -> None:
    rows = (np.random.default_rng(1).integers(0, 16, (4, 2, BLOCK)) - 8).astype(np.float32) / 4
    rows[..., :2] = -2, 1.75  # the whole range
    np.testing.assert_allclose(dequantised(quantise(rows.reshape(4, -1), 4), 4), rows.reshape(4, -1), atol=1e-6)


@pytest.mark.parametrize("bits", [8, 4])
def test_onnx_runtime_reads_them_the_same_way(bits: int) -> None:
    found = quantise(weights(), bits)
    parts = {"packed": found.packed, "scales": found.scales, **({} if found.zeros is None else {"zeros": found.zeros})}
    attributes = {"K": COLUMNS, "N": ROWS, "bits": bits, "block_size": BLOCK, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", *parts], ["y"], domain="com.microsoft", **attributes)
    left = np.random.default_rng(6).standard_normal((3, COLUMNS)).astype(np.float32)
    product = multiplied(node, left, parts, TensorProto.FLOAT)
    wanted = left @ dequantised(found, bits).T
    assert np.abs(product - wanted).max() < 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize(("bits", "error"), [(8, 0.009), (7, 0.018)])
def test_rounded_rows_are_near_the_rows(bits: int, error: float) -> None:
    exact = weights()
    packed, scales = quantise_rows(exact, bits)
    steps = packed.astype(np.int32) - (128 if bits == 8 else 0)
    assert np.abs(steps).max() == 2 ** (bits - 1) - 1
    assert np.sqrt(np.mean((steps * scales[:, None] - exact) ** 2)) < error


def test_products_of_seven_and_eight_bits_are_exact() -> None:
    """Without VNNI two of them are added up in 16 bits, which cut off what is larger."""
    left = np.full((1, COLUMNS), 255, np.uint8)
    right, _ = quantise_rows(np.repeat([[1.0], [-1.0]], COLUMNS, 1).astype(np.float32), 7)
    node = helper.make_node("MatMulInteger", ["x", "right"], ["y"])
    product = multiplied(node, left, {"right": np.ascontiguousarray(right.T)}, TensorProto.INT32)
    assert product.tolist() == [[255 * 63 * COLUMNS, -255 * 63 * COLUMNS]]
