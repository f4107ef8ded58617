"""A host under requests that nobody's client would send: none of them is its own fault, none hangs, nothing grows.

`SANDSEAL_FUZZ_SECONDS` is the time for it; `make bench SUITE=protocol` takes ten minutes.
"""

import os

import pytest

from sandseal_signing.tensor import DataType
from support.hosts import running_host
from support.http_fuzz import fuzz
from support.onnx_models import identity
from support.usage import resident

SECONDS = float(os.environ.get("SANDSEAL_FUZZ_SECONDS", "8"))


@pytest.mark.slow
@pytest.mark.parametrize("direct", ["true", "false"], ids=["protocol", "asgi"])
def test_fuzz(publisher, tmp_path, direct):
    settings = {"SANDSEAL_DIRECT": direct, "SANDSEAL_SLOW_S": "5", "SANDSEAL_LOG_FORMAT": "json"}
    with running_host(publisher.trust, tmp_path / "data", settings) as host, host.client() as client:
        client.push(publisher.seal(identity(DataType.FP32, ("batch", 16)), "acme.same"))
        client.push(publisher.seal(identity(DataType.BYTES, ("batch", "n")), "acme.text"))
        fuzz(host, SECONDS / 4)
        before = resident(host)
        seen = fuzz(host, SECONDS)
        after = resident(host)
        assert client.ready()
    assert {200, 400} <= seen.keys()
    assert after < before + (64 << 20)
    assert '"unexpected"' not in host.log.read_text()
