"""What a real Triton was asked, by the script that recorded its answers.

    triton_requests.py PEERS                list the requests; PEERS is the folder of that script, oracle.py
    triton_requests.py PEERS URL TOKEN      ask a server all of them, and list its answers as the record shows them

Lists are JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, sys.argv[1])

import oracle


def requests() -> Iterator[tuple[str, str, str, dict[str, str], bytes]]:
    """Title, method, path, headers and body of each, in order."""
    for item in oracle.requests():
        if not isinstance(item, str):
            title, method, path, headers, body = item
            yield title, method, path.removeprefix("METRICS"), headers, body


def listed() -> list[Any]:
    """The requests, their bodies in hexadecimal."""
    return [(*request, body.hex()) for *request, body in requests()]


def asked(url: str, token: str) -> list[Any]:
    """The answers of this server."""
    found = []
    for title, method, path, headers, body in requests():
        known = {**headers, "Authorization": f"Bearer {token}"}
        status, _, answered, data = oracle.send(url, method, path, known, body)
        kept = {name.lower(): value for name, value in answered}
        found.append({"title": title, "status": status, "headers": kept, "text": oracle.shown(data, answered, 10**6)})
    return found


if __name__ == "__main__":
    print(json.dumps(asked(*sys.argv[2:]) if sys.argv[2:] else listed()))
