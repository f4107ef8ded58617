"""The main job on a real model: `make demo`.

Takes Magika's file-type model (Apache-2.0) out of its PyPI package, builds its pre- and post-plugins from
NumPy-Python, seals everything into one signed bundle, serves it on loopback, and asks what some real files are. Then
it tries to slip three bad bundles in.
"""

import gzip
import os
import py_compile
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
import wave
import zipfile
from collections.abc import Iterator
from pathlib import Path

from demo import PACKAGES, ROOT, console, serve, step, whisper
from demo import WORK as DEMOS
from rich.table import Table

from sandseal_sdk import publish
from sandseal_sdk.build import build_plugin
from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostRefused
from sandseal_sdk.packages import unpack_package
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder

WORK = DEMOS / "demo"
MAGIKA = "magika==1.0.3"
MODEL = "magika/models/standard_v3_3/model.onnx"
NAME = "demo.file-type"
STAGES = ("pre", "queue", "run", "post")


def main() -> None:
    """Run the whole story; any surprise ends it with a non-zero status."""
    began = time.perf_counter()
    shutil.rmtree(WORK / "run", ignore_errors=True)
    (WORK / "run").mkdir(parents=True)
    model = fetch_model()
    seal = seal_model(model)
    with serve(WORK / "run") as client:
        step("pushing the bundle")
        pushed = client.push(seal)
        console.print(f"  {pushed['state']}: {pushed['name']} version {pushed['version']}, bundle {pushed['id'][:16]}…")
        ask(client, sorted(sample_files(model, seal)))
        refuse(client, seal)
    console.print(f"\n[bold green]done[/] in {time.perf_counter() - began:.1f} s; everything is under {WORK}")


def fetch_model() -> Path:
    """The model out of its wheel on PyPI, kept for the next run; writes the labels that the post-plugin reads."""
    step(f"taking the model out of {MAGIKA} on PyPI")
    package = unpack_package(MAGIKA, PACKAGES)
    labels = ROOT / "plugins" / "file-type-post" / "labels.py"
    subprocess.run([sys.executable, str(labels), str(package / "magika")], check=True)
    return package / MODEL


def seal_model(model: Path) -> Path:
    """Build the plugins, write the bundle folder, pack and sign it."""
    plugins = {}
    for stage in ("pre", "post"):
        folder = ROOT / "plugins" / f"file-type-{stage}"
        step(f"building {folder.relative_to(ROOT)} to WebAssembly")
        result = build_plugin(folder, progress=whisper)
        plugins[stage] = (read_plugin_spec(folder), result.wasm)
    step("packing and signing")
    bundle = publish.write_bundle(
        model,
        WORK / "run" / "bundle",
        name=NAME,
        pre=plugins["pre"],
        post=plugins["post"],
        metadata={"licence": "Apache-2.0", "description": "What kind of file is this? Google's Magika, standard_v3_3"},
    )
    key = PrivateKey.generate()
    publish.write_trust(WORK / "run" / "trust.toml", bundle, {"demo": key.public}, holder="the demo")
    seal = WORK / "run" / "file-type.seal"
    with seal.open("wb") as file:
        contents = pack_folder(bundle, file, [key])
    console.print(f"  {seal.name}: {seal.stat().st_size:,} bytes, bundle {contents.id.hex[:16]}…")
    return seal


def sample_files(model: Path, seal: Path) -> Iterator[Path]:
    """Real files of many kinds: some of this repository, some that Python's own libraries write."""
    yield from (ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / ".ci" / "run")
    yield from (Path(__file__), ROOT / "sdk" / "c" / "sandseal.h", model, model.with_name("config.min.json"), seal)
    yield from (ROOT / "plugins" / "file-type-pre" / "build").glob("*.wasm")
    files = WORK / "run" / "files"
    files.mkdir()
    source = Path(__file__).read_bytes()
    (files / "demo.gz").write_bytes(gzip.compress(source))
    py_compile.compile(__file__, str(files / "demo.pyc"))
    with zipfile.ZipFile(files / "demo.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo.py", source)
    with tarfile.open(files / "demo.tar", "w") as tar:
        tar.add(__file__, "demo.py")
    with wave.open(str(files / "noise.wav"), "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes(os.urandom(16_000))
    database = sqlite3.connect(files / "demo.sqlite")
    with database:
        database.execute("create table files (name text, size integer)")
        database.executemany("insert into files values (?, ?)", [(p.name, p.stat().st_size) for p in ROOT.iterdir()])
    database.close()
    yield from files.iterdir()


def ask(client: Client, files: list[Path]) -> None:
    """Call the model on every file and print what it says, with the time of each stage in milliseconds."""
    step(f"asking what {len(files)} files are: POST /v1/models/{NAME}/call")
    table = Table("file", "bytes", "label", "score", *(f"{stage} ms" for stage in STAGES))
    for path in files:
        answer = client.call(NAME, path.read_bytes())
        outputs, timings = answer["outputs"], answer["timings"]
        times = (f"{timings.get(stage, 0):.2f}" for stage in STAGES)
        label, score = outputs["label"][0], outputs["score"][0]
        table.add_row(path.name, f"{path.stat().st_size:,}", label, f"{score:.3f}", *times)
    console.print(table)


def refuse(client: Client, seal: Path) -> None:
    """Push three bundles that must not be accepted, and show why they are not."""
    step("pushing three bundles that must be refused")
    run, bundle = WORK / "run", WORK / "run" / "bundle"
    tampered, unsigned, stranger = (run / f"{name}.seal" for name in ("tampered", "unsigned", "stranger"))
    content = bytearray(seal.read_bytes())
    content[-len(content) // 3] ^= 1
    tampered.write_bytes(content)
    with unsigned.open("wb") as file:
        pack_folder(bundle, file)
    with stranger.open("wb") as file:
        pack_folder(bundle, file, [PrivateKey.generate()])
    table = Table("bundle", "answer", "reason")
    for path in (tampered, unsigned, stranger):
        try:
            client.push(path)
        except HostRefused as refusal:
            table.add_row(path.stem, f"{refusal.status} {refusal.code}", refusal.message)
        else:
            sys.exit(f"{path.name} was accepted, and must not be")
    console.print(table)


if __name__ == "__main__":
    main()
