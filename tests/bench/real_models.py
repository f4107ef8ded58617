"""Models that people use, as *Beyond one model* measures them, each with inputs that they are made for."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from demo import PACKAGES
from first_party import DEMOS, LINES, PAGES, PLUGINS
from numpy.typing import NDArray

from bench import minilm
from sandseal_host.tensors import Tensor
from sandseal_sdk import publish
from sandseal_sdk.bundles.graph import summarise
from sandseal_sdk.harness import load_plugin
from sandseal_sdk.packages import unpack_package
from sandseal_signing.manifest import ModelSpec

Arrays = Mapping[str, NDArray]


@dataclass(frozen=True)
class RealModel:
    """A model in FP32.

    Args:
        graph: its file.
        samples: what it is asked; axis 0 counts rows.
        measure: says what `alike` is.
        alike: of FP32's answers and others', from 0 to 1.
    """

    graph: Path
    samples: list[Arrays]
    measure: str
    alike: Callable[[NDArray, NDArray], float]


@contextmanager
def bundle(model: RealModel) -> Iterator[Path]:
    """A bundle folder of the model, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        yield publish.write_bundle(model.graph, Path(folder) / "bundle", name="bench.model")


def tensors(spec: ModelSpec, arrays: Arrays) -> tuple[Tensor, ...]:
    """A sample as a session takes it."""
    return tuple(Tensor(each.name, each.dtype, arrays[each.name].shape, arrays[each.name]) for each in spec.inputs)


def sentences() -> RealModel:
    """MiniLM, asked for some lines of the READMEs, one by one."""
    texts = [
        line
        for room in ("host", "sdk", "signing", "plugins")
        for line in (PLUGINS.parent / room / "README.md").read_text(encoding="utf-8").splitlines()
        if len(line) > 80 and line[0].isalpha()
    ]
    return RealModel(
        minilm.graph(),
        [minilm.tokens([text]) for text in texts[::40]],
        "the least cosine of two vectors",
        _least_cosine,
    )


def _pictures(name: str, files: list[Path]) -> RealModel:
    """A demo's model, asked for what its pre plugin makes of pictures."""
    package = unpack_package(DEMOS[name].package, PACKAGES, DEMOS[name].sha256)
    graph = package / DEMOS[name].model
    (tensor,) = summarise(graph).model["inputs"]
    with load_plugin(PLUGINS / f"{name}-pre") as plugin:
        made = [next(iter(plugin.call({"image": file.read_bytes()}).outputs.values())) for file in files]
    samples = [{tensor["name"]: np.ascontiguousarray(array, np.float32)} for array in made]
    return RealModel(graph, samples, "the least part of places with the same best class", _same_best)


def pages() -> RealModel:
    """A classifier of images: which way pages were turned."""
    return _pictures("image-classification", sorted(PAGES.glob("*.jpg")))


def lines() -> RealModel:
    """A recogniser of text in images of lines."""
    return _pictures("text-recognition", sorted(LINES.glob("*.png")))


def _least_cosine(one: NDArray, other: NDArray) -> float:
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return float(((one * other).sum(-1) / lengths).min())


def _same_best(one: NDArray, other: NDArray) -> float:
    return float((one.argmax(-1) == other.argmax(-1)).mean())


ALL: Mapping[str, Callable[[], RealModel]] = {
    "MiniLM": sentences, "image classifier": pages, "text recogniser": lines,
}  # fmt: skip
