import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from sandseal_host.errors import MemoryExhausted, ModelFailed, ModelInvalid, NotReady, RequestInvalid
from sandseal_host.optimisation import Optimisation
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import resident_bytes, trim
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import KINDS, Tensor, pack_bytes, tensor_from_buffer, unpack_bytes
from sandseal_signing.manifest import Batching
from sandseal_signing.tensor import DataType, TensorSpec
from support import onnx_models

CPU = Device.parse("cpu")


def open_session(model: onnx_models.OnnxModel, **options) -> Session:
    return Session.open(model.files, CPU, **options)


def tensor(name, values, dtype=DataType.FP32) -> Tensor:
    data = np.ascontiguousarray(values, KINDS[dtype].numpy)
    return Tensor(name, dtype, data.shape, data)


def text(name, shape, *elements: bytes) -> Tensor:
    return Tensor(name, DataType.BYTES, shape, pack_bytes(list(elements)))


def rows_of(count: int, width: int = 128, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def test_a_batch_gives_what_each_request_gives_alone():
    with open_session(onnx_models.mlp()) as session:
        requests = [(tensor("x", rows_of(n, seed=n)),) for n in (1, 3, 1, 7, 2)]
        together = session.run(requests)
        for inputs, outputs in zip(requests, together, strict=True):
            alone = session.run([inputs])[0]
            assert outputs[0].shape == outputs[0].data.shape == alone[0].shape
            np.testing.assert_allclose(outputs[0].data, alone[0].data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", Optimisation)
def test_a_graph_answers_alike_however_far_it_is_changed(level):
    inputs = (tensor("x", np.ones((1, 3, 96, 96))),)
    with (
        open_session(onnx_models.conv_net()) as plain,
        open_session(onnx_models.conv_net(), optimisation=level) as other,
    ):
        wanted, found = (session.run([inputs])[0][0].data for session in (plain, other))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_run_is_ended_from_another_thread_and_the_session_serves_on():
    with open_session(onnx_models.looping()) as session:
        handle = session.handle()
        timer = threading.Timer(0.05, setattr, (handle, "terminate", True))
        timer.start()
        with pytest.raises(ModelFailed, match="terminate"):
            session.run([(tensor("rounds", [[1_000_000_000]], DataType.INT64),)], handle)
        timer.join()
        assert session.run([(tensor("rounds", [[7]], DataType.INT64),)])[0][0].data.tolist() == [[7]]


def test_several_inputs_and_outputs():
    with open_session(onnx_models.pair()) as session:
        requests = [
            (tensor("a", np.full((n, 4), n)), tensor("b", np.full((n, 4), 10 * n), DataType.INT64)) for n in (1, 2, 3)
        ]
        for n, outputs in zip((1, 2, 3), session.run(requests), strict=True):
            assert [t.name for t in outputs] == ["s", "d"]
            assert np.array_equal(outputs[0].data, np.full((n, 4), 11 * n))
            assert np.array_equal(outputs[1].data, np.full((n, 4), -9 * n))


@pytest.mark.parametrize("dtype", [d for d in DataType if d is not DataType.BYTES])
def test_every_fixed_size_type_passes_through(dtype):
    with open_session(onnx_models.identity(dtype)) as session:
        size = KINDS[dtype].size
        bits = np.arange(6 * size, dtype=np.uint8) % (2 if dtype is DataType.BOOL else 100)
        x = tensor_from_buffer("x", dtype, (2, 3), bits.tobytes())
        for outputs in session.run([(x,), (x,)]) + session.run([(x,)]):
            assert outputs[0].dtype is dtype
            assert outputs[0].data.dtype == KINDS[dtype].numpy
            assert outputs[0].data.tobytes() == x.data.tobytes()


def test_strings_pass_through():
    with open_session(onnx_models.identity(DataType.BYTES)) as session:
        first = text("x", (1, 2), b"a", "h\u00e9\0".encode())
        second = text("x", (2, 2), b"", b"b", b"c" * 1000, b"")
        answers = session.run([(first,), (second,)])
        assert [outputs[0].shape for outputs in answers] == [(1, 2), (2, 2)]
        assert unpack_bytes(answers[0][0]) == [b"a", "h\u00e9\0".encode()]
        assert unpack_bytes(answers[1][0]) == [b"", b"b", b"c" * 1000, b""]
        assert unpack_bytes(session.run([(second,)])[0][0]) == unpack_bytes(second)


def test_bytes_that_are_no_text_are_the_request_s_fault():
    with (
        open_session(onnx_models.identity(DataType.BYTES)) as session,
        pytest.raises(RequestInvalid, match="'x' has an element that is not UTF-8"),
    ):
        session.run([(text("x", (1, 1), b"\xff"),)])


def test_without_a_batch_axis_one_request_runs_at_a_time():
    with open_session(onnx_models.nonzero()) as session:
        assert session.max_rows == 1
        (where,) = session.run([(tensor("x", [0, 5, 0, 7]),)])[0]
        assert where.data.tolist() == [[1, 3]]
        (where,) = session.run([(tensor("x", [0, 0]),)])[0]
        assert where.shape == where.data.shape == (1, 0)


def test_buckets_are_the_shapes_behind_the_batch_axis():
    with open_session(onnx_models.identity()) as free, open_session(onnx_models.mlp()) as fixed:
        buckets = [free.bucket((tensor("x", np.zeros(shape)),)) for shape in ((1, 3), (5, 3), (1, 4))]
        assert buckets[0] == buckets[1] != buckets[2]
        assert fixed.bucket((tensor("x", rows_of(1)),)) == fixed.bucket((tensor("x", rows_of(5)),))


def test_input_buffers_follow_changing_shapes():
    with open_session(onnx_models.identity(max_rows=64)) as session:
        for width, count in ((3, 2), (700, 9), (1, 1), (3, 33), (0, 4), (700, 5)):
            requests = [(tensor("x", np.full((1, width), n)),) for n in range(count)]
            for n, (y,) in enumerate(session.run(requests)):
                assert np.array_equal(y.data, np.full((1, width), n))


def test_a_single_request_is_not_copied_in_and_a_batch_once():
    with open_session(onnx_models.mlp()) as session:
        x = tensor("x", rows_of(2))
        session.run([(x,)])
        assert session.statistics().gathered_bytes_total == 0
        session.run([(x,), (x,)])
        assert session.statistics().gathered_bytes_total == 2 * x.nbytes


def test_unaligned_and_strange_inputs_are_copied_right():
    with open_session(onnx_models.identity()) as session:
        body = b"!" + rows_of(1, 4).tobytes()
        unaligned = tensor_from_buffer("x", DataType.FP32, (1, 4), memoryview(body)[1:])
        assert not unaligned.data.flags.aligned
        assert session.run([(unaligned,)])[0][0].data.tobytes() == body[1:]
        swapped = Tensor("x", DataType.FP32, (1, 2), np.array([[1, 2]], ">f4"))
        assert session.run([(swapped,)])[0][0].data.tolist() == [[1, 2]]


def test_outputs_stay_as_they_were_while_they_are_held():
    with open_session(onnx_models.mlp()) as session:
        held = [session.run([(tensor("x", rows_of(4, seed=n)),)])[0][0] for n in range(20)]
        copies = [y.data.copy() for y in held]
        for n in range(20):
            session.run([(tensor("x", rows_of(4, seed=100 + n)),)])
        assert all(np.array_equal(y.data, copy) for y, copy in zip(held, copies, strict=True))
    assert all(np.array_equal(y.data, copy) for y, copy in zip(held, copies, strict=True))


def test_outputs_cannot_be_written_to():
    with open_session(onnx_models.mlp()) as session:
        y = session.run([(tensor("x", rows_of(1)),), (tensor("x", rows_of(1)),)])[0][0]
        with pytest.raises(ValueError, match="read-only"):
            y.data[0, 0] = 1


def test_several_runs_at_once_do_not_meet():
    with open_session(onnx_models.mlp()) as session:
        wrong = []

        def work(seed: int):
            inputs = [(tensor("x", rows_of(1 + n % 3, seed=seed + n)),) for n in range(8)]
            expected = [session.run([one])[0][0].data.copy() for one in inputs]
            for _ in range(50):
                for outputs, wanted in zip(session.run(inputs), expected, strict=True):
                    if not np.allclose(outputs[0].data, wanted, rtol=1e-5, atol=1e-6):
                        wrong.append(seed)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert session.statistics().bindings <= 4


def test_a_failed_run_says_which_node_and_leaves_the_session_usable():
    with open_session(onnx_models.picky()) as session:
        good, bad = tensor("index", [[3]], DataType.INT64), tensor("index", [[99]], DataType.INT64)
        with pytest.raises(ModelFailed, match=r"Gather.*out of data bounds") as failed:
            session.run([(good,), (bad,)])
        assert "/" not in failed.value.message  # no path of the build
        assert session.run([(good,)])[0][0].data.tolist() == [[3]]


def test_rows_that_go_lost_are_seen_at_load():
    with pytest.raises(ModelInvalid, match=r"'y' has shape \[1, 4\] for 2 rows"):
        open_session(onnx_models.losing())


def test_a_model_that_refuses_zeros_still_loads():
    model = onnx_models.picky()
    shifted = onnx_models.picky_from_one()
    with open_session(shifted) as session, open_session(model) as other:
        assert not session.statistics().warm
        assert other.statistics().warm
        assert session.run([(tensor("index", [[1]], DataType.INT64),)])[0][0].data.tolist() == [[0]]


def test_fewer_rows_than_the_manifest_s_may_be_set_never_more():
    model = onnx_models.mlp(max_rows=8)
    with open_session(model, max_rows=4) as fewer, open_session(model, max_rows=100) as more:
        assert (fewer.max_rows, more.max_rows) == (4, 8)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "z"}, r"inputs are \['x'\], but the manifest's are \['z'\]"),
        ({"dtype": DataType.FP64}, r"tensor\(float\) in the graph, but FP64"),
        ({"shape": ("batch", 127)}, r"\['batch', 128\] in the graph, but \['batch', 127\]"),
        ({"shape": ("batch", "width")}, "in the graph, but"),
        ({"shape": ("batch", 128, 1)}, "in the graph, but"),
    ],
)
def test_an_input_that_differs_from_the_manifest_is_named(change, says):
    model = onnx_models.mlp()
    spec = replace(model.spec, inputs=(replace(model.spec.inputs[0], **change),))
    with pytest.raises(ModelInvalid, match=says):
        Session.open(ModelFiles(spec, model.data), CPU)


