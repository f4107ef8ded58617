"""The first-party plugins: their own cases, and the file-type pair against the package `magika` itself."""

import importlib.util
import json
import random
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from first_party import load

from sandseal_host.errors import InputRefused
from sandseal_sdk import harness
from sandseal_sdk.build import build_plugin
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.plugin.wasm_module import read_surface
from support.first_party import complete

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
NAMES = sorted(path.parent.name for path in PLUGINS.glob("*/plugin.toml"))


def slow_unless_bare_c(name):
    spec = read_plugin_spec(PLUGINS / name)
    return pytest.param(name, marks=() if spec.language == "c" and not spec.libc else pytest.mark.slow)


@pytest.fixture(scope="session")
def plugin_folder():
    """A plugin's folder with all that it needs, which git ignores; what is built there, every test finds built."""

    def folder(name):
        if name == "file-type-post":
            load(PLUGINS / name / "labels.py").write_labels(magika_folder())
        else:
            complete(name)
        return PLUGINS / name

    return folder


def magika_folder():
    pytest.importorskip("magika")
    return Path(importlib.util.find_spec("magika").origin).parent


@pytest.fixture(scope="session")
def magika():
    return pytest.importorskip("magika").Magika()


def magika_features(magika, content):
    """What the package feeds its model, or None when it answers without the model."""
    from magika.types import Seekable

    _, features = magika._get_result_or_features_from_seekable(Seekable(BytesIO(content)))
    return None if features is None else [*features.beg, *features.end]


def contents():
    """Byte strings of every kind that the extraction treats differently."""
    source = random.Random(7)
    spaces = b" \t\n\r\v\f"
    yield from (b"", b"a", b"1234567", b"12345678", b" 1234567", b" 12345678", b"1234567 ", b"\0" * 8, b"\x1c" * 9)
    yield from (spaces, spaces * 300, spaces * 2000, spaces * 2000 + b"x" * 9, b"x" * 9 + spaces * 2000)
    for size in (8, 9, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 50_000):
        yield source.randbytes(size)
        yield b" " * (size // 2) + source.randbytes(size - size // 2)
        yield source.randbytes(size - size // 2) + b"\n" * (size // 2)
        yield b" " * (size - 1) + b"x"
    for _ in range(200):
        size = source.choice((10, 100, 1500, 4096, 6000))
        yield bytes(source.choice(spaces + b"ab\0\x85\xa0\xff") for _ in range(size))


@pytest.mark.parametrize("name", [slow_unless_bare_c(name) for name in NAMES])
def test_its_cases_pass_and_it_imports_only_what_it_asks_for(plugin_folder, name):
    folder = plugin_folder(name)
    report = harness.test_plugin(folder)
    assert [(case.name, case.detail) for case in report.cases if not case.passed] == []
    built = build_plugin(folder)
    granted = {f"sandseal.{name}" for name in built.spec.imports}
    assert set(read_surface(built.wasm.read_bytes()).imports) == granted


def test_features_are_magikas_own(magika):
    extract = load(PLUGINS / "file-type-pre" / "plugin.py").extract_features
    modelled = 0
    for content in contents():
        wanted = magika_features(magika, content)
        if wanted is None:
            with pytest.raises(ValueError, match=r"the file is empty|fewer than 8 bytes"):
                extract(np.frombuffer(content, np.uint8))
        else:
            assert extract(np.frombuffer(content, np.uint8)).tolist() == [wanted]
            modelled += 1
    assert modelled > 200


@pytest.mark.slow
def test_features_are_magikas_own_in_the_sandbox(plugin_folder, magika, call):
    built = build_plugin(plugin_folder("file-type-pre"))
    for content in contents():
        wanted = magika_features(magika, content)
        data = np.frombuffer(content, np.uint8)
        if wanted is None:
            with pytest.raises(InputRefused):
                call(built, data)
        else:
            assert call(built, data)[0].tolist() == [wanted]


def score_rows(magika):
    """Model outputs whose best score lies at, just above or just below each label's threshold."""
    config, source = magika._model_config, np.random.default_rng(3)
    for i, label in enumerate(config.target_labels_space):
        threshold = np.float32(config.thresholds.get(label, config.medium_confidence_threshold))
        for best in (threshold, np.nextafter(threshold, np.float32(0)), np.nextafter(threshold, np.float32(1)), 1):
            row = source.random(214, np.float32) * np.float32(0.01)
            row[i] = best
            yield row[None]


def test_the_first_label_is_magikas_own_answer(magika):
    name_types = load(PLUGINS / "file-type-post" / "plugin.py").name_types
    check_labels(magika, lambda row: name_types(row, label_table()))


@pytest.mark.slow
def test_the_first_label_is_magikas_own_answer_in_the_sandbox(plugin_folder, magika, call):
    folder = plugin_folder("file-type-post")
    built, assets = build_plugin(folder), {"assets/labels.txt": (folder / "assets" / "labels.txt").read_bytes()}

    def in_sandbox(row):
        labels, scores = call(built, row, assets=assets)
        return [label.decode() for label in labels], scores

    check_labels(magika, in_sandbox)


@cache
def label_table():
    labels, package = load(PLUGINS / "file-type-post" / "labels.py"), magika_folder()
    return labels.render_labels(
        *((package / file).read_bytes() for file in (labels.MODEL_CONFIG, labels.CONTENT_TYPES))
    )


def check_labels(magika, name_types):
    space = magika._target_labels_space
    for row in score_rows(magika):
        labels, scores = name_types(row)
        best = int(np.argmax(row))
        answer, _ = magika._get_output_label_from_dl_label_and_score(space[best], float(row[0, best]))
        assert labels[0] == answer
        assert scores[0] == row[0, best]
        ranked = [space[i] for i in np.argsort(-row[0], kind="stable")[:5]]
        assert labels == (ranked if answer == space[best] else [answer, *ranked[:4]])


def test_whole_files_get_magikas_label(magika):
    """Features, the real model, labels: without sandbox and host, whose own tests come to the same."""
    extract = load(PLUGINS / "file-type-pre" / "plugin.py").extract_features
    name_types = load(PLUGINS / "file-type-post" / "plugin.py").name_types
    files = [Path(__file__), PLUGINS / "text-hash" / "plugin.c", PLUGINS / "text-hash" / "plugin.toml"]
    contents = [path.read_bytes() for path in files]
    contents += [b"<html><body><p>Hi</p></body></html>", b"just words here", random.Random(1).randbytes(5000)]
    contents.append(json.dumps({"a": [1, 2, 3], "b": {"c": "d"}}, indent=2).encode())
    contents.append(b"#!/bin/sh\nset -e\nfor f in *; do echo $f; done\n")
    for content in contents:
        (scores,) = magika._onnx_session.run(["target_label"], {"bytes": extract(np.frombuffer(content, np.uint8))})
        labels, _ = name_types(scores, label_table())
        assert labels[0] == magika.identify_bytes(content).output.label
