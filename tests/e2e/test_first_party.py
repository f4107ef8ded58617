"""The first-party plugins around real models, through a host, against the models' own packages."""

import json
import wave
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import first_party
import numpy as np
import onnxruntime
import pytest
from demo import PACKAGES

from sandseal_sdk.client import Client
from sandseal_sdk.first_party import ready_plugin
from sandseal_sdk.packages import unpack_package
from sandseal_sdk.publish import write_bundle, write_trust
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.first_party import model, seal, write_tokenizer
from support.hosts import running_host
from support.oracles import ask_oracle

pytestmark = pytest.mark.slow

COLOURS = ("red", "green", "blue")
PALACE, DAISY = 698, 985  # of ImageNet's classes
SPEECH = Path("/usr/share/sounds/alsa/Front_Center.wav")  # of Debian's alsa-utils: a voice


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A client of a host that serves the named demo; each is started for the tests of one model, and stopped after."""
    folder = tmp_path_factory.mktemp("first-party")
    key = PrivateKey.generate()
    rules = []
    seals = {}
    for name in first_party.DEMOS:
        (folder / name).mkdir()
        seals[name] = seal(name, folder / name, key)
        rules.append(f'[[rules]]\nmodels = ["demo.{name}"]\nkeys = ["demo"]\nimports = ["asset"]\n')
    trust = folder / "trust.toml"
    head = 'schema = "sandseal.trust/1"\nserial = 1\n[keys.demo]\nholder = "demo"\n'
    trust.write_text(head + f'public = "{key.public.inline}"\n' + "".join(rules))
    with running_host(trust, folder / "data") as host, host.client() as client:
        for path in seals.values():
            client.push(path)
        yield client


def test_pages_have_the_package_s_own_directions(ask: Client, tmp_path: Path) -> None:
    pages = sorted(first_party.PAGES.glob("*.jpg"))
    theirs = ask_oracle("page_directions", tmp_path, [str(page) for page in pages])
    for page, wanted in zip(pages, theirs, strict=True):
        outputs = ask.call("demo.image-classification", page.read_bytes())["outputs"]
        ours = dict(zip(outputs["label"], outputs["probability"], strict=True))
        # The package resizes with a Lanczos filter, the plugin with a cubic one.
        assert [ours[label] for label in ("0", "90", "180", "270")] == pytest.approx(wanted, abs=0.02), page.name


def test_lines_read_as_rapidocr_reads_them(ask: Client, tmp_path: Path) -> None:
    lines = [("Sandseal runs nothing unsigned", 24), ("Total: 1,234.56 EUR", 40), ("plugin", 60), ("a b c 1 2 3", 20)]
    for name, (text, score) in ask_oracle("text_lines", tmp_path, lines).items():
        outputs = ask.call("demo.text-recognition", (tmp_path / name).read_bytes())["outputs"]
        assert outputs["text"] == text
        assert outputs["score"] == pytest.approx(score, abs=1e-4)


def test_embeddings_are_those_of_hugging_face_s_tokens(ask: Client, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    session = onnxruntime.InferenceSession(model("text-embedding"), providers=["CPUExecutionProvider"])
    texts = [*first_party.SENTENCES, "", "Zürich, 東京 & Санкт-Петербург", "word " * 400]
    for text, ids in zip(texts, ask_oracle("word_pieces", tmp_path, texts), strict=True):
        tokens = np.array([ids], np.int64)
        feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        mean = session.run(["last_hidden_state"], feeds)[0][0].mean(0)
        ours = ask.call("demo.text-embedding", text.encode())["outputs"]["embedding"]
        np.testing.assert_allclose(ours, mean / np.linalg.norm(mean), atol=1e-5, err_msg=repr(text))


def sounds() -> dict[str, np.ndarray]:
    """Sounds at 16 kHz: noise, a vowel between silences, and a voice where the machine has one."""
    silence, noise = np.zeros(16_000, np.int16), np.random.default_rng(2).normal(0, 900, 16_000).astype(np.int16)
    made = {"vowel": np.concatenate([silence, first_party.vowel(1.0), silence]), "noise": noise}
    if SPEECH.exists():
        with wave.open(str(SPEECH)) as file:  # 48 kHz: every third sample, as the package itself takes it down
            made["voice"] = np.frombuffer(file.readframes(file.getnframes()), "<i2")[::3]
    return made


def test_speech_is_where_the_model_alone_finds_it(ask: Client) -> None:
    session = onnxruntime.InferenceSession(model("voice-activity"), providers=["CPUExecutionProvider"])
    for name, sound in sounds().items():
        state, context, wanted = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), []
        for piece in np.split(sound[: sound.size // 512 * 512] / np.float32(32768), sound.size // 512):
            taken = np.concatenate([context, piece])[None]
            (value, state) = session.run(None, {"input": taken, "state": state, "sr": np.array(16_000)})
            context = piece[-64:]
            wanted.append(float(value.item()))
        ours = first_party.speech_probabilities(ask, "demo.voice-activity", sound)
        assert ours == pytest.approx(wanted, abs=1e-4), name
    # A vowel between silences is found, and only there.
    ours = first_party.speech_probabilities(ask, "demo.voice-activity", sounds()["vowel"])
    assert max(ours[:30]) < 0.5 < np.mean(ours[33:60])


@pytest.mark.skipif(find_spec("torch") is None, reason="the package silero-vad needs torch")
def test_speech_is_where_silero_s_own_pipeline_finds_it(ask: Client, tmp_path: Path) -> None:
    made = sounds()
    for name, sound in made.items():
        np.save(tmp_path / f"{name}.npy", sound)
    theirs = ask_oracle("speech", tmp_path, [str(model("voice-activity")), list(made)])
    for (name, sound), wanted in zip(made.items(), theirs, strict=True):
        assert first_party.speech_probabilities(ask, "demo.voice-activity", sound) == pytest.approx(wanted, abs=1e-4), (
            name
        )


@pytest.mark.skipif(find_spec("torch") is None, reason="exporting EfficientNet-Lite0 needs torch")
def test_photographs_have_the_classes_that_pytorch_gives_them(tmp_path: Path) -> None:
    photographs = unpack_package("scikit-learn==1.9.1", PACKAGES) / "sklearn" / "datasets" / "images"
    paths = [photographs / name for name in ("china.jpg", "flower.jpg")]
    theirs = ask_oracle("imagenet", tmp_path, [str(path) for path in paths])
    (tmp_path / "labels.txt").write_text("\n".join(map(str, range(1000))))
    lite = {
        f"{what}_{colour}": value for what, value in (("mean", 127 / 255), ("std", 128 / 255)) for colour in COLOURS
    }
    pre, wasm = ready_plugin("sandseal:image-classification", "pre")
    bundle = write_bundle(
        tmp_path / "model.onnx",
        tmp_path / "bundle",
        name="demo.photographs",
        pre=(replace(pre, config=json.dumps(json.loads(pre.config) | lite).encode()), wasm),
        post=ready_plugin("sandseal:image-classification", "post"),
        assets={"assets/labels.txt": tmp_path / "labels.txt"},
    )
    key = PrivateKey.generate()
    write_trust(tmp_path / "trust.toml", bundle, {"demo": key.public}, holder="the test")
    with (tmp_path / "model.seal").open("wb") as file:
        pack_folder(bundle, file, [key])
    with running_host(tmp_path / "trust.toml", tmp_path / "data") as host, host.client() as client:
        client.push(tmp_path / "model.seal")
        for path, (classes, probabilities) in zip(paths, theirs, strict=True):
            outputs = client.call("demo.photographs", path.read_bytes())["outputs"]
            assert outputs["label"] == [str(number) for number in classes]
            assert outputs["probability"] == pytest.approx(probabilities, abs=1e-4)
    assert [classes[0] for classes, _ in theirs] == [PALACE, DAISY]
