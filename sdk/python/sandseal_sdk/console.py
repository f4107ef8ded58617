"""What the command line says: results on stdout, everything else on stderr; errors with code and hint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from sandseal_signing.errors import SandsealError
from sandseal_signing.pack import Progress as Advance

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Say something that is not the result."""
    err.print(escape(text))


def show_error(error: SandsealError) -> None:
    """Print an error with its code and hint."""
    err.print(f"[bold red]error\\[{escape(error.code)}][/]: {escape(error.message)}")
    for reason in error.data.get("reasons", ()):
        err.print(f"  - {escape(str(reason['check']))}: {escape(str(reason['detail']))}")
    if error.hint:
        err.print(f"[bold]hint[/]: {escape(error.hint)}")


def fail(error: SandsealError) -> NoReturn:
    """Print an error with its code and hint, and leave with status 1."""
    show_error(error)
    raise typer.Exit(1)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table as the result."""
    sheet = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        sheet.add_row(*(escape(cell) for cell in row))
    out.print(sheet)


@contextmanager
def byte_progress(what: str, total: int) -> Iterator[Advance]:
    """A progress bar over `total` bytes; yields what to call with each chunk's length."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
