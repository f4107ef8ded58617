"""Our host beside other inference servers, on the same models with the same load, in one run.

`SANDSEAL_PEERS` names the folder of the script that sets these servers up and times them (`run.py`); without it nothing
is measured, and the suite says so. `SANDSEAL_PEER_NAMES` narrows which of them, with commas between;
`SANDSEAL_PEER_SECONDS` (5) and `SANDSEAL_PEER_ROUNDS` (3) are the script's own.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

from bench.figure import Figure, Measure
from support.onnx_models import OnnxModel, embedder

OURS = "sandseal"
CONNECTIONS = (1, 32)
_PYTHON = ("litserve", "mlserver", "bentoml", "rayserve", "torchserve")
_GOALS: Mapping[str, Mapping[str, float]] = {  # how many times as many answers a second, by model and peer
    "mlp": {**dict.fromkeys(_PYTHON, 5.0), "triton": 1.3},
    "embedding": dict.fromkeys(_PYTHON, 1.3),
    "conv": dict.fromkeys(_PYTHON, 1.3),
}
_BODIES = {"json": frozenset({*_PYTHON, "triton"}), "binary": frozenset({"rayserve", "triton"})}

_Rows = Mapping[tuple[str, int], Mapping[str, Any]]


def compared() -> Iterator[Figure]:
    """Answers a second and p99 of ours against each peer's, by model, kind of body and number of connections."""
    script = Path(os.environ.get("SANDSEAL_PEERS", ""), "run.py")
    if not script.is_file():
        yield Figure.not_measured("beside other servers", "SANDSEAL_PEERS names no folder with run.py")
        return
    _place(embedder(), "embedding")
    chosen = os.environ.get("SANDSEAL_PEER_NAMES", ",".join((*_PYTHON, "triton"))).split(",")
    for model, goals in _GOALS.items():
        for body, takers in _BODIES.items():
            for peer in goals:
                if peer in takers and peer in chosen:
                    yield from _compared(script, model, body, peer, goals[peer])


def _compared(script: Path, model: str, body: str, peer: str, goal: float) -> Iterator[Figure]:
    try:
        rows = bench(script, model, body, peer)
    except subprocess.CalledProcessError as error:
        yield Figure.not_measured(f"{model} {body}, {peer}", f"run.py ended with {error.returncode}, see above")
        return
    for connections in CONNECTIONS:
        ours, theirs = rows[OURS, connections], rows[peer, connections]
        at, (our_rate, their_rate) = f"{model} {body} c={connections}, {peer}", (ours["req_per_s"], theirs["req_per_s"])
        detail = f"{our_rate:,.0f} against {their_rate:,.0f} answers/s{_bad(ours)}{_bad(theirs)}"
        yield Figure(f"rate {at}", our_rate / max(their_rate, 0.01), "ratio", goal, True, detail)
        detail = f"{ours['p99_ms']:.2f} against {theirs['p99_ms']:.2f} ms"
        yield Figure(f"p99 {at}", ours["p99_ms"] / theirs["p99_ms"], "ratio", 1.0, False, detail)


def bench(script: Path, model: str, body: str, peer: str) -> _Rows:
    """The script's medians for a peer and ours in turn, by server and connections."""
    ours = shlex.join([sys.executable, "-m", "sandseal_sdk", "run", "{onnx}", "--port", "{port}"])
    with TemporaryDirectory() as folder:
        figures = Path(folder, "figures.json")
        command = [sys.executable, str(script), "bench", "--peers", peer, "--server", f"{OURS}={ours}"]
        command += ["--model", model, "--proto", body, "--concurrency", ",".join(map(str, CONNECTIONS))]
        command += ["--seconds", os.environ.get("SANDSEAL_PEER_SECONDS", "5")]
        command += ["--rounds", os.environ.get("SANDSEAL_PEER_ROUNDS", "3"), "--pin", "split", "--out", str(figures)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        return {(row["server"], row["concurrency"]): row for row in json.loads(figures.read_text())["rows"]}


def _place(model: OnnxModel, name: str) -> None:
    """Put a model of ours beside the script's own: the graph, one request and its right answer."""
    at = Path(os.environ.get("PEERS_HOME") or Path.home() / ".cache" / "peers", "models", name)
    shape = (1, *model.spec.inputs[0].shape[1:])
    x = np.random.default_rng(7).integers(0, 4096, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.data, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    at.with_suffix(".onnx").write_bytes(model.data)
    answer = {"shape": list(shape), "x": x.ravel().tolist(), "out_shape": list(y.shape), "y": y.ravel().tolist()}
    at.with_suffix(".json").write_text(json.dumps(answer))


def _bad(row: Mapping[str, Any]) -> str:
    """Answers that a rate leaves out."""
    bad = row["bad"] + row["socket_errors"]
    return f"; {bad} of {row['server']}'s failed" if bad else ""


MEASURES = (Measure("beside other servers", compared),)
