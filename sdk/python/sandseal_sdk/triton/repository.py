"""A model repository: a folder per model, with config.pbtxt and a folder per version."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandseal_sdk import publish
from sandseal_sdk.bundles.graph import GraphSummary, summarise
from sandseal_sdk.errors import FileExists, RepositoryInvalid
from sandseal_sdk.triton.config import TritonConfig, read_config
from sandseal_sdk.triton.tensors import TensorConfig
from sandseal_signing.manifest import SCHEMA, render_manifest
from sandseal_signing.names import MANIFEST


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """What became of one model.

    Args:
        name: what the bundle is called; Triton takes names that Sandseal does not.
        version: the newest, which was taken in.
        bundle: the folder, ready for `sandseal pack`.
        unmapped: members of its config.pbtxt that were not taken over, each with what to do about it.
    """

    name: str
    version: int
    bundle: Path
    unmapped: Mapping[str, str]


def import_repository(repository: Path, out: Path) -> Iterator[ImportedModel]:
    """Write a bundle folder for the newest version of every model.

    Args:
        repository: the folder that `tritonserver --model-repository` is given.
        out: gets a folder for each model.

    Raises:
        RepositoryInvalid: no model in it, or one that is not what its configuration says.
        ModelUnreadable: a graph that is not ONNX.
        ManifestInvalid: it has what a manifest cannot state, such as a state without a fixed size.
        FileExists: a bundle's folder is already there.
    """
    models = sorted(folder for folder in repository.iterdir() if folder.is_dir() and _versions(folder))
    if not models:
        raise RepositoryInvalid(
            f"{repository} has no model", hint="it must hold MODEL/config.pbtxt and MODEL/1/model.onnx"
        )
    for folder in models:
        yield _import_model(folder, out)


def _versions(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and int(path.name))


def _import_model(folder: Path, out: Path) -> ImportedModel:
    written = folder / "config.pbtxt"
    config = read_config(written) if written.exists() else TritonConfig()  # without it, Triton reads the graph too
    version = _versions(folder)[-1]
    source = folder / str(version)
    graph = summarise(source / config.file)
    name = _name(config.name or folder.name)
    bundle = out / name
    if bundle.exists():
        raise FileExists(f"{bundle} is already there", hint="give another --out, or move it away")
    manifest = {"schema": SCHEMA, "name": name, "version": version, "model": _model(config, graph, written)}
    document = render_manifest(manifest)
    bundle.mkdir(parents=True)
    for file in (config.file, *graph.external_data):
        shutil.copyfile(source / file, bundle / file)
    (bundle / MANIFEST).write_bytes(document)
    return ImportedModel(name, version, bundle, config.unmapped)


def _name(theirs: str) -> str:
    name = publish.as_name(theirs)
    if not name:
        raise RepositoryInvalid(f"the model name {theirs!r} cannot be made into one of a bundle", hint="rename it")
    return name


def _model(config: TritonConfig, graph: GraphSummary, written: Path) -> dict[str, Any]:
    """The manifest's `model`: the graph's, batched as the configuration says."""
    model = {"file": config.file, **graph.model}
    tensors = [*model["inputs"], *model["outputs"]]
    known = {tensor["name"]: tensor for tensor in tensors}
    batched = "batching" in model and config.max_rows != 0
    kept = {name: state.kind for state in config.states for name in (state.input, state.output)}
    for name, wanted in (*config.tensors.items(), *kept.items()):
        _check(name, wanted, known.get(name), bool(config.max_rows), written)
    if config.max_rows and not batched:
        raise RepositoryInvalid(
            f"{written} batches {config.max_rows} rows, and the graph leaves no axis 0 free for them"
        )
    if batched and config.max_rows:
        model["batching"] = {"max_rows": config.max_rows, "max_delay_us": config.max_delay_us}
    elif not batched:
        model.pop("batching", None)
        for tensor in tensors:
            tensor["shape"] = ["axis_batch" if axis == "batch" else axis for axis in tensor["shape"]]
    for name, kind in kept.items():
        shape = known[name]["shape"]
        shape[bool(config.max_rows) :] = _fixed(shape[bool(config.max_rows) :], kind.dims)
    if config.states:
        model["state"] = [{"input": state.input, "output": state.output} for state in config.states]
    if config.cache:
        model["cache"] = True
    return model


def _check(name: str, wanted: TensorConfig, ours: dict[str, Any] | None, batched: bool, written: Path) -> None:
    if ours is None:
        raise RepositoryInvalid(f"{written} names a tensor {name!r} that the graph does not have")
    shape, dims = ours["shape"][batched:], wanted.dims
    fits = len(shape) == len(dims) and all(
        isinstance(axis, str) or size in (axis, -1) for axis, size in zip(shape, dims, strict=True)
    )
    if ours["dtype"] != wanted.dtype or not fits:
        raise RepositoryInvalid(
            f"{written} says that {name!r} is {wanted.dtype} {list(dims)}; the graph says {ours['dtype']} {shape}",
            hint="correct the configuration; a `reshape` cannot be taken over",
        )


def _fixed(shape: list[int | str], dims: tuple[int, ...]) -> list[int | str]:
    """The axes that a graph leaves free, as large as the configuration says: a state has a size from the start."""
    return [size if isinstance(axis, str) and size >= 0 else axis for axis, size in zip(shape, dims, strict=True)]
