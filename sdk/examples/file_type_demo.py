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
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandseal_sdk import publish
from sandseal_sdk.build import build_plugin
from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostRefused
from sandseal_sdk.plugin_spec import read_plugin_spec
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".work" / "demo"
MAGIKA = "magika==1.0.3"
MODEL = "magika/models/standard_v3_3/model.onnx"
CONFIGURATION = ("magika/models/standard_v3_3/config.min.json", "magika/config/content_types_kb.min.json")
NAME = "demo.file-type"
STAGES = ("pre", "queue", "run", "post")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def main() -> None:
    """Run the whole story; any surprise ends it with a non-zero status."""
    began = time.perf_counter()
    shutil.rmtree(WORK / "run", ignore_errors=True)
    (WORK / "run").mkdir(parents=True)
    model = fetch_model()
    seal, key = seal_model(model)
    with serve(key) as client:
        step("pushing the bundle")
        pushed = client.push(seal)
        console.print(f"  {pushed['state']}: {pushed['name']} version {pushed['version']}, bundle {pushed['id'][:16]}…")
        ask(client, sorted(sample_files(model, seal)))
        refuse(client, seal)
    console.print(f"\n[bold green]done[/] in {time.perf_counter() - began:.1f} s; everything is under {WORK}")


def step(text: str) -> None:
    """Say what happens next."""
    console.print(f"[bold]{text}[/]")


def fetch_model() -> Path:
    """The model out of its wheel on PyPI, kept for the next run; writes the labels that the post-plugin reads."""
    package = WORK / "package"
    if not (package / MODEL).exists():
        step(f"downloading {MAGIKA} from PyPI for its model")
        wheels = WORK / "wheels"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), MAGIKA]
        subprocess.run(pip, check=True)
        with zipfile.ZipFile(next(wheels.glob("magika-*.whl"))) as wheel:
            for name in (*CONFIGURATION, MODEL):
                (package / name).parent.mkdir(parents=True, exist_ok=True)
                (package / name).write_bytes(wheel.read(name))
    labels = ROOT / "plugins" / "file-type-post" / "labels.py"
    subprocess.run([sys.executable, str(labels), str(package / "magika")], check=True)
    return package / MODEL


def seal_model(model: Path) -> tuple[Path, PrivateKey]:
    """Build the plugins, write the bundle folder, pack and sign it."""
    plugins = {}
    for stage in ("pre", "post"):
        folder = ROOT / "plugins" / f"file-type-{stage}"
        step(f"building {folder.relative_to(ROOT)} to WebAssembly")
        result = build_plugin(folder, progress=lambda line: console.print(f"  {line}", style="dim"))
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
    return seal, key


@contextmanager
def serve(key: PrivateKey) -> Iterator[Client]:
    """A host on a free port of the loopback interface, stopped at the end."""
    step("starting the host")
    run = WORK / "run"
    command = [sys.executable, "-m", "sandseal_sdk", "serve", "--port", "0"]
    command += ["--trust", str(run / "trust.toml"), "--data", str(run / "data")]
    with (run / "host.log").open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as host:
        try:
            url = host.stdout.readline().decode().strip() if host.stdout else ""
            if not url:
                sys.exit(f"the host did not start; its log:\n{(run / 'host.log').read_text()}")
            console.print(f"  {url}")
            with Client(url, (run / "data" / "operator.token").read_text().strip()) as client:
                yield client
        finally:
            host.terminate()
            host.wait(30)


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
