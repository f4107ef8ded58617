"""What a real Triton answered to some 200 requests, and a host with the same models that is asked the same."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandseal_sdk import publish
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.hosts import RunningHost, running_host
from support.shared import SHARED

PEERS, RECORD = SHARED / "peers", SHARED / "reference" / "triton-answers.md"
_ASK = Path(__file__).resolve().parents[1] / "oracles" / "triton_requests.py"
_ENTRY = re.compile(r"^### (\d+)\. ([^\n]*)\n\n```\n.*?\n```\n```\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_SERVED = {
    "mlp": "mlp", "auto": "mlp", "identity": "identity", "versions": "identity", "text": "text", "half": "half",
    "flags": "flags", "bytes8": "bytes8", "fixed": "fixed", "pair": "pair",
}  # fmt: skip

_RULES = """
max_rows = 8
max_delay_us = 500
[[models]]
names = ["mlp", "auto"]
max_rows = 4
[[models]]
names = ["versions"]
versions = "all"
"""


@dataclass(frozen=True)
class Answer:
    """One answer, as the record shows it.

    Args:
        title: of the request.
        status: 0 where none came.
        headers: by lower-case name.
        text: the body, a binary tail as hexadecimal.
    """

    title: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        """The JSON in its body; the text itself where that is none."""
        head, _, _ = self.text.partition("\n+ ")
        try:
            return json.loads(head[head.index("{") if head.startswith("(") else 0 :])
        except ValueError:
            return self.text

    @property
    def tail(self) -> str:
        """What follows the JSON."""
        return self.text.partition("\n+ ")[2]


def recorded() -> dict[int, Answer]:
    """The record, by number; skips the test where it is not there."""
    if not RECORD.exists() or not PEERS.exists():
        pytest.skip(f"{RECORD} is not there")
    found = _ENTRY.findall(RECORD.read_text(encoding="utf-8"))
    return {int(number): _answer(title, shown) for number, title, shown in found}


def _answer(title: str, shown: str) -> Answer:
    head, _, text = shown.partition("\n\n")
    status, *lines = head.split("\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(title, int(status.split()[0]) if status[0].isdigit() else 0, headers, text)


def asked(host: RunningHost) -> list[Answer]:
    """What the host answers, in the order of the record."""
    return [Answer(**answer) for answer in _script(host.url, host.token)]


def requests() -> list[tuple[str, str, str, dict[str, str], bytes]]:
    """Title, method, path, headers and body of each request; skips the test where the script is not there."""
    if not PEERS.exists():
        pytest.skip(f"{PEERS} is not there")
    return [(*request, bytes.fromhex(body)) for *request, body in _script()]


def _script(*arguments: str) -> Any:
    command = [sys.executable, str(_ASK), str(PEERS), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=600).stdout)


@contextmanager
def recorded_host(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[RunningHost]:
    """A host with the record's models."""
    key = PrivateKey.generate()
    trust = folder / "trust.toml"
    trust.write_text(
        f'schema = "sandseal.trust/1"\nserial = 1\n[keys.a]\nholder = "a"\npublic = """{key.public.inline}"""\n'
        '[[rules]]\nmodels = ["*"]\nkeys = ["a"]\n'
    )
    rules = folder / "serving.toml"
    rules.write_text(_RULES)
    graphs = _graphs(folder)
    with running_host(trust, folder / "data", {"SANDSEAL_SERVING": str(rules), **(settings or {})}) as host:
        with host.client() as client:
            for name, graph in _SERVED.items():
                for version in (1, 3) if name == "versions" else (1,):
                    client.push(_seal(folder, graphs[graph], name, version, key))
        yield host


def _graphs(folder: Path) -> dict[str, Path]:
    spec = importlib.util.spec_from_file_location("peers_models", PEERS / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(str(folder / "graphs"))
    return {path.stem: path for path in (folder / "graphs").glob("*.onnx")}


def _seal(folder: Path, graph: Path, name: str, version: int, key: PrivateKey) -> Path:
    bundle = publish.write_bundle(graph, folder / f"{name}-{version}", name=name, version=version)
    seal = folder / f"{name}-{version}.seal"
    with seal.open("wb") as file:
        pack_folder(bundle, file, [key])
    return seal
