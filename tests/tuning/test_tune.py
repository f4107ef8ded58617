"""From a host's recording to a serving file that it takes."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandseal_host.errors import RequestInvalid
from sandseal_host.optimisation import Optimisation
from sandseal_host.runtime.device import Device
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.recording import Arrival
from sandseal_host.serving.request import BATCH, REALTIME
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.settings import Settings
from sandseal_host.tuning.candidate import Goal
from sandseal_host.tuning.profile import Profile
from sandseal_host.tuning.tune import tune
from sandseal_sdk.cli import build_app
from sandseal_signing.bundle import InMemory, open_bundle
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.seal import SealReader
from sandseal_signing.verdict import Moment
from support.bundles import seal, trust, trust_text
from support.hostile_models import described
from support.keys import ed25519_key
from support.onnx_models import mlp
from support.serving import Doubler, request

ALICE = ed25519_key("alice")
ARRIVALS = tuple(Arrival(0.001 * i, ("realtime", "batch")[i % 2], ((1 + i % 3, 128),)) for i in range(200))


@pytest.fixture(scope="module")
def sealed() -> bytes:
    model = described(mlp()) | {"batching": {"max_rows": 4, "max_delay_us": 200}}
    return seal([ALICE], "acme.mlp", files={"model.onnx": mlp().data}, model=model)


def test_a_lane_is_recorded() -> None:
    async def play() -> list[Arrival]:
        lane = Lane(Doubler(max_rows=4), SchedulerSettings(max_rows=4))
        await lane.run(request(1))
        with lane.recorded() as outer, lane.recorded() as inner:
            await lane.run(request(2, rows=3, service_class=REALTIME))
            await lane.run(request(3, service_class=BATCH))
        await lane.run(request(4))
        await lane.close()
        assert [each.shapes for each in inner.arrivals] == [each.shapes for each in outer.arrivals]
        return outer.arrivals

    first, second = asyncio.run(play())
    assert (first.service_class, first.shapes) == ("realtime", ((3, 2),))
    assert (second.service_class, second.shapes) == ("batch", ((1, 2),))
    assert 0 <= first.at_s <= second.at_s


def test_a_profile_of_another_model(sealed: bytes) -> None:
    policy = trust({"alice": ALICE})
    bundle = open_bundle(SealReader(io.BytesIO(sealed)), policy, lambda _: Moment.current(), InMemory())
    other = Profile("acme.other", 1.0, (Arrival(0.0, "batch", ((1, 7),)),))
    with pytest.raises(RequestInvalid, match=r"\[1, 7\].*which acme\.mlp does not take"):
        tune(bundle, other, Device.parse("cpu"), Goal.LATENCY, seconds=0.1, progress=lambda *_: None)


def test_a_profile_of_a_model_that_takes_more_rows(sealed: bytes) -> None:
    policy = trust({"alice": ALICE})
    bundle = open_bundle(SealReader(io.BytesIO(sealed)), policy, lambda _: Moment.current(), InMemory())
    larger = Profile("acme.mlp", 1.0, (Arrival(0.0, "batch", ((5, 128),)),))
    with pytest.raises(RequestInvalid, match=r"a request of 5 rows, and acme\.mlp takes 4"):
        tune(bundle, larger, Device.parse("cpu"), Goal.LATENCY, seconds=0.1, progress=lambda *_: None)


@pytest.mark.slow
def test_the_command(sealed: bytes, tmp_path: Path) -> None:
    (tmp_path / "mlp.seal").write_bytes(sealed)
    (tmp_path / "trust.toml").write_text(trust_text({"alice": ALICE}))
    rows = [[round(each.at_s * 1e6), each.service_class, each.shapes[0][0] - 1] for each in ARRIVALS]
    document = {"schema": "sandseal.profile/1", "model": "acme.mlp", "version": 1, "seconds": 0.2, "arrivals": rows}
    document["shapes"] = [[[1, 128]], [[2, 128]], [[3, 128]]]
    (tmp_path / "profile.json").write_text(json.dumps(document))
    files = ["--trust", str(tmp_path / "trust.toml"), "--profile", str(tmp_path / "profile.json")]
    options = ["--goal", "throughput", "--seconds", "0.4", "--out", str(tmp_path / "serving.toml")]
    result = CliRunner().invoke(build_app(), ["tune", str(tmp_path / "mlp.seal"), *files, *options])
    assert result.exit_code == 0, result.output
    assert "best for throughput" in result.stdout
    rules = ServingRules(Settings(), (tmp_path / "serving.toml").read_text())
    manifest = parse_manifest(json.dumps({"schema": "sandseal.bundle/1", "name": "acme.mlp", "version": 1,
        "model": described(mlp()) | {"batching": {"max_rows": 4, "max_delay_us": 200}}}).encode())  # fmt: skip
    chosen = rules.of(manifest)
    assert chosen.max_rows == 4  # requests of three rows were recorded
    assert rules.optimisation("acme.mlp") in [*Optimisation]
    assert f"SANDSEAL_SERVING={tmp_path / 'serving.toml'}" in result.stdout.replace("\n", "")
