"""What clang says, reduced to what the author can act on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# `file:line:column: error: text`, where the file may start with a drive letter.
_LINE = re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]+): (?P<text>.*)$")
_MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the compiler.

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

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.text}\n{self.excerpt}".rstrip()


def read_diagnostics(stderr: str) -> Sequence[Diagnostic]:
    """The messages in a compiler's output, in order."""
    found: list[Diagnostic] = []
    lines = stderr.splitlines()
    for i, line in enumerate(lines):
        if match := _LINE.match(line):
            excerpt = "\n".join(_excerpt(lines[i + 1 : i + 1 + _MAX_LINES]))
            found.append(
                Diagnostic(
                    match["kind"], match["file"], int(match["line"]), int(match["column"]), match["text"], excerpt
                )
            )
    return found


def _excerpt(lines: Sequence[str]) -> Sequence[str]:
    """The quoted source lines, which clang starts with a number or a bar."""
    end = next((i for i, line in enumerate(lines) if not re.match(r" *\d* \|", line)), len(lines))
    return lines[:end]


def undefined_symbols(stderr: str) -> Sequence[str]:
    """What the linker missed."""
    return list(dict.fromkeys(re.findall(r"undefined symbol: (\S+)", stderr)))
