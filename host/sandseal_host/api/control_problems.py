"""A page for every error code, to which the `type` of an error leads; made of the classes alone."""

from html import escape
from inspect import cleandoc
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from sandseal_host.api.control_dashboard import PAGE_HEADERS
from sandseal_host.api.errors import RouteUnknown
from sandseal_host.api.problems import status_of
from sandseal_host.error_members import error_kinds
from sandseal_signing.errors import SandsealError

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""
_OURS = ("sandseal_host.", "sandseal_signing.")
_OPEN: dict[str, Any] = {"security": []}


def add_problem_routes(control: FastAPI) -> None:
    """Add /problems, which lists the codes, and a page for each."""

    @control.get("/problems", summary="Every error code", response_class=HTMLResponse, openapi_extra=_OPEN)
    def codes() -> HTMLResponse:
        lines = [f'<li><a href="problems/{code}">{code}</a>: {escape(_says(kind))}' for code, kind in _kinds().items()]
        return _page("Error codes", "<ul>\n" + "\n".join(lines) + "\n</ul>")

    @control.get("/problems/{code}", summary="One error code", response_class=HTMLResponse, openapi_extra=_OPEN)
    def page(code: str) -> HTMLResponse:
        kind = _kinds().get(code)
        if kind is None:
            raise RouteUnknown(f"no error has the code {code[:80]!r}", hint="GET /problems lists the codes")
        return _page(code, "\n".join(f"<p>{escape(part)}</p>" for part in _parts(kind)))


def _kinds() -> dict[str, type[SandsealError]]:
    """The error classes by their codes; what is narrower than a code shares its page."""
    kinds = [kind for kind in error_kinds() if "code" in vars(kind) and kind.__module__.startswith(_OURS)]
    return {kind.code: kind for kind in sorted(kinds, key=lambda kind: kind.code)}


def _parts(kind: type[SandsealError]) -> list[str]:
    """What it means, what it is one of (which says who must act), the status, and what to do."""
    above = [_says(each) for each in kind.__mro__[1:] if "code" not in vars(each) and issubclass(each, SandsealError)]
    hint = [f"What to do: {kind.hint}."] if kind.hint else []
    return [_says(kind), *above[:1], f"Over HTTP its status is {status_of(kind)}.", *hint]


def _says(kind: type[SandsealError]) -> str:
    return cleandoc(kind.__doc__ or "")


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(title=escape(title), body=body), headers=PAGE_HEADERS)