def test_outputs_must_be_the_manifest_s_too():
    model = onnx_models.pair()
    spec = replace(model.spec, outputs=model.spec.outputs[:1])
    with pytest.raises(ModelInvalid, match=r"outputs are \['d', 's'\]"):
        Session.open(ModelFiles(spec, model.data), CPU)


def test_the_manifest_may_fix_an_axis_that_the_graph_leaves_free():
    model = onnx_models.identity()
    fixed = TensorSpec("x", DataType.FP32, ("batch", 3))
    spec = replace(model.spec, inputs=(fixed,), outputs=(replace(fixed, name="y"),))
    with Session.open(ModelFiles(spec, model.data), CPU) as session:
        with pytest.raises(ModelFailed, match=r"\[1, 4\] for 1 rows, not \['batch', 3\]"):
            session.run([(tensor("x", np.zeros((1, 4))),)])
        session.run([(tensor("x", np.zeros((1, 3))),)])


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x08\x08"])
def test_garbage_is_no_model(data):
    with pytest.raises(ModelInvalid):
        Session.open(ModelFiles(onnx_models.mlp().spec, data), CPU)


@pytest.mark.parametrize("file", ["model.onnx", "deep/model.onnx"])
def test_weights_come_from_the_files_handed_over(file):
    model = onnx_models.outside(file)
    with open_session(model) as session:
        assert session.run([(tensor("x", np.eye(4)),)])[0][0].data.tolist() == (2 * np.eye(4)).tolist()


