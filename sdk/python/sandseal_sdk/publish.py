"""From a model file to a folder that can be packed, signed and pushed at the first try."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sandseal_sdk.bundles.graph import summarise
from sandseal_sdk.bundles.keyfiles import write_key_pair
from sandseal_sdk.errors import FileExists, ModelUnreadable, PluginFolderInvalid
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.manifest import SCHEMA, Manifest, parse_manifest, render_manifest
from sandseal_signing.names import is_model_name
from sandseal_signing.tensor import TensorSpec

if TYPE_CHECKING:
    from sandseal_sdk.plugin.plugin_spec import PluginSpec


@dataclass(frozen=True, slots=True)
class Workspace:
    """What `sandseal init` made.

    Args:
        bundle: the folder to pack.
        key: the private key to sign with.
        trust: a trust policy that lets this key publish this model.
    """

    bundle: Path
    key: Path
    trust: Path


def name_of(model: Path) -> str:
    """A valid model name made from the name of a file or folder."""
    stem = model.resolve().name if model.is_dir() else model.stem
    return as_name(stem) or "model"


def as_name(text: str) -> str:
    """A valid model name made from some text; empty where there is none in it."""
    name = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")
    return name if is_model_name(name) else ""


def write_bundle(
    model: Path,
    folder: Path,
    *,
    name: str,
    version: int = 1,
    pre: "tuple[PluginSpec, Path] | None" = None,
    post: "tuple[PluginSpec, Path] | None" = None,
    metadata: dict[str, str] | None = None,
    raw: Sequence[str] = (),
    assets: Mapping[str, Path] = MappingProxyType({}),
) -> Path:
    """Write a bundle folder: the model, its plugins and their assets, and a manifest read from them.

    Args:
        model: an ONNX file; external data is taken from beside it.
        folder: created; must not exist.
        pre, post: a plugin's spec with its built wasm module.
        raw: content types that `POST /v1/models/{name}/call` takes; any when empty.
        assets: files for the plugins' assets, by name, in place of those in the plugins' folders.

    Raises:
        FileExists: the folder is already there.
        PluginFolderInvalid: a plugin's asset is nowhere.
        ModelUnreadable, ManifestInvalid: what must change first.
    """
    if folder.exists():
        raise FileExists(f"{folder} is already there", hint="give another --out, or move it away")
    graph = summarise(model)
    folder.mkdir(parents=True)
    shutil.copyfile(model, folder / "model.onnx")
    for weights in graph.external_data:
        shutil.copyfile(model.parent / weights, folder / weights)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "version": version,
        "model": {"file": "model.onnx", **graph.model},
        "metadata": metadata or {},
    }
    if raw:
        manifest["model"]["raw"] = list(raw)
    for stage, plugin in (("pre", pre), ("post", post)):
        if plugin:
            public = {"inputs": plugin[0].inputs} if stage == "pre" else {"outputs": plugin[0].outputs}
            tensors = {side: manifest_of_tensors(specs) for side, specs in public.items()}
            manifest[stage] = stage_members(folder, *plugin, assets) | tensors
    return write_manifest(folder, manifest)


def write_manifest(folder: Path, members: Mapping[str, Any]) -> Path:
    """Write bundle.json into a bundle's folder, and return the folder.

    Raises:
        ManifestInvalid: its members are not right.
    """
    (folder / "bundle.json").write_bytes(render_manifest(members))
    return folder


def manifest_of_tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    """Tensors as a manifest lists them."""
    return [{"name": spec.name, "dtype": str(spec.dtype), "shape": list(spec.shape)} for spec in specs]


def stage_members(folder: Path, spec: "PluginSpec", wasm: Path, assets: Mapping[str, Path]) -> dict[str, Any]:
    """Copy a plugin and its assets into a bundle's folder, and return its part of the manifest but for its tensors.

    Raises:
        PluginFolderInvalid: an asset is nowhere.
    """
    plugin = f"plugins/{spec.name}.wasm"
    (folder / "plugins").mkdir(exist_ok=True)
    shutil.copyfile(wasm, folder / plugin)
    for asset in spec.assets:
        (folder / asset).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_asset(spec, asset, assets), folder / asset)
    return {
        "plugin": plugin,
        "function": spec.function,
        "limits": {"memory_mib": spec.limits.memory_mib, "time_ms": spec.limits.time_ms},
        "imports": list(spec.imports),
        "assets": list(spec.assets),
        "config": json.loads(spec.config),
        "on_failure": spec.on_failure,
    }


def _asset(spec: "PluginSpec", name: str, assets: Mapping[str, Path]) -> Path:
    path = assets.get(name, spec.folder / name)
    if not path.is_file():
        raise PluginFolderInvalid(
            f"{spec.name} needs the asset {name}, and {path} is no file",
            hint=f"`--asset {name}=FILE` gives it; {spec.folder / 'README.md'} says what it is",
            asset=name,
        )
    return path


def read_manifest(bundle: Path) -> Manifest:
    """What a bundle folder says of itself.

    Raises:
        ModelUnreadable: it has no bundle.json that can be read.
        ManifestInvalid: what it says is not right.
    """
    try:
        return parse_manifest((bundle / "bundle.json").read_bytes())
    except OSError as error:
        raise ModelUnreadable(
            f"{bundle} is no bundle folder: its bundle.json cannot be read ({error.strerror})",
            hint="`sandseal init`, `export` and `import` write such folders",
        ) from None


def write_trust(path: Path, bundle: Path, keys: dict[str, PublicKey], *, holder: str) -> Path:
    """Write a starter trust policy: these keys may publish what the bundle folder holds, and nothing more.

    Args:
        path: the trust file to write.
        bundle: a bundle folder, read for its name, imports, limits and domains.
        keys: public keys by the name that they get in the policy.
        holder: who holds them.
    """
    manifest = read_manifest(bundle)
    imports = sorted({name for stage in manifest.stages for name in stage.imports})
    memory = max((stage.limits.memory_mib for stage in manifest.stages), default=64)
    time = max((stage.limits.time_ms for stage in manifest.stages), default=1000)
    quoted = {name: json.dumps(key.inline) for name, key in keys.items()}
    enrolled = "".join(
        f"[keys.{name}]\nholder = {json.dumps(holder)}\npublic = {public}\n\n" for name, public in quoted.items()
    )
    path.write_text(
        'schema = "sandseal.trust/1"\n'
        "serial = 1                          # raise it with every change\n\n"
        f"{enrolled}"
        "[[rules]]                           # the first rule that covers a name decides; no rule: refused\n"
        f"models = {json.dumps([manifest.name])}\n"
        f"keys = {json.dumps(list(keys))}\n"
        "threshold = 1                       # distinct holders who must sign\n"
        f"max_limits = {{memory_mib = {memory}, time_ms = {time}, total_mib = 4096}}\n"
        f"imports = {json.dumps(imports)}\n"
        f"domains = {json.dumps(list(manifest.model.domains))}\n",
        encoding="utf-8",
    )
    return path


def init(
    model: Path,
    out: Path,
    *,
    name: str,
    pre: "tuple[PluginSpec, Path] | None" = None,
    post: "tuple[PluginSpec, Path] | None" = None,
    assets: Mapping[str, Path] = MappingProxyType({}),
) -> Workspace:
    """Write `out` with a bundle folder, a fresh key pair and a trust policy that fit together."""
    return open_workspace(write_bundle(model, out / "bundle", name=name, pre=pre, post=post, assets=assets), out)


def open_workspace(bundle: Path, out: Path) -> Workspace:
    """Write a fresh key pair and a trust policy that fit a bundle folder beside it."""
    key = PrivateKey.generate()
    private, _ = write_key_pair(out / "publisher", key)
    trust = write_trust(out / "trust.toml", bundle, {"publisher": key.public}, holder="me")
    return Workspace(bundle, private, trust)
