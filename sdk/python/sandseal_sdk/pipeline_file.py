"""A pipeline as its publisher writes it, in TOML, made into a bundle folder (schema sandseal.pipeline/1, closed).

What plugins and models take and give is read from them, so that the file says only what comes from where; sdk/README.md
shows one.
"""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandseal_sdk.errors import FileExists, PipelineFileInvalid
from sandseal_sdk.first_party import PREFIX, ready_plugin
from sandseal_sdk.publish import manifest_of_tensors, read_manifest, stage_members, write_manifest
from sandseal_sdk.toolchains.compiler import Progress
from sandseal_signing.errors import SandsealError
from sandseal_signing.manifest import SCHEMA as BUNDLE
from sandseal_signing.manifest import Manifest
from sandseal_signing.pack import read_seal
from sandseal_signing.pipeline import REQUEST
from sandseal_signing.schema import Node
from sandseal_signing.tensor import DataType, TensorSpec, read_tensors

SCHEMA = "sandseal.pipeline/1"

Tensors = list[dict[str, Any]]


def write_pipeline(
    file: Path,
    folder: Path,
    *,
    name: str,
    version: int = 1,
    metadata: Mapping[str, str] | None = None,
    progress: Progress = lambda line: None,
) -> Path:
    """Write a pipeline's bundle folder: its own plugins, built if needed, and its manifest.

    Args:
        file: the TOML; paths in it are relative to it.
        folder: created; must not exist.
        progress: gets lines for the user while something is built.

    Raises:
        FileExists: the folder is already there.
        PipelineFileInvalid: the file is not as it must be; the message names the place.
        ManifestInvalid: what the file says does not go together.
        PluginFolderInvalid, BuildError: a plugin that cannot be used.
    """
    if folder.exists():
        raise FileExists(f"{folder} is already there", hint="give another --out, or move it away")
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PipelineFileInvalid(f"{file} cannot be read: {error}") from None
    folder.mkdir(parents=True)
    try:
        pipeline = _Writer(file.parent, folder, progress).pipeline(Node(document, "", PipelineFileInvalid))
        members = {"schema": BUNDLE, "name": name, "version": version, "pipeline": pipeline}
        return write_manifest(folder, members | {"metadata": dict(metadata or {})})
    except SandsealError:
        shutil.rmtree(folder)  # so that it can be tried again
        raise


class _Writer:
    """Turns the file's steps and outputs into the manifest's, and puts their plugins into the folder."""

    def __init__(self, base: Path, folder: Path, progress: Progress) -> None:
        self._base, self._folder, self._progress = base, folder, progress
        self._made: dict[str, dict[str, TensorSpec]] = {}  # by step

    def pipeline(self, root: Node) -> dict[str, Any]:
        root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
        inputs = read_tensors(root, "inputs")
        self._made[REQUEST] = {spec.name: spec for spec in inputs}
        raw = root.texts("raw", (), rule="content types such as image/png")
        steps = [self._step(node) for node in root.children("steps")]
        outputs = [self._output(node) for node in root.children("outputs")]
        root.close()
        return {"inputs": manifest_of_tensors(inputs), "raw": list(raw), "steps": steps, "outputs": outputs}

    def _step(self, node: Node) -> dict[str, Any]:
        name: str = node.text("name")
        step = self._plugin(node) if node.has("plugin") else self._model(node)
        node.close()
        self._made[name] = {
            spec["name"]: TensorSpec(spec["name"], DataType(spec["dtype"]), tuple(spec["shape"]))
            for spec in step["outputs"]
        }
        return {"name": name, **step}

    def _output(self, node: Node) -> dict[str, Any]:
        """A public output, whose kind is that of what it comes from, where the file says nothing else."""
        name, source = node.text("name"), node.text("from")
        step, _, tensor = source.partition(".")
        spec = self._made.get(step, {}).get(tensor)
        if spec is None:
            node.fail("from", f"there is no {source!r}")
        shape = node.take("shape", list(spec.shape))
        node.close()
        return {"name": name, "dtype": str(spec.dtype), "shape": shape, "from": source}

    def _plugin(self, node: Node) -> dict[str, Any]:
        given = node.text("plugin")
        spec, wasm = ready_plugin(
            given if given.startswith(PREFIX) else str(self._base / given), "step", self._progress
        )
        config = node.take("config", {})
        members = stage_members(self._folder, spec, wasm, {})
        members["config"] = {**members["config"], **config}
        return {"inputs": _fed(node, spec.inputs), "outputs": manifest_of_tensors(spec.outputs), **members}

    def _model(self, node: Node) -> dict[str, Any]:
        manifest, bundle = _read(self._base / node.text("model"))
        wanted = node.texts("outputs", tuple(spec.name for spec in manifest.outputs))
        outputs = [spec for spec in manifest.outputs if spec.name in wanted]
        if len(outputs) != len(wanted):
            node.fail("outputs", f"{manifest.name} gives {[spec.name for spec in manifest.outputs]}")
        pin = node.flag("pin", False)
        if pin and not bundle:
            node.fail("pin", "needs a .seal file, since a folder has no id yet")
        return {
            "model": manifest.name,
            **({"bundle": bundle} if pin else {}),
            "inputs": _fed(node, manifest.inputs),
            "outputs": manifest_of_tensors(outputs),
        }


def _fed(node: Node, specs: Sequence[TensorSpec]) -> Tensors:
    """What a step takes, with what each comes from."""
    sources = node.child("from")
    fed = [{**tensor, "from": sources.text(tensor["name"])} for tensor in manifest_of_tensors(specs)]
    sources.close()
    return fed


def _read(path: Path) -> tuple[Manifest, str]:
    """What a bundle folder or a .seal file says of itself, and the id of the latter."""
    if path.is_dir():
        return read_manifest(path), ""
    try:
        with path.open("rb", buffering=0) as file:
            contents = read_seal(file)
    except OSError as error:
        raise PipelineFileInvalid(f"{path} cannot be read: {error.strerror}") from None
    return contents.manifest, contents.id.hex