def test_weights_beyond_their_file_are_refused():
    with pytest.raises(ModelInvalid, match="does not load"):
        open_session(onnx_models.outside(offset=4))
    model = onnx_models.outside()
    with pytest.raises(ModelInvalid, match="not handed over"):
        Session.open(ModelFiles(model.spec, model.data), CPU)


@pytest.mark.parametrize("file", ["model.onnx", "deep/model.onnx"])
def test_weights_come_from_their_folder(tmp_path, file):
    model = onnx_models.outside(file)
    ((name, data),) = model.external.items()
    files = ModelFiles(model.spec, model.data, folder=tmp_path)
    with pytest.raises(ModelInvalid, match="does not load"):
        Session.open(files, CPU)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
    with Session.open(files, CPU) as session:
        assert session.run([(tensor("x", np.eye(4)),)])[0][0].data.tolist() == (2 * np.eye(4)).tolist()


def test_weights_may_be_dropped_once_the_session_is_there():
    model = onnx_models.outside()
    external = {name: bytearray(data) for name, data in model.external.items()}
    with Session.open(ModelFiles(model.spec, model.data, external), CPU) as session:
        for data in external.values():
            data[:] = bytes(len(data))
        assert session.run([(tensor("x", np.eye(4)),)])[0][0].data[0, 0] == 2


