"""The dashboard: static files that ask the control plane with the token that their reader types in."""

from importlib.resources import files

from fastapi import FastAPI, Response

from sandseal_host.api import dashboard
from sandseal_host.api.errors import RouteUnknown

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
# Nothing from elsewhere, nothing inline, in nobody's frame: a bundle's texts cannot become code here.
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def add_dashboard_routes(control: FastAPI) -> None:
    """Add the page at / and what it consists of; they tell nothing, so they need no token."""
    pages = {
        file.name: Response(file.read_bytes(), media_type=_TYPES[file.name.rpartition(".")[2]], headers=PAGE_HEADERS)
        for file in files(dashboard).iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }

    @control.get("/", include_in_schema=False)
    async def page() -> Response:
        return pages["index.html"]

    @control.get("/dashboard/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in pages:
            raise RouteUnknown(f"the dashboard has no part {name[:80]!r}")
        return pages[name]
