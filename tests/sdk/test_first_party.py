"""The first-party plugins against the packages whose work they do, in the sandbox."""

import json
import os
import random
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from demo import ROOT

from sandseal_host.errors import InputRefused
from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import BuildError, PluginFolderInvalid
from sandseal_sdk.first_party import names, ready_plugin
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.publish import write_bundle
from support.first_party import PLUGINS, complete, write_tokenizer
from support.onnx_models import mlp
from support.oracles import ask_oracle

LINES = (
    ("Sandseal runs nothing unsigned", 24), ("Total: 1,234.56 EUR", 40), ("plugin", 60), ("x = 3 * (y - 7)", 48),
    ("The quick brown fox jumps over the lazy dog 0123456789", 18),
)  # fmt: skip
PARTS = (
    "abcdefghij klmnop", " ,.!?;:'\"-()[]", "éèüßñçåøæœŁđ", "ÀÉÎÖÛ", "中文字符測試", "こんにちはカタカナ", "한국어문장",
    "русский язык", "العربية", "עברית", "हिन्दी ก็ไทย", "😀🎉👩\u200d👩\u200d👧🇩🇪", "ﬁﬀ①½²", "İıſǅ",
    "\t\n\r\x00\x01\x7f\u200b\u00a0\u3000\ufffd\u2028", "\U0001d518\U0001d52b\U0001d526", "豈更", "€£¥©®™",
    "«»„“\u2013—…", "e\u0301a\u0308\u0327",
)  # fmt: skip
WORDS = (
    "the", "quick", "brown", "fox", "unbelievable", "internationalization", "1234.5", "e-mail", "http://x.y/z?q=1",
    "don't", "C++", "naïve", "Zürich", "[SEP]", "[MASK]", "##ing", "antidisestablishmentarianism",
)  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    return folder, ask_oracle("pillow_images", folder)


@pytest.mark.slow
def test_images_are_pillow_s_pixels_to_the_last_bit(images, call):
    built = build_plugin(complete("image-classification-pre"))
    folder, names = images
    assert len(names) == 15
    for name in names:
        (ours,) = call(built, np.fromfile(folder / name, np.uint8))
        # One step of a byte is 0.017 here.
        np.testing.assert_allclose(ours, np.load(folder / f"{name}.npy"), atol=2e-6, err_msg=name)


