"""Optimised graphs are taken where they are this host's own, of this bundle, level and processor; else made again."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sandseal_host.optimisation import Optimisation
from sandseal_host.private_cache import PrivateCache
from sandseal_host.runtime import saved_graphs
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.saved_graphs import SavedGraph, SavedGraphs
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support.onnx_models import OnnxModel, conv_net, outside

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="graphs are kept on Linux")

CPU, ALL = Device.parse("cpu"), Optimisation.ALL
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)


@pytest.fixture
def kept(tmp_path: Path) -> PrivateCache:
    return PrivateCache(tmp_path / "graphs", tmp_path / "keys" / "graphs.key", 1 << 24, "optimised graphs")


@pytest.fixture
def model() -> OnnxModel:
    return conv_net(32)


def answer(model: OnnxModel, kept: PrivateCache, bundle: str = "a") -> np.ndarray:
    """Load a bundle's model, and ask it."""
    return ask(model, SavedGraphs(kept).of(bundle, model.files, CPU, ALL))


def ask(model: OnnxModel, saved: SavedGraph | None) -> np.ndarray:
    with Session.open(model.files, CPU, saved=saved) as session:
        return session.run([(Tensor("x", DataType.FP32, IMAGE.shape, IMAGE),)])[0][0].data.copy()


def counts(kept: PrivateCache) -> tuple[int, int, int]:
    statistics = kept.statistics()
    return statistics.hits_total, statistics.misses_total, statistics.rejected_total


def entry(tmp_path: Path) -> Path:
    """The one file that is kept."""
    (found,) = (tmp_path / "graphs").iterdir()
    return found


def test_the_second_load_takes_the_saved_graph(kept: PrivateCache, model: OnnxModel, tmp_path: Path) -> None:
    first = answer(model, kept)
    assert counts(kept) == (0, 1, 0)
    assert entry(tmp_path).stat().st_size > 1000
    np.testing.assert_array_equal(answer(model, kept), first)
    assert counts(kept) == (1, 1, 0)


def test_a_changed_entry_is_made_again(
    kept: PrivateCache, model: OnnxModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = answer(model, kept)
    content = bytearray(entry(tmp_path).read_bytes())
    content[-100] ^= 1
    entry(tmp_path).write_bytes(content)
    np.testing.assert_array_equal(answer(model, kept), first)
    assert counts(kept) == (0, 2, 1)
    assert "is not what this host wrote there" in caplog.text
    np.testing.assert_array_equal(answer(model, kept), first)
    assert counts(kept) == (1, 2, 1)


def test_another_bundle_s_entry_is_not_taken(kept: PrivateCache, model: OnnxModel, tmp_path: Path) -> None:
    answer(model, kept)
    theirs = entry(tmp_path)
    answer(model, kept, "b")
    (ours,) = {*(tmp_path / "graphs").iterdir()} - {theirs}
    ours.write_bytes(theirs.read_bytes())
    answer(model, kept, "b")
    assert counts(kept) == (0, 3, 1)


def test_what_a_key_is_made_of(kept: PrivateCache, model: OnnxModel, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = SavedGraphs(kept)
    other = replace(model.spec, file="int8.onnx")
    keys = [
        graphs.of("a", model.files, CPU, ALL),
        graphs.of("b", model.files, CPU, ALL),
        graphs.of("a", ModelFiles(other, model.data), CPU, ALL),
        graphs.of("a", model.files, CPU, Optimisation.BASIC),
    ]
    monkeypatch.setattr(onnxruntime, "get_version_string", lambda: "0.1")
    keys.append(graphs.of("a", model.files, CPU, ALL))
    monkeypatch.setattr(onnxruntime, "get_build_info", lambda: "of another commit")
    keys.append(graphs.of("a", model.files, CPU, ALL))
    monkeypatch.setattr(saved_graphs, "_processor", lambda: "a calculator")
    keys.append(graphs.of("a", model.files, CPU, ALL))
    assert len({saved._key for saved in keys if saved}) == 7


def test_what_is_not_kept(kept: PrivateCache, model: OnnxModel) -> None:
    graphs, weights = SavedGraphs(kept), outside()
    assert graphs.of("a", model.files, Device(DeviceKind.CUDA), ALL) is None
    assert graphs.of("a", model.files, CPU, Optimisation.NONE) is None
    assert graphs.of("a", weights.files, CPU, ALL) is None
    assert graphs.of("a", ModelFiles(model.spec, bytes((32 << 20) + 1)), CPU, ALL) is None


def test_a_graph_that_grows_too_large_is_not_written_again(
    kept: PrivateCache, model: OnnxModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = SavedGraphs(kept).of("a", model.files, CPU, ALL)
    monkeypatch.setattr(saved_graphs, "_MOST", 0)
    first = ask(model, saved)
    assert kept.statistics().size_bytes == 32  # a MAC of nothing
    np.testing.assert_array_equal(ask(model, saved), first)
    assert counts(kept) == (1, 1, 0)


def test_a_saved_graph_that_does_not_load_is_given_up(kept: PrivateCache, model: OnnxModel, tmp_path: Path) -> None:
    first = answer(model, kept)
    kept.put(entry(tmp_path).name, b"no graph, under a right MAC")
    for hits in (1, 2):
        np.testing.assert_array_equal(answer(model, kept), first)
        assert counts(kept) == (hits, 1, 0)


def test_what_does_not_load_at_all_is_not_given_up(kept: PrivateCache, model: OnnxModel) -> None:
    def no_memory(*_: object) -> onnxruntime.InferenceSession:
        raise MemoryError

    saved = SavedGraphs(kept).of("a", model.files, CPU, ALL)
    assert saved is not None
    with pytest.raises(MemoryError):
        saved.open(model.data, ALL, no_memory)
    assert kept.statistics().size_bytes == 0


def test_a_session_that_cannot_write_its_graph_is_made_all_the_same(
    kept: PrivateCache, model: OnnxModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "memfd_create", lambda _: os.open("/dev/full", os.O_WRONLY))
    assert answer(model, kept).shape == (1, 64)
