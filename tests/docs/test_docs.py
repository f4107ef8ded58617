"""What the documentation says exists, exists."""

import re
from fnmatch import fnmatch
from pathlib import Path
from textwrap import indent

import pytest
import typer

from sandseal_sdk.cli import build_app
from support.numpy_python_page import PAGE, with_constructs
from support.settings_table import README, with_settings_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path for path in ROOT.rglob("*.md") if not {".venv", ".work", "node_modules"} & set(path.relative_to(ROOT).parts)
]
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"\bsandseal ((?:trust |token )?[a-z][a-z-]*)\b")
_EXAMPLE = re.compile(r"<!-- cut from (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
_TARGET = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)\b")


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_of(text: str) -> str:
    """What a page shows as code: blocks, indented or fenced, and inline spans."""
    blocks = re.findall(r"^(?: {4}|\t)(?=\S).*$|```.*?```", text, re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


def command_names() -> set[str]:
    command = typer.main.get_command(build_app())
    names = set()
    for name, sub in command.commands.items():
        names.add(name)
        names |= {f"{name} {inner}" for inner in getattr(sub, "commands", {})}
    return names


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_id)
def test_commands_and_targets_exist(page: Path) -> None:
    code = code_of(page.read_text())
    assert set(_COMMAND.findall(code)) <= command_names()
    targets = re.findall(r"^([a-z%-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    missing = [t for t in _TARGET.findall(code) if not any(fnmatch(t, target.replace("%", "*")) for target in targets)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_examples_stand_in_the_tests_that_they_are_cut_from(page: Path) -> None:
    for test, example in _EXAMPLE.findall(page.read_text()):
        source = (ROOT / test).read_text()
        assert any(indent(example, " " * depth) in source for depth in (0, 4, 8)), f"not in {test}:\n{example}"


def test_settings_table_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_settings_table(text) == text, "run `make vectors`"


def test_the_list_of_constructs_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_constructs(text) == text, "run `make vectors`"


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {re.split(r"[\[<>=;! ]", requirement)[0] for requirement in wanted} - {"sandseal"}
    reasons = (ROOT / "CONTRIBUTING.md").read_text()
    assert not [name for name in sorted(names) if name not in reasons]