def test_the_graph_s_bytes_are_not_kept():
    model = onnx_models.mlp()
    held = sys.getrefcount(model.data)
    with open_session(model):
        held_while_open = sys.getrefcount(model.data)
    assert held_while_open == held


def test_bf16_beside_bytes_is_refused():
    model = onnx_models.mixed(DataType.BYTES, DataType.BF16)
    with pytest.raises(ModelInvalid, match="BF16"):
        open_session(model)


def test_what_the_session_holds_is_measured():
    model = onnx_models.mlp((1024, 4096, 1024))  # 34 MB
    trim()  # else the weights may come to lie in what earlier tests gave back
    with open_session(model) as session:
        statistics = session.statistics()
        assert statistics.device == "cpu"
        assert statistics.resident_bytes > 20e6
        session.run([(tensor("x", rows_of(1, 1024)),)] * 5)
        assert session.statistics().buffer_bytes == 8 * 1024 * 4  # the next power of two


def test_memory_is_back_after_close():
    model = onnx_models.mlp((1024, 4096, 1024))  # 34 MB
    open_session(model).close()
    before = resident_bytes()
    for _ in range(3):
        open_session(model).close()
    assert resident_bytes() - before < 20e6


def test_a_closed_session_says_so():
    session = open_session(onnx_models.mlp())
    session.close()
    session.close()
    with pytest.raises(NotReady, match="closed"):
        session.run([(tensor("x", rows_of(1)),)])


def test_a_run_without_room_is_the_operator_s():
    with open_session(onnx_models.huge()) as session, pytest.raises(MemoryExhausted):
        session.run([(tensor("size", [2**46], DataType.INT64),)])


def test_batching_of_the_manifest_is_the_bound():
    model = onnx_models.identity()
    spec = replace(model.spec, batching=Batching(max_rows=3))
    with Session.open(ModelFiles(spec, model.data), CPU) as session:
        assert session.max_rows == 3


def test_its_threads_sleep_while_they_wait_for_each_other():
    with open_session(onnx_models.identity()) as session:
        options = session._core.get_session_options()
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
