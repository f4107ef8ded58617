"""The proxy in front of a host, as the environment names it (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""

import base64
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from sandseal_sdk.errors import HostUnreachable


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it is, and who asks it.

    Args:
        url: without a name and a password.
        auth: these.
    """

    url: str
    auth: tuple[str, str] | None = None

    @classmethod
    def of(cls, scheme: str, host: str) -> Self | None:
        """The one for a host; None where it is asked without."""
        named = getproxies().get(scheme)
        if not named or proxy_bypass(host):
            return None
        parts = urlsplit(named if "://" in named else f"http://{named}")
        auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        return cls(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", auth)

    @property
    def address(self) -> tuple[str, int]:
        """Its name and port.

        Raises:
            HostUnreachable: it is not spoken to by plain HTTP.
        """
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname:
            raise HostUnreachable(f"the proxy {self.url} is none of http://", hint="name another, or set NO_PROXY")
        return parts.hostname, parts.port or 80

    @property
    def headers(self) -> dict[str, str]:
        """Who asks, for it alone."""
        if self.auth is None:
            return {}
        return {"Proxy-Authorization": "Basic " + base64.b64encode(":".join(self.auth).encode()).decode()}
