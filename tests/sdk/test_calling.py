"""`sandseal call`: what it sends, and what it keeps."""

import json

import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from support.scripted_host import document, scripted_host


def call(monkeypatch, answer, file, *words):
    """What the command came to, and what the host was asked."""
    with scripted_host(answer) as host:
        monkeypatch.setenv("SANDSEAL_URL", host.url)
        result = CliRunner().invoke(build_app(), ["call", "acme.m", str(file), *words])
    return result, host.asked


def test_parameters(monkeypatch, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"content")
    given = ("top_k=3", "scale=0.5", "loud=true", "text=a=b", "list=[1]", 'number="7"', "none=NaN")
    words = [word for parameter in given for word in ("--parameter", parameter)]
    words += ["--class", "batch", "--timeout", "2.5"]
    result, (asked,) = call(monkeypatch, document({"outputs": {"y": 1}}), tmp_path / "a.bin", *words)
    assert result.exit_code == 0, result.output
    length = int(asked.headers["inference-header-content-length"])
    assert asked.body[length:] == b"content"
    assert json.loads(asked.body[:length])["parameters"] == {
        "top_k": 3, "scale": 0.5, "loud": True, "text": "a=b", "list": "[1]", "number": "7", "none": "NaN",
        "sandseal.class": "batch", "timeout": 2_500_000,
    }  # fmt: skip


@pytest.mark.parametrize("word", ["top_k", "=3", ""])
def test_what_is_no_parameter(monkeypatch, tmp_path, word):
    (tmp_path / "a.bin").write_bytes(b"content")
    result, asked = call(monkeypatch, document({}), tmp_path / "a.bin", "--parameter", word)
    assert (result.exit_code, asked) == (2, [])
    assert "NAME=VALUE" in result.output


@pytest.mark.parametrize("words", [(), ("--parameter", "k=1")])
def test_a_receipt_is_kept_with_both_bodies(monkeypatch, tmp_path, words):
    file, receipt = tmp_path / "a.bin", tmp_path / "receipt"
    file.write_bytes(b"content")
    answer = document({"outputs": {}}, Sandseal_Receipt="signed")
    result, (asked,) = call(monkeypatch, answer, file, "--receipt", str(receipt), *words)
    assert result.exit_code == 0, result.output
    assert (receipt.read_bytes(), (tmp_path / "receipt.response").read_bytes()) == (b"signed", b'{"outputs": {}}')
    request = tmp_path / "receipt.request" if words else file
    assert request.read_bytes() == asked.body
