"""What was hashed is what answers: weights changed on disk before a load, while it serves, and while nobody looks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sandseal_sdk.errors import HostRefused
from support.leases import needs_leases
from support.onnx_models import outside
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NAME = "acme.weights"
ROW = np.ones((1, 4), np.float32)
BY_PATH = {"SANDSEAL_LOAD_BYTES_MIB": "0"}
MODEL = outside()
(WEIGHTS,) = MODEL.external.values()


@pytest.fixture
def seal(publisher) -> Path:
    (publisher.folder / "model.onnx.data").write_bytes(WEIGHTS)
    return publisher.seal(MODEL, NAME)


def blob(data: Path) -> Path:
    """The weights in the store, made writable, as whoever owns the files can."""
    (found,) = [path for path in (data / "blobs" / "sha256").glob("*/*") if path.read_bytes() == WEIGHTS]
    found.chmod(0o644)
    return found


def answer(client) -> list[float] | str:
    """The outputs, or the code with which they are refused."""
    try:
        return client.infer(NAME, {"x": ROW})["y"].tolist()[0]
    except HostRefused as refused:
        return refused.code


def test_bytes_that_were_loaded_do_not_change_with_the_disk(start, seal, tmp_path) -> None:
    with start() as host, host.client() as client:
        assert client.push(seal)["weights"] == "bytes"
        before = answer(client)
        blob(tmp_path / "data").write_bytes(bytes(len(WEIGHTS)))
        assert answer(client) == before == [2.0] * 4
        client.unload(NAME)
        with pytest.raises(HostRefused) as refused:
            client.load(NAME)
        assert refused.value.code == "digest_mismatch"
        client.push(seal)  # writes it anew
        client.load(NAME)
        assert answer(client) == before


@needs_leases
def test_whoever_opens_mapped_weights_for_writing_ends_the_model(start, seal, tmp_path) -> None:
    with start(**BY_PATH) as host, host.client() as client:
        assert client.push(seal)["weights"] == "path"
        assert answer(client) == [2.0] * 4
        writer = subprocess.Popen([sys.executable, "-c", f"open({str(blob(tmp_path / 'data'))!r}, 'r+b').write(b'x')"])
        wait_until(lambda: answer(client) == "tampered")
        assert writer.wait(60) == 0  # the lease was released in the end
        (model,) = client.models()
        assert (model["state"], model["reason"][:9]) == ("UNAVAILABLE", "tampered:")
        wait_until(lambda: "tampered: somebody opened 'model.onnx.data' for writing" in host.log.read_text())
        with pytest.raises(HostRefused):
            client.load(NAME)  # the file is another one now
        client.push(seal)
        assert answer(client) == [2.0] * 4
        assert list((tmp_path / "data" / "loads").iterdir())
        client.unload(NAME)
        assert not list((tmp_path / "data" / "loads").iterdir())
    assert not (host.log.read_text()).count("Traceback")


def test_weights_by_path_come_back_after_a_restart_unless_they_were_changed(start, seal, tmp_path) -> None:
    with start(**BY_PATH, SANDSEAL_LEASE="warn") as host, host.client() as client:
        client.push(seal)
    with start(**BY_PATH, SANDSEAL_LEASE="warn") as host, host.client() as client:
        host.wait_ready()
        assert answer(client) == [2.0] * 4
    blob(tmp_path / "data").write_bytes(bytes(len(WEIGHTS)))
    with start(**BY_PATH, SANDSEAL_LEASE="warn") as host, host.client() as client:
        host.wait_ready()
        assert isinstance(answer(client), str)


def test_the_scrub_takes_a_model_with_a_damaged_file_out_of_service(start, seal, tmp_path) -> None:
    with start(SANDSEAL_SCRUB_REST_S="0.2") as host, host.client() as client:
        pushed = client.push(seal)
        assert "sandseal_scrub_checked_total" in client.get("/metrics").decode()
        assert f'sandseal_blob_age_s{{blob="{blob(tmp_path / "data").name}"}}' in client.get("/metrics").decode()
        blob(tmp_path / "data").write_bytes(bytes(len(WEIGHTS)))
        wait_until(lambda: answer(client) == "damaged")
        (model,) = client.models()
        assert model["reason"].startswith("damaged: the stored 'model.onnx.data'")
        wait_until(lambda: pushed["id"] in host.log.read_text())
        client.push(seal)
        assert answer(client) == [2.0] * 4
