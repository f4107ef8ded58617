"""Sequences as Triton's clients send them, over REST and gRPC, to a tiny model and to Silero's detector of speech."""

import json
import queue
import re
from collections.abc import Iterator
from typing import Any

import first_party
import httpx
import numpy as np
import onnxruntime
import pytest

from e2e.conftest import Publisher
from sandseal_sdk.errors import HostRefused
from support.first_party import model
from support.hosts import RunningHost, running_host
from support.onnx_models import OnnxModel, summing

http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
grpc = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")

pytestmark = pytest.mark.slow

SUM, SPEECH = "acme.sum", "acme.speech"
ONE = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}


def authorised(host: RunningHost) -> dict[str, str]:
    return {"authorization": f"Bearer {host.token}"}


@pytest.fixture(scope="module")
def host(lasting: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    settings = {"SANDSEAL_GRPC_PORT": "0", "SANDSEAL_MAX_SEQUENCES": "6"}  # of which one tenant has four
    with running_host(lasting.trust, tmp_path_factory.mktemp("sequences") / "data", settings) as running:
        with running.client() as client:
            state = [{"input": "sum", "output": "next"}]
            client.push(lasting.seal(summing(1), SUM, model_members={"state": state}))
        yield running


@pytest.fixture(params=[http, grpc], ids=["rest", "grpc"])
def client(host: RunningHost, request: pytest.FixtureRequest) -> Iterator[Any]:
    """One of Triton's clients; `ask` is a step."""
    library: Any = request.param
    port = host.port if library is http else re.search(r"gRPC on port (\d+)", host.log.read_text())[1]
    headers = authorised(host)
    with library.InferenceServerClient(f"127.0.0.1:{port}") as client:

        def ask(value: float, sequence: int | str, **flags: bool) -> float:
            tensor = library.InferInput("x", [1, 1], "FP32")
            tensor.set_data_from_numpy(np.full((1, 1), value, np.float32))
            answer = client.infer(SUM, [tensor], sequence_id=sequence, headers=headers, **flags)
            return float(answer.as_numpy("y")[0, 0])

        client.ask = ask
        yield client


@pytest.mark.parametrize("sequence", [7, "a caller's own name", 2**40])
def test_a_sequence_goes_on_and_ends(client, sequence) -> None:
    assert client.ask(1, sequence, sequence_start=True) == 1
    assert client.ask(2, sequence) == 3
    assert client.ask(4, sequence, sequence_end=True) == 7
    with pytest.raises(Exception, match="no sequence"):
        client.ask(1, sequence)


def test_two_at_once(client) -> None:
    for sequence in (1, 2):
        assert client.ask(sequence, sequence, sequence_start=True) == sequence
    assert [client.ask(10, sequence, sequence_end=True) for sequence in (2, 1)] == [12, 11]


@pytest.mark.parametrize("sequence", [0, ""])
def test_none_is_named(client, sequence) -> None:
    with pytest.raises(Exception, match="names none"):
        client.ask(1, sequence, sequence_start=True)


def test_a_stream_of_steps_keeps_their_order(host: RunningHost) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    port = re.search(r"gRPC on port (\d+)", host.log.read_text())[1]
    tensor = grpc.InferInput("x", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
    with grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)), headers=authorised(host))
        for number in range(20):
            flags = {"sequence_start": number == 0, "sequence_end": number == 19}
            client.async_stream_infer(SUM, [tensor], sequence_id=3, **flags)
        found = [answers.get(timeout=60) for _ in range(20)]
        client.stop_stream()
    assert [error for _, error in found if error] == []
    assert [float(answer.as_numpy("y")[0, 0]) for answer, _ in found] == list(range(1, 21))


def test_clients_see_no_state(host: RunningHost) -> None:
    with host.client() as client:
        metadata = json.loads(client.get(f"/v2/models/{SUM}"))
        assert [[tensor["name"] for tensor in metadata[side]] for side in ("inputs", "outputs")] == [["x"], ["y"]]
        config = json.loads(client.get(f"/v2/models/{SUM}/config"))
        assert config["sequence_batching"] == {
            "state": [{"input_name": "sum", "output_name": "next", "data_type": "TYPE_FP32", "dims": [1]}]
        }
        with pytest.raises(HostRefused, match="no input 'sum'"):
            client.infer(SUM, {"x": np.zeros((1, 1), np.float32), "sum": np.zeros((1, 1), np.float32)})


def test_no_more_than_may_be_open(host: RunningHost) -> None:
    x = {"x": np.ones((1, 1), np.float32)}
    with host.client() as client:
        for number in range(1, 5):
            client.infer(SUM, x, parameters={"sequence_id": number, "sequence_start": True})
        body = {"parameters": {"sequence_id": 5, "sequence_start": True}, "inputs": [ONE]}
        refused = httpx.post(f"{host.url}/v2/models/{SUM}/infer", json=body, headers=authorised(host))
        assert (refused.status_code, refused.json()["code"]) == (503, "sequences_full")
        assert 'sandseal_model_sequences_open{model="acme.sum",version="1"} 4.0' in client.get("/metrics").decode()
        for number in range(1, 5):
            client.infer(SUM, x, parameters={"sequence_id": number, "sequence_end": True})


def test_speech_as_the_model_itself_finds_it(host: RunningHost, lasting: Publisher) -> None:
    file = model("voice-activity")
    spec = {
        "file": "model.onnx",
        "inputs": [
            {"name": "input", "dtype": "FP32", "shape": [1, 576]},
            {"name": "state", "dtype": "FP32", "shape": [2, 1, 128]},
            {"name": "sr", "dtype": "INT64", "shape": []},
        ],
        "outputs": [
            {"name": "output", "dtype": "FP32", "shape": [1, 1]},
            {"name": "stateN", "dtype": "FP32", "shape": [2, 1, 128]},
        ],
        "state": [{"input": "state", "output": "stateN"}],
    }
    sound = np.concatenate([np.zeros(8_000, np.int16), first_party.vowel(0.5)]).astype(np.float32) / 32768
    padded = np.concatenate([np.zeros(64, np.float32), sound])
    pieces = [padded[start : start + 576][None] for start in range(0, len(sound) - 511, 512)]
    rate, state, wanted = np.array(16_000, np.int64), np.zeros((2, 1, 128), np.float32), []
    session = onnxruntime.InferenceSession(file)
    for piece in pieces:
        output, state = session.run(None, {"input": piece, "state": state, "sr": rate})
        wanted.append(float(output.item()))
    with host.client() as client:
        client.push(lasting.seal(OnnxModel(None, file.read_bytes(), {}), SPEECH, members={"model": spec}))
        found = [
            float(
                client.infer(
                    SPEECH, {"input": piece, "sr": rate}, parameters={"sequence_id": "mic", "sequence_start": i == 0}
                )["output"].item()
            )
            for i, piece in enumerate(pieces)
        ]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert max(found[:12]) < 0.5 < max(found)
