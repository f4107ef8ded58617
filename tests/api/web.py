"""A client that calls an ASGI application in this process, on one event loop of its own."""

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Web:
    """Synchronous httpx over ASGI.

    Args:
        app: the application.
        token: the bearer token of every request; None for none.
    """

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://host", headers=headers)
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.request("DELETE", path, **options)
