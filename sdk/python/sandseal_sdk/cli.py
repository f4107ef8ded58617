"""The one `sandseal` command; other packages add to it through the `sandseal.commands` entry points."""

import sys
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from sandseal_sdk.commands import (
    authoring,
    calling,
    exporting,
    importing,
    log,
    publishing,
    receipt,
    remote,
    trust,
    verifying,
)
from sandseal_sdk.console import fail, out
from sandseal_sdk.errors import ExtraMissing
from sandseal_signing.errors import SandsealError

_EXTRAS = {
    "numpy": "sdk", "onnx": "sdk", "pythran": "sdk", "ziglang": "sdk", "wasmtime": "sdk", "fastapi": "cpu",
    "sqlalchemy": "cpu", "alembic": "cpu", "uvicorn": "cpu", "onnxruntime": "cpu", "orjson": "cpu",
    "prometheus_client": "cpu", "pydantic_settings": "cpu", "structlog": "cpu", "torch": "export",
    "skl2onnx": "export", "sklearn": "export", "joblib": "export", "onnxscript": "export", "onnx_ir": "export",
    "gguf": "decoders", "safetensors": "decoders",
}  # fmt: skip


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"sandseal {version('sandseal')}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The command tree, entry points included."""
    app = typer.Typer(
        name="sandseal",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    publishing.register(app)
    verifying.register(app)
    importing.register(app)
    exporting.register(app)
    authoring.register(app)
    remote.register(app)
    calling.register(app)
    log.register(app)
    receipt.register(app)
    trust.register(app)
    for entry in sorted(entry_points(group="sandseal.commands"), key=lambda entry: entry.name):
        entry.load()(app)
    return app


def main() -> None:
    """Run the command line; errors that Sandseal raises on purpose become one clear message."""
    try:
        build_app()(standalone_mode=True)
    except SandsealError as error:
        _leave(error)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _leave(
            ExtraMissing(
                f"this needs the package {error.name!r}, which is not installed",
                hint=f"pip install 'sandseal[{extra}]'",
            )
        )


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Seal models with their plugins, and serve them sandboxed and batched."""


def _leave(error: SandsealError) -> None:
    try:
        fail(error)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
