import sys

import pytest

from sandseal_sdk.errors import BuildError, ExtraMissing
from sandseal_sdk.toolchains import node
from sandseal_sdk.toolchains.compiler import library_folder

pytestmark = pytest.mark.slow  # each starts processes


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SANDSEAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_registry_that_does_not_answer_is_told_and_leaves_nothing(monkeypatch, cache):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(cache / "npm-cache"))
    lines = []
    with pytest.raises(BuildError, match=r"npm cannot install assemblyscript: .*ECONNREFUSED") as caught:
        node.install_packages(library_folder("assemblyscript"), lines.append)
    assert "npm config get registry" in caught.value.hint
    assert ["npm's registry" in line for line in lines] == [True]
    assert list((cache / "npm").iterdir()) == []


def test_what_is_there_already_is_not_fetched_again(monkeypatch, cache, tmp_path):
    lock = tmp_path / "tool"
    lock.mkdir()
    for name in ("package.json", "package-lock.json"):
        (lock / name).write_text('{"name": "tool", "lockfileVersion": 3, "packages": {}}')
    first = node.install_packages(lock, lambda line: None)
    monkeypatch.setenv("PATH", "")
    assert node.install_packages(lock, pytest.fail) == first
    (lock / "package-lock.json").write_text('{"name": "tool", "lockfileVersion": 3, "packages": {"": {}}}')
    assert node.install_packages(lock, lambda line: None) != first


def test_without_node_the_way_to_get_it_is_told(monkeypatch):
    monkeypatch.setattr(node, "_PACKAGE", "no_such_package")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ExtraMissing, match="needs Node") as caught:
        node.node_command()
    assert "sandseal[assemblyscript]" in caught.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is Linux's")
def test_the_cache_is_where_the_desktop_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("SANDSEAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert node.cache_folder() == tmp_path / "sandseal"
