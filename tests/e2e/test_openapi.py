"""The one OpenAPI document against a running host: schemathesis asks everything that it describes, right and wrong."""

import json
import os
import subprocess
import sys

import pytest

from support.hosts import running_host
from support.onnx_models import mlp

EXAMPLES = os.environ.get("SANDSEAL_OPENAPI_EXAMPLES", "4")
# Operations that would end what the others need.
NOT_ASKED = {
    "DELETE /v1/tokens/{token_id}": "revokes the token that asks",
    "DELETE /v1/bundles/{bundle_id}": "deletes the model that the others ask",
    "POST /v2/repository/models/{model}/unload": "unloads it",
    "POST /v1/revocations": "revokes for ever, and one of the digests may be its own",
    "POST /v1/models/{model}/recordings": "records requests until a time is over",
}
NOT_CHECKED = {
    "positive_data_acceptance": "what is right depends on a model's signature, on signatures and on what is there",
    "ignored_auth": "health, the document and the error pages are for everybody, which the check takes for a hole",
}
# 501 says that the protocol knows what is asked for, and this host does not; 503 that it cannot now.
STATUSES = ["2xx", "3xx", "4xx", 501, 503, 504]


def config() -> str:
    """What schemathesis should know."""
    lines = ["[parameters]", '"path.model" = "acme.mlp"', '"path.version" = 1', '"path.code" = "queue_full"']
    lines += ["[checks]", f"not_a_server_error.expected-statuses = {json.dumps(STATUSES)}"]
    lines += [f"{name}.enabled = false" for name in NOT_CHECKED]
    for operation in NOT_ASKED:
        lines += ["[[operations]]", f'include-name = "{operation}"', "enabled = false"]
    return "\n".join(lines)


@pytest.mark.slow
def test_everything_is_as_the_document_says(publisher, tmp_path):
    pytest.importorskip("schemathesis")
    told = tmp_path / "schemathesis.toml"
    told.write_text(config())
    with running_host(publisher.trust, tmp_path / "data", {"SANDSEAL_LOG_FORMAT": "json"}) as host:
        with host.client() as client:
            client.push(publisher.seal(mlp()))
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(told), "run"]
        command += [
            f"{host.url}/openapi.json",
            "-H",
            f"Authorization: Bearer {host.token}",
            "--phases",
            "coverage,fuzzing",
            "-n",
            EXAMPLES,
            "--request-timeout",
            "120",
        ]
        command += ["--seed", "1", "--continue-on-failure", "--no-color", "--warnings", "off"]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=900)
        assert ran.returncode == 0, ran.stdout[-12_000:] + ran.stderr[-2000:]
        with host.client() as client:
            assert client.ready()
        assert '"unexpected"' not in host.log.read_text()
