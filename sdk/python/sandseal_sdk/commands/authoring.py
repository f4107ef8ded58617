"""For plugin authors: new, build, test."""

from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.console import note, out

Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A plugin's folder, with plugin.toml.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (new, build, test):
        app.command()(command)


def new(
    folder: Annotated[Path, typer.Argument(help="Created; its name becomes the plugin's.")],
    lang: Annotated[str, typer.Option(help="python or c.")] = "python",
    stage: Annotated[str, typer.Option(help="pre or post.")] = "pre",
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


def test(folder: Folder) -> None:
    """Build a plugin and run its cases in the very sandbox that will run it."""
    from sandseal_sdk.harness import test_plugin

    report = test_plugin(folder, progress=note)
    for case in report.cases:
        out.print(f"{'ok ' if case.passed else 'NO '} {case.name}  {case.milliseconds:.2f} ms  {case.detail}".rstrip())
    if not report.passed:
        raise typer.Exit(1)
