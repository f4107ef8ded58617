"""For plugin authors: new, build, test, bench."""

from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.console import note, out, table

Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A plugin's folder, with plugin.toml.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (new, build, run_cases, bench):
        app.command("test" if command is run_cases else None)(command)


def new(
    folder: Annotated[Path, typer.Argument(help="Created; its name becomes the plugin's.")],
    lang: Annotated[str, typer.Option(help="python, c, cpp, zig, assemblyscript or rust.")] = "python",
    stage: Annotated[str, typer.Option(help="pre, post or logits.")] = "pre",
) -> None:
    """Start a plugin that builds and passes its test as it stands."""
    from sandseal_sdk.scaffold import new_plugin

    new_plugin(folder, folder.name, lang, stage)
    note("next:")
    out.print(f"sandseal test {folder}")


def build(
    folder: Folder,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="The wasm file; build/NAME.wasm.")] = None,
) -> None:
    """Compile a plugin to WebAssembly."""
    from sandseal_sdk.build import build_plugin

    result = build_plugin(folder, output, progress=note)
    out.print(f"{result.wasm}  {result.wasm.stat().st_size} bytes")


def run_cases(
    folder: Folder,
    update: Annotated[bool, typer.Option(help='Write what it answers into the cases that have "outputs".')] = False,
    watch: Annotated[bool, typer.Option(help="Build and test again whenever a file changes, until Ctrl-C.")] = False,
) -> None:
    """Build a plugin and run its cases in the very sandbox that will run it."""
    if watch:
        _watch(folder, update)
    elif not _report(folder, update):
        raise typer.Exit(1)


def bench(
    folder: Folder,
    rounds: Annotated[int, typer.Option(min=1, help="Calls of each kind.")] = 200,
) -> None:
    """Time a plugin's cases: microseconds at the median and the 99th percentile, instructions, memory."""
    from sandseal_sdk.testing.timing import Times, time_plugin

    def shown(times: Times | None) -> list[str]:
        return [f"{times.median_us:.1f}", f"{times.p99_us:.1f}"] if times else ["", ""]

    rows = []
    for case in time_plugin(folder, rounds, note):
        times = (case.fresh, case.reused, case.python)
        used = (f"{case.fuel:,}", f"{case.memory_bytes / 2**20:.2f}")
        rows.append([case.name, *(cell for each in times for cell in shown(each)), *used])
    kinds = [f"{way} {value}" for way in ("fresh", "reused", "python") for value in ("us", "p99")]
    table("", ["case", *kinds, "fuel", "MiB"], rows)


def _report(folder: Path, update: bool) -> bool:
    """Print the report; whether all cases passed."""
    from sandseal_sdk.harness import test_plugin

    report = test_plugin(folder, note, update=update)
    for case in report.cases:
        used = f"{case.milliseconds:.2f} ms  {case.memory_bytes / 2**20:.2f} MiB  {case.fuel:,} instructions"
        out.print(f"{'ok ' if case.passed else 'NO '} {case.name}  {used}  {case.detail}".rstrip(), markup=False)
    return report.passed


def _watch(folder: Path, update: bool) -> None:
    from sandseal_sdk.console import show_error
    from sandseal_sdk.testing.watch import changes
    from sandseal_signing.errors import SandsealError

    for _ in changes(folder):
        try:
            _report(folder, update)
        except SandsealError as error:
            show_error(error)
        note(f"waiting for changes in {folder}")
