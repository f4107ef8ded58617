"""Configuration and statistics in Triton's form, as its clients read them over REST and gRPC."""

import pytest

from api.test_grpc import TOKEN, client, served  # noqa: F401 (fixtures)
from api.test_infer import refused
from sandseal_host.api.model_config import model_config
from sandseal_host.api.model_statistics import model_statistics
from sandseal_host.serving.versions import VersionPolicy

triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")


@pytest.fixture
def rest(shared):
    return shared[1]


def test_config(rest):
    config = rest.get("/v2/models/mlp/config").json()
    assert (config["name"], config["platform"], config["backend"]) == ("mlp", "onnxruntime_onnx", "onnxruntime")
    assert config["max_batch_size"] == 8
    assert config["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [128], "optional": False}
    ]
    assert config["output"] == [{"name": "y", "data_type": "TYPE_FP32", "dims": [10]}]
    assert config["version_policy"] == {"latest": {"num_versions": 1}}
    assert config["instance_group"] == [{"name": "mlp", "kind": "KIND_CPU", "count": 2, "gpus": []}]
    batching = config["dynamic_batching"]
    assert (batching["max_queue_delay_microseconds"], batching["priority_levels"]) == (500, 3)
    assert batching["default_priority_level"] == 2
    assert batching["priority_queue_policy"]["1"] == {
        "timeout_action": "REJECT",
        "default_timeout_microseconds": 1_200_000,
        "allow_timeout_override": True,
        "max_queue_size": 100,
    }


def test_config_of_a_model_without_a_batch_axis(rest):
    config = rest.get("/v2/models/fixed/config").json()
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (0, [2, 3])
    assert "dynamic_batching" not in config
    assert rest.get("/v2/models/text/config").json()["input"][0]["data_type"] == "TYPE_STRING"


def test_config_of_versions(shared):
    models = shared[0].models
    config = model_config(models.get("versions"), VersionPolicy(None), "standard")
    assert config["version_policy"] == {"all": {}}
    config = model_config(models.get("versions"), VersionPolicy(None, frozenset({3, 1})), "batch")
    assert config["version_policy"] == {"specific": {"versions": [1, 3]}}


def test_instances_on_gpus(shared, monkeypatch):
    import dataclasses

    model = shared[0].models.get("mlp")
    monkeypatch.setattr(model, "account", dataclasses.replace(model.account, resident={"cuda:0": 5, "cuda:2": 6}))
    (group,) = model_config(model, VersionPolicy(), "standard")["instance_group"]
    assert group == {"name": "mlp", "kind": "KIND_GPU", "count": 1, "gpus": [0, 2]}
    assert model_statistics(model)["memory_usage"] == [
        {"type": "GPU", "id": 0, "byte_size": 5},
        {"type": "GPU", "id": 2, "byte_size": 6},
    ]


def test_statistics(rest):
    (document,) = rest.get("/v2/models/mlp/stats").json()["model_stats"]
    assert (document["name"], document["version"]) == ("mlp", "1")
    assert (document["inference_count"], document["execution_count"]) == (6, 3)
    assert document["last_inference"] == 1_700_000_000_500
    stats = document["inference_stats"]
    assert stats["success"] == {"count": 3, "ns": 750_000_000}
    assert stats["queue"] == {"count": 3, "ns": 250_000_000}
    assert stats["compute_infer"] == {"count": 3, "ns": 500_000_000}
    assert stats["fail"] == {"count": 1, "ns": 0}
    assert {*stats} == {
        "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
    }  # fmt: skip
    assert [(b["batch_size"], b["compute_infer"]) for b in document["batch_stats"]] == [
        (2, {"count": 2, "ns": 250_000_000}),
        (4, {"count": 1, "ns": 125_000_000}),
    ]
    assert document["memory_usage"] == [{"type": "CPU", "id": 0, "byte_size": 512}]


def test_statistics_of_versions_and_of_all(rest):
    def names(path):
        return [(d["name"], d["version"]) for d in rest.get(path).json()["model_stats"]]

    assert names("/v2/models/versions/stats") == [("versions", "1"), ("versions", "3")]
    assert names("/v2/models/versions/versions/1/stats") == [("versions", "1")]
    every = names("/v2/models/stats")
    assert ("mlp", "1") in every
    assert len(every) > 4
    assert "statistics" in rest.get("/v2").json()["extensions"]


@pytest.mark.parametrize("what", ["config", "stats"])
def test_what_is_unknown_or_hidden(rest, what):
    refused(rest.get(f"/v2/models/nope/{what}"), 404, code="model_unknown")
    refused(rest.get(f"/v2/models/versions/versions/9/{what}"), 404, code="model_unknown")
    refused(rest.get(f"/v2/models/mlp/{what}", headers={"Authorization": ""}), 401, code="not_authenticated")
    assert rest.post(f"/v2/models/mlp/{what}").status_code == 405


def test_triton_s_client_over_grpc(client):  # noqa: F811 (a fixture)
    config = client.get_model_config("mlp", headers=TOKEN, as_json=True)["config"]
    assert config["max_batch_size"] == 8
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["dynamic_batching"]["priority_queue_policy"]["3"]["max_queue_size"] == 100
    assert client.get_model_config("mlp", "1", headers=TOKEN).config.instance_group[0].count == 2
    (mlp,) = client.get_inference_statistics("mlp", headers=TOKEN).model_stats
    assert (mlp.inference_count, mlp.inference_stats.success.ns) == (6, 750_000_000)
    assert len(client.get_inference_statistics(headers=TOKEN).model_stats) > 4
    with pytest.raises(Exception, match="there is no model"):
        client.get_inference_statistics("nope", headers=TOKEN)
