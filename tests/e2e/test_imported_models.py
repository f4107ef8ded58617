"""A language model from its file to a host that generates text with it; what does not hold is refused at the push."""

import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.gguf_source import GgufSource
from sandseal_sdk.errors import HostRefused
from sandseal_signing.pack import pack_folder
from support.bundles import trust_text
from support.hosts import RunningHost, running_host
from support.keys import ed25519_key
from support.language_models import write_gguf, write_hf

pytestmark = pytest.mark.slow

GREEDY = {"temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    folder = tmp_path_factory.mktemp("imported")
    trust = folder / "trust.toml"
    trust.write_text(trust_text({"alice": ed25519_key("alice")}, {"domains": ["", "com.microsoft"]}))
    with running_host(trust, folder / "data", {"SANDSEAL_SLOTS": "2"}) as host:
        yield host


def push(host: RunningHost, bundle: Path) -> None:
    seal = bundle.with_suffix(".seal")
    with seal.open("wb") as file:
        pack_folder(bundle, file, [ed25519_key("alice")])
    with host.client() as client:
        client.push(seal)


def run(*arguments: object) -> None:
    done = CliRunner().invoke(build_app(), list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_what_the_commands_import_is_accepted_and_generates(host: RunningHost, tmp_path: Path) -> None:
    file, folder = write_gguf(tmp_path / "tiny.gguf", "llama"), write_hf(tmp_path / "tiny-hf", "llama")
    run("import", "gguf", file, "-o", tmp_path / "a", "--name", "acme.gguf")
    run("import", "gguf", file, "-o", tmp_path / "b", "--name", "acme.int8", "--weights", "int8", "--context", 64)
    run("import", "hf", folder, "-o", tmp_path / "c", "--name", "acme.hf")
    for bundle in "abc":
        push(host, tmp_path / bundle)
    with host.client() as client:
        texts = {
            name: client.generate(f"acme.{name}", "hello world", parameters=GREEDY)["text_output"]
            for name in ("gguf", "int8", "hf")
        }
    assert all(texts.values())


def test_a_decoder_that_is_none_is_refused_at_the_push(host: RunningHost, tmp_path: Path) -> None:
    bundle = tmp_path / "x"
    with GgufSource(write_gguf(tmp_path / "tiny.gguf", "llama")) as source:
        write_decoder(source, bundle, name="acme.none")
    graph = onnx.load(bundle / "model.onnx", load_external_data=False)
    graph.graph.output[0].name = graph.graph.node[-1].output[0] = "scores"
    (bundle / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(HostRefused, match="is no decoder of a known form") as caught:
        push(host, bundle)
    assert caught.value.code == "model_invalid"


def test_a_tokenizer_that_is_none_is_refused_at_the_push(host: RunningHost, tmp_path: Path) -> None:
    bundle = tmp_path / "x"
    with GgufSource(write_gguf(tmp_path / "tiny.gguf", "llama")) as source:
        write_decoder(source, bundle, name="acme.none")
    document = json.loads((bundle / "tokenizer.json").read_bytes())
    document["model"]["merges"] = [["no", "such"]]
    (bundle / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(HostRefused) as caught:
        push(host, bundle)
    assert "tokenizer.json" in str(caught.value)
