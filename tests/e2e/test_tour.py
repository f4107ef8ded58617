"""The README's tour, typed as a stranger would type it."""

import json
import re
import shlex
import urllib.request
from pathlib import Path

import pytest

from support.command import sandseal, started
from support.onnx_models import mlp

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty folder to work in, with a model in it."""
    (tmp_path / "model.onnx").write_bytes(mlp((3, 8, 2)).data)
    return tmp_path


def post(url: str, body: bytes, token: str | None = None) -> dict:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.load(answer)


def test_run_is_one_line_from_a_model_to_an_answer(home: Path) -> None:
    with started(home, "run", "model.onnx", "--port", "0") as process:
        curl, options, url, flag, body = shlex.split(process.stdout.readline())
        assert (curl, options, flag) == ("curl", "-s", "-d")
        (output,) = post(url, body.encode())["outputs"]
        assert (output["name"], output["shape"]) == ("y", [1, 2])


def test_the_tour(home: Path) -> None:
    said = sandseal(home, "init", "model.onnx", "--name", "acme.thing")
    assert "sandseal pack acme.thing/bundle --key acme.thing/publisher.key" in said.replace("\\", "/")
    sandseal(home, "pack", "acme.thing/bundle", "--key", "acme.thing/publisher.key")
    seal = "acme.thing/acme.thing-1.seal"
    assert "acme.thing version 1" in sandseal(home, "show", seal)
    assert "accepted" in sandseal(home, "verify", seal, "--trust", "acme.thing/trust.toml")
    with started(home, "serve", "--trust", "acme.thing/trust.toml", "--port", "0") as process:
        url = process.stdout.readline().strip()
        sandseal(home, "login", url, "--token-file", "sandseal-data/operator.token")
        assert re.search(r"acme.thing version 1 ready +bundle [0-9a-f]{64}", sandseal(home, "push", seal))
        assert "READY" in sandseal(home, "models")
        secret = sandseal(home, "token", "add", "caller", "--scope", "infer").strip()
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}
        assert post(f"{url}/v2/models/acme.thing/infer", json.dumps(body).encode(), secret)["model_version"] == "1"
        assert "idle" in sandseal(home, "queue", "acme.thing")
        sandseal(home, "unload", "acme.thing")
        assert "error[" in sandseal(home, "call", "acme.thing", "model.onnx", ok=False)
        sandseal(home, "load", "acme.thing")


def test_errors_say_what_where_and_what_to_do(home: Path) -> None:
    (home / "broken.onnx").write_text("no model")
    said = sandseal(home, "init", "broken.onnx", ok=False)
    assert "error[model_unreadable]" in said
    said = sandseal(home, "models", ok=False)
    assert "error[not_logged_in]" in said
    assert "hint: run `sandseal login" in said
    assert "Traceback" not in said


def test_doctor_says_what_this_machine_can_do(home: Path) -> None:
    said = sandseal(home, "doctor")
    assert "ONNX Runtime can use it" in said
    assert "wasmtime" in said
