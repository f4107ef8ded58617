"""Configuration and statistics of a real host, as Triton's own clients read them."""

import re

import numpy as np
import pytest

from support.onnx_models import mlp

grpc = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")

pytestmark = pytest.mark.slow


def test_config_and_statistics_over_both_faces(start, publisher, tmp_path) -> None:
    serving = tmp_path / "serving.toml"
    serving.write_text('versions = "all"')
    with start(SANDSEAL_GRPC_PORT="0", SANDSEAL_SERVING=str(serving), SANDSEAL_INSTANCES="2") as host:
        with host.client() as client:
            for version in (1, 2):
                client.push(publisher.seal(mlp(), version=version))
            for rows in (1, 1, 3):
                client.infer("acme.mlp", {"x": np.ones((rows, 128), np.float32)})
        token = {"authorization": f"Bearer {host.token}"}
        port = re.search(r"gRPC on port (\d+)", host.log.read_text())[1]
        with http.InferenceServerClient(host.url.removeprefix("http://")) as client:
            config = client.get_model_config("acme.mlp", headers=token)
            statistics = client.get_inference_statistics("acme.mlp", "2", headers=token)
            both = client.get_inference_statistics("acme.mlp", headers=token)["model_stats"]
        with grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
            theirs = client.get_model_config("acme.mlp", headers=token).config
            account = client.get_inference_statistics("acme.mlp", "2", headers=token).model_stats[0]
    assert (config["max_batch_size"], theirs.max_batch_size) == (32, 32)
    assert "all" in config["version_policy"]
    assert theirs.version_policy.HasField("all")
    assert (config["instance_group"][0]["count"], theirs.instance_group[0].count) == (2, 2)
    assert [entry["version"] for entry in both] == ["1", "2"]
    (entry,) = statistics["model_stats"]
    assert (entry["inference_count"], entry["execution_count"]) == (5, 3)
    assert {batch["batch_size"]: batch["compute_infer"]["count"] for batch in entry["batch_stats"]} == {1: 2, 3: 1}
    inference = entry["inference_stats"]
    assert (inference["success"]["count"], inference["fail"]["count"]) == (3, 0)
    assert inference["success"]["ns"] == pytest.approx(
        inference["queue"]["ns"] + inference["compute_infer"]["ns"], abs=2
    )
    assert inference["compute_infer"]["ns"] > 0
    assert (account.inference_count, account.inference_stats.success.count) == (5, 3)
    assert account.memory_usage[0].type == "CPU"
