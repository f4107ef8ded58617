"""What compilers say, reduced to what the author can act on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from sandseal_sdk.errors import BuildError
from sandseal_sdk.toolchains.compiler import Outcome, Progress

# `file:line:column: error: text`, where the file may start with a drive letter; as clang and zig write it.
_LINE = re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]+): (?P<text>.*)$")
# `    function: file:line:column`, below zig's "referenced by:".
_REFERENCE = re.compile(r"^ +(?P<text>\S+): (?P<file>(?:[A-Za-z]:)?[^:\n]+):(?P<line>\d+):(?P<column>\d+)$")
_CARET = re.compile(r" *~*\^~*")
_MAX_LINES = 12
SAID = 8192
"""Characters of a compiler's output that an error keeps."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of a compiler.

    Args:
        kind: error, fatal error, warning or note.
        file, line, column: where, as the compiler names it.
        text: its first line.
        excerpt: the lines that follow it: source and caret.
    """

    kind: str
    file: str
    line: int
    column: int
    text: str
    excerpt: str

    @property
    def is_error(self) -> bool:
        """Whether it ends the build."""
        return self.kind.endswith("error")

    @property
    def is_authors(self) -> bool:
        """Whether the file is in the plugin's folder, not in a library."""
        path = PurePath(self.file)
        return not path.is_absolute() and path.parts[0] not in ("..", "~lib")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.text}\n{self.excerpt}".rstrip()


def read_diagnostics(stderr: str) -> Sequence[Diagnostic]:
    """The messages in clang's or zig's output, in order."""
    found: list[Diagnostic] = []
    lines = stderr.splitlines()
    for i, line in enumerate(lines):
        if match := _LINE.match(line) or _REFERENCE.match(line):
            kind, excerpt = match.groupdict().get("kind", "note"), "\n".join(_excerpt(lines[i + 1 :]))
            place = match["file"], int(match["line"]), int(match["column"])
            found.append(Diagnostic(kind, *place, match["text"], excerpt))
    return found


def _excerpt(lines: Sequence[str]) -> Sequence[str]:
    """The quoted source lines: clang starts them with a number or a bar, zig gives one and a caret below it."""
    if len(lines) > 1 and _CARET.fullmatch(lines[1]):
        return lines[:2]
    end = next((i for i, line in enumerate(lines) if not re.match(r" *\d* \|", line)), len(lines))
    return lines[: min(end, _MAX_LINES)]


def settle(outcome: Outcome, found: Sequence[Diagnostic], progress: Progress, hint: str | None = None) -> None:
    """End a compiler's run: its warnings go to the author.

    Args:
        found: in its output.
        hint: what to do, where more is known than that the source must change.

    Raises:
        BuildError: it failed.
    """
    if not outcome.succeeded:
        raise _failure(found, outcome.text, hint)
    for warning in found:
        progress(str(warning))


def _failure(diagnostics: Sequence[Diagnostic], said: str, hint: str | None) -> BuildError:
    """A compiler's first error, at a place in the author's files."""
    errors = [i for i, diagnostic in enumerate(diagnostics) if diagnostic.is_error]
    if not errors:
        return BuildError(f"the compiler failed: {said.strip()[:SAID]}", hint=hint, compiler=said[:SAID])
    first, rest = diagnostics[errors[0]], len(errors) - 1
    # A mistake that shows inside a library is told at the place that uses it, which the notes below it name.
    notes = diagnostics[errors[0] : errors[1] if rest else None]
    place = next((note for note in notes if note.is_authors), first)
    message = str(first) if place is first else f"{place.file}:{place.line}:{place.column}: {first.text}\n{first}"
    more = f"\n(and {rest} more)" if rest else ""
    return BuildError(f"{message}{more}", hint=hint, file=place.file, line=place.line, compiler=said[:SAID])


def undefined_symbols(stderr: str) -> Sequence[str]:
    """What the linker missed."""
    return list(dict.fromkeys(re.findall(r"undefined symbol: (\S+)", stderr)))
