"""For pytest: a plugin folder's cases as tests, and plugins to call.

`pytest FOLDER` runs every case of each plugin.toml below it; `--sandseal-update` writes golden outputs. Pytest loads
this module whenever it runs, so nothing else of Sandseal is imported before it is needed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sandseal_sdk.harness import LoadedPlugin

_FILE, _MARK = "plugin.toml", "sandseal.plugin/"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --sandseal-update."""
    group = parser.getgroup("sandseal")
    group.addoption("--sandseal-update", action="store_true", help="write the outputs of golden plugin cases")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PluginFile | None":
    """Take a plugin.toml of ours as a file of tests."""
    ours = file_path.name == _FILE and _MARK in file_path.read_text(encoding="utf-8", errors="replace")
    return PluginFile.from_parent(parent, path=file_path) if ours else None


@pytest.fixture(scope="session")
def sandseal_plugin() -> "Iterator[Callable[[Path | str], LoadedPlugin]]":
    """`sandseal_plugin(folder)`: the plugin built and loaded (`sandseal_sdk.harness`), once for all tests."""
    from sandseal_sdk.harness import LoadedPlugin, load_plugin

    loaded: dict[Path, LoadedPlugin] = {}
    with ExitStack() as opened:

        def load(folder: Path | str) -> LoadedPlugin:
            path = Path(folder).resolve()
            if path not in loaded:
                loaded[path] = opened.enter_context(load_plugin(path))
            return loaded[path]

        yield load


class PluginFile(pytest.File):
    """A plugin.toml, whose cases are the tests."""

    plugin: "LoadedPlugin"

    def collect(self) -> "Iterator[CaseItem]":
        """One test per file of cases/."""
        from sandseal_sdk.testing.cases import case_files

        for path in case_files(self.path.parent):
            yield CaseItem.from_parent(self, name=path.stem, case=path)

    def setup(self) -> None:
        """Build and load the plugin."""
        from sandseal_sdk.harness import load_plugin

        self.plugin = load_plugin(self.path.parent)
        self.addfinalizer(self.plugin.close)


class CaseItem(pytest.Item):
    """One case.

    Args:
        case: its file.
    """

    parent: PluginFile

    def __init__(self, *, case: Path, **rest: Any) -> None:
        super().__init__(**rest)
        self._case = case

    def runtest(self) -> None:
        """Run it, and write golden outputs where asked to."""
        from sandseal_sdk.testing.cases import read_case

        plugin, update = self.parent.plugin, bool(self.config.getoption("sandseal_update"))
        result = plugin.run_case(read_case(self._case, plugin.spec), update=update)
        self.user_properties += [("fuel", result.fuel), ("memory_bytes", result.memory_bytes)]
        if not result.passed:
            pytest.fail(result.detail, pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Errors that Sandseal raises on purpose as one message, without a traceback."""
        from sandseal_signing.errors import SandsealError

        if isinstance(excinfo.value, SandsealError):
            return "\n".join(filter(None, (excinfo.value.message, excinfo.value.hint)))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands, for reports."""
        return self._case, None, f"{self.path.parent.name}: {self.name}"