@pytest.mark.slow
def test_damaged_images_are_refused(images, call):
    built = build_plugin(complete("image-classification-pre"))
    folder, names = images
    source = random.Random(11)
    for name in names:
        whole = np.fromfile(folder / name, np.uint8)
        with pytest.raises(InputRefused):
            call(built, whole[: whole.size // 2])
        for _ in range(5):
            hurt = whole.copy()
            hurt[source.randrange(hurt.size)] ^= 1 << source.randrange(8)
            with suppress(InputRefused):  # or it is an image still
                call(built, hurt)


@pytest.mark.slow
def test_lines_of_text_are_rapidocr_s_tensors(tmp_path, call):
    built = build_plugin(complete("text-recognition-pre"))
    for name in ask_oracle("text_lines", tmp_path, LINES):
        (ours,) = call(built, np.fromfile(tmp_path / name, np.uint8))
        wanted = np.load((tmp_path / name).with_suffix(".npy"))
        assert ours.shape == wanted.shape
        np.testing.assert_allclose(ours, wanted, atol=1e-6)


def sentences():
    """A thousand texts of mixed scripts, and some that test the edges."""
    yield from (
        "",
        " ",
        "\u200b",
        "a" * 99,
        "a" * 100,
        "a" * 101,
        "é" * 101,
        "ab" * 500,
        "!" * 300,
        "中" * 400,
        "x " * 600,
    )
    source = random.Random(5)
    for _ in range(1000):
        pieces = []
        for _ in range(source.randint(1, 12)):
            letters = source.choice(PARTS)
            made = "".join(source.choice(letters) for _ in range(source.randint(1, 12)))
            pieces.append(source.choice(WORDS) if source.random() < 0.5 else made)
        yield source.choice((" ", "", "  ")).join(pieces)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    """A folder with the tokenizer.json that the vocabulary is made from."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@pytest.mark.slow
def test_token_ids_are_hugging_face_s(tokenizer_folder, call):
    """Of every character in the vocabulary, too: elsewhere the two may know different versions of Unicode."""
    built = build_plugin(complete("text-embedding-pre"))
    vocabulary = json.loads((tokenizer_folder / "tokenizer.json").read_bytes())["model"]["vocab"]
    texts = [*sentences(), *(f"a{letter}b" for letter in sorted({letter for word in vocabulary for letter in word}))]
    for text, wanted in zip(texts, ask_oracle("word_pieces", tokenizer_folder, texts), strict=True):
        ids, mask, kinds = call(built, [text.encode()])
        assert ids.tolist() == [wanted], repr(text)
        assert mask.tolist() == [[1] * len(wanted)]
        assert not kinds.any()


def test_first_party_plugins_have_names():
    assert names("pre") == ["file-type", "image-classification", "text-embedding", "text-recognition", "voice-activity"]
    assert names("post") == ["file-type", "image-classification", "text-embedding", "text-recognition"]
    assert names("step") == ["ocr-lines", "ocr-page"]


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(PluginFolderInvalid, match="no first-party pre plugin sandseal:images") as refusal:
        ready_plugin("sandseal:images", "pre")
    assert "sandseal:image-classification" in refusal.value.hint


def test_a_plugin_for_the_other_stage_is_refused():
    with pytest.raises(PluginFolderInvalid, match="is a pre plugin"):
        ready_plugin(str(PLUGINS / "text-hash"), "post")


def test_a_missing_asset_says_how_to_give_it(tmp_path):
    (tmp_path / "model.onnx").write_bytes(mlp().data)
    (tmp_path / "post.wasm").write_bytes(b"")
    spec = replace(read_plugin_spec(PLUGINS / "image-classification-post"), folder=tmp_path)
    plugin = (spec, tmp_path / "post.wasm")
    with pytest.raises(PluginFolderInvalid, match=r"needs the asset assets/labels\.txt") as refusal:
        write_bundle(tmp_path / "model.onnx", tmp_path / "bundle", name="mlp", post=plugin)
    assert "--asset assets/labels.txt=FILE" in refusal.value.hint
    (tmp_path / "mine.txt").write_text("a\nb\n")
    given = {"assets/labels.txt": tmp_path / "mine.txt"}
    bundle = write_bundle(tmp_path / "model.onnx", tmp_path / "whole", name="mlp", post=plugin, assets=given)
    assert (bundle / "assets" / "labels.txt").read_text() == "a\nb\n"


@pytest.mark.slow
def test_without_its_decoder_an_image_plugin_says_what_to_run(tmp_path):
    for file in ("plugin.c", "plugin.toml"):
        (tmp_path / file).write_bytes((PLUGINS / "image-classification-pre" / file).read_bytes())
    with pytest.raises(BuildError, match=r"wuffs\.c is missing: `python fetch\.py`"):
        build_plugin(tmp_path)


@pytest.mark.slow
def test_a_wheel_carries_them_built(tmp_path):
    built = build_plugin(complete("text-recognition-pre")).wasm.read_bytes()
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    pip = subprocess.run(wheel, check=False, capture_output=True, text=True)
    if pip.returncode:
        pytest.skip(f"pip cannot build a wheel: {pip.stderr.strip().splitlines()[-1]}")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(tmp_path / "installed")
        assert not [name for name in archive.namelist() if name.endswith("wuffs.c") or "/build/work/" in name]
    say = "import sandseal_sdk.first_party as f; print(f.ready_plugin('sandseal:text-recognition', 'pre')[1])"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    answer = subprocess.run([sys.executable, "-c", say], check=True, capture_output=True, text=True, env=environment)
    carried = Path(answer.stdout.strip())
    assert tmp_path in carried.parents
    assert carried.read_bytes() == built
