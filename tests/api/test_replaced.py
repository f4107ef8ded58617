"""A model that is replaced while a request's body comes in: the new one answers, and nothing is lost."""

import json

import numpy as np
import pytest

from api.double import identity
from api.test_infer import HEADER, refused, tensor


def binary_body(columns):
    x = np.arange(columns, dtype=np.float32)
    entry = tensor(shape=(1, columns), parameters={"binary_data_size": x.nbytes})
    text = json.dumps({"inputs": [entry]}).encode()
    return text + x.tobytes(), {HEADER: str(len(text))}, x


@pytest.mark.parametrize("columns", [16, 200_000])  # decoded on the loop, and on a thread
def test_the_new_version_answers(client, host, columns):
    host.models.models.append(identity("swap", "FP32", "batch", "n"))
    body, headers, x = binary_body(columns)

    async def pieces():
        yield body[:100]
        old = host.models.get("swap")
        host.models.models.append(identity("swap", "FP32", "batch", "n", version=2))
        old.state = "draining"
        yield body[100:]

    answer = client.post("/v2/models/swap/infer", content=pieces(), headers=headers)
    assert answer.json()["model_version"] == "2"
    assert answer.json()["outputs"][0]["data"] == x.tolist()
    assert host.models.get("swap").requests[0].inputs[0].shape == (1, columns)


def test_a_new_signature_is_the_one_that_counts(client, host):
    host.models.models.append(identity("swap", "FP32", "batch", "n"))
    body, headers, _ = binary_body(16)

    async def pieces():
        yield body[:100]
        host.models.models.append(identity("swap", "FP32", "batch", 8, version=2))
        yield body[100:]

    refused(client.post("/v2/models/swap/infer", content=pieces(), headers=headers), 400, "[1, 16]", "['batch', 8]")


def test_unloaded_meanwhile(client, host):
    host.models.models.append(identity("swap", "FP32", "batch", "n"))
    body, headers, _ = binary_body(16)

    async def pieces():
        yield body[:100]
        host.models.get("swap").state = "draining"
        yield body[100:]

    refused(client.post("/v2/models/swap/infer", content=pieces(), headers=headers), 503, code="not_ready")
