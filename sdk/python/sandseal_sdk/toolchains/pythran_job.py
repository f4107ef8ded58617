"""Pythran in a process of its own: `python -m sandseal_sdk.toolchains.pythran_job JOB.json`.

The job: source, function and its parameters' types; `out` for the C++, or none to only look for type errors, which
Pythran does not do while it translates. What fails is the last line on stderr, as JSON. Apart because Pythran keeps
global state, warns and logs as it likes, and its output depends on the hash seed.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from pythran import config, spec, toolchain

MODULE = "plugin"  # the translated function is __pythran_plugin::FUNCTION


def _main(job: dict[str, Any]) -> None:
    source = Path(job["source"])
    try:
        exported = spec.spec_parser(f"#pythran export {job['function']}({', '.join(job['types'])})")
        config.cfg.set("backend", "annotate", "1")
        config.cfg.set("backend", "annotation_kind", "lineno")
        module, check_types = toolchain.generate_cxx(MODULE, source.read_text(encoding="utf-8"), exported)
        if job["out"] is None:
            check_types()
        else:
            Path(job["out"]).write_text(_with_lines(str(module), source.name), encoding="utf-8", newline="\n")
    except SyntaxError as error:  # Pythran's own errors are kinds of it
        _fail(error.lineno, str(error.args[0]))
    except Exception as error:
        _fail(None, f"Pythran cannot translate this: {type(error).__name__}: {error}")


def _with_lines(cpp: str, name: str) -> str:
    """The C++ with a #line before each statement, so that the compiler speaks of the author's lines."""
    return re.sub(r"^\s*pythran_trace_lineno\((\d+)\);", rf'#line \1 "{name}"', cpp, flags=re.MULTILINE)


def _fail(line: int | None, message: str) -> NoReturn:
    sys.stderr.write("\n" + json.dumps({"line": line, "message": message}))
    sys.exit(1)


if __name__ == "__main__":
    _main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
