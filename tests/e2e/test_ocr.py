"""Pages read by a pipeline of real models, against rapidocr's own pipeline and against its steps called one by one."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ocr
import pytest
from demo import PACKAGES

from sandseal_sdk.client import Client
from sandseal_sdk.errors import PackageUnavailable, RequestRefused
from sandseal_sdk.harness import load_plugin
from sandseal_sdk.packages import unpack_package
from sandseal_signing.keys import PrivateKey
from support.first_party import PLUGINS, complete, package
from support.hosts import running_host
from support.oracles import ask_oracle

pytestmark = pytest.mark.slow

CERTAIN = 0.5  # what rapidocr calls text


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a host that serves the pipeline of sdk/examples/ocr.py."""
    folder = tmp_path_factory.mktemp("ocr")
    package("text-recognition")
    complete("text-recognition-post")
    complete("ocr-page-step")
    seals = ocr.write_seals(folder, PrivateKey.generate(), print)
    with running_host(folder / "trust.toml", folder / "data") as host, host.client(timeout=180) as client:
        for path in seals:
            client.push(path)
        yield client


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """An invoice that was rendered, turned and made noisy, and a photograph of a printed page."""
    try:
        scans = unpack_package("scikit-image==0.25.2", PACKAGES) / "skimage" / "data"
    except PackageUnavailable as error:
        pytest.skip(error.message)
    return [ocr.PAGE, scans / "page.png"]


def test_pages_read_as_rapidocr_reads_them(client: Client, pages: list[Path], tmp_path: Path) -> None:
    read = []
    for page, wanted in zip(pages, ask_oracle("text_pages", tmp_path, [str(page) for page in pages]), strict=True):
        outputs = client.call("demo.ocr", page.read_bytes())["outputs"]
        ours = list(zip(outputs["text"], outputs["score"], outputs["box"], strict=True))
        wanted = [line for line in wanted if line[1] >= CERTAIN]
        ours = [line for line in ours if line[1] >= CERTAIN]
        assert [text for text, _, _ in ours] == [text for text, _, _ in wanted], page.name
        for (text, score, box), (_, their_score, their_box) in zip(ours, wanted, strict=True):
            assert score == pytest.approx(their_score, abs=0.1), text
            np.testing.assert_allclose(box, their_box, atol=2, err_msg=text)
        read += [text for text, _, _ in ours]
    assert {"Total: 55.40 EUR", "histogram of grey values:"} <= set(read)


def test_the_answer_is_that_of_its_steps_called_one_by_one(client: Client) -> None:
    outputs = client.call("demo.ocr", ocr.PAGE.read_bytes())["outputs"]
    text, score, box = one_by_one(client, ocr.PAGE.read_bytes())
    assert len(text) > ocr.LINES_AT_ONCE
    assert outputs["text"] == text
    assert outputs["score"] == pytest.approx(score, abs=1e-4)
    assert np.array_equal(outputs["box"], box)


def one_by_one(client: Client, image: bytes) -> tuple[list[str], list[float], Any]:
    """What a client without pipelines does."""
    with load_plugin(PLUGINS / "ocr-page-step") as plugin:
        page = plugin.call({"image": np.frombuffer(image, np.uint8)}).outputs
    probability = client.infer("demo.text-detection", {"x": page["x"]})["fetch_name_0"]
    with load_plugin(PLUGINS / "ocr-lines-step") as plugin:
        cut = plugin.call({"pixels": page["pixels"], "map": probability}).outputs
    text: list[str] = []
    score: list[float] = []
    for start in range(0, len(cut["x"]), ocr.LINES_AT_ONCE):
        read = client.infer("demo.text-lines", {"x": cut["x"][start : start + ocr.LINES_AT_ONCE]})
        text += [line.decode() for line in read["text"].tolist()]
        score += read["score"].tolist()
    return text, score, cut["box"]


def test_a_page_without_text_has_no_lines(client: Client) -> None:
    with pytest.raises(RequestRefused, match="step 'page': unknown image type"):
        client.call("demo.ocr", b"no image")
    blank = np.full((64, 64, 3), 255, np.uint8)
    outputs = client.call("demo.ocr", png(blank))["outputs"]
    assert (outputs["text"], outputs["score"], outputs["box"]) == ([], [], [])


def png(pixels: np.ndarray) -> bytes:
    """Pixels as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
