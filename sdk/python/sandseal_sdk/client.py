"""The REST client: push bundles, call models, see and control what runs."""

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from sandseal_sdk.errors import HostRefused, HostUnreachable
from sandseal_sdk.hosts.transfer import OfferPush
from sandseal_signing.digest import CHUNK
from sandseal_signing.envelope import MEDIA_TYPE
from sandseal_signing.pack import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMPY = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_DATATYPES = {code.lstrip("<"): name for name, code in _NUMPY.items()} | {"b1": "BOOL"}
_HEADER_LENGTH = "Inference-Header-Content-Length"
_RECEIPT = "Sandseal-Receipt"


class Client:
    """A connection to one host; use it with `with`, or call `close`.

    Args:
        url: the host's address, such as `http://127.0.0.1:8000`.
        token: a bearer token; None for a host that takes anonymous inference.
        timeout: seconds to wait for an answer; uploads may take longer.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ready(self) -> bool:
        """Whether the host serves."""
        return self._send("GET", "/v2/health/ready", accept=(200, 400, 503)).status_code == 200

    def push(self, seal: Path, progress: Progress = lambda _: None) -> dict[str, Any]:
        """Upload a .seal file; the answer has id, name, version, signers and state.

        Raises:
            HostRefused: with the host's code and reason.
        """

        def chunks() -> Iterator[bytes]:
            with seal.open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
                    progress(len(chunk))

        headers = {"Content-Length": str(seal.stat().st_size), "Content-Type": "application/x-tar"}
        answer = self._send("POST", "/v1/bundles", content=chunks(), headers=headers, timeout=None)
        return dict(answer.json())

    def push_offer(self, seal: Path, progress: Progress = lambda _: None, *, parallel: int = 4) -> dict[str, Any]:
        """Upload a large .seal file blob by blob, going on after broken connections; the answer is as `push`'s.

        The same file pushed again goes on where an earlier push ended, for as long as the host keeps offers.

        Args:
            progress: gets the lengths of what the host has of the blobs, from several threads.
            parallel: blobs under way at once.

        Raises:
            HostRefused, HostUnreachable: for good, or too often in a row.
        """
        return OfferPush(self._send, seal, progress, parallel=parallel).run()

    def sign(self, bundle_id: str, signature: bytes) -> dict[str, Any]:
        """Add a signature file to a pending bundle, or to an accepted one; the answer is as `push`'s."""
        headers = {"Content-Type": MEDIA_TYPE}
        path = f"/v1/bundles/{bundle_id}/signatures"
        return dict(self._send("POST", path, content=signature, headers=headers, timeout=None).json())

    def call(
        self, model: str, body: bytes, content_type: str = "application/octet-stream", *, version: int | None = None
    ) -> dict[str, Any]:
        """Send a plain body (an image, text, a file) to a model that takes one; the answer is JSON.

        The answer's `timings` has the host's Server-Timing, in milliseconds by stage.
        """
        answer = self._call(model, body, version, {"Content-Type": content_type})
        return {**answer.json(), "timings": _timings(answer.headers.get("Server-Timing", ""))}

    def call_with_receipt(
        self,
        model: str,
        body: bytes,
        nonce: str,
        content_type: str = "application/octet-stream",
        *,
        version: int | None = None,
    ) -> tuple[bytes, bytes]:
        """As `call`, with the answer as it came, and the host's receipt for it.

        Args:
            nonce: repeated in the receipt; at most 128 visible ASCII characters.
        """
        answer = self._call(model, body, version, {"Content-Type": content_type, _RECEIPT: nonce})
        return answer.content, answer.headers[_RECEIPT].encode()

    def infer(
        self,
        model: str,
        inputs: Mapping[str, "NDArray[Any]"],
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, "NDArray[Any]"]:
        """Run a model on NumPy arrays through the Open Inference Protocol's binary form.

        Args:
            inputs: arrays by input name; arrays of `bytes` or `str` objects become BYTES tensors.
            parameters: such as `priority` (1 to 3) or `timeout` (microseconds).

        Raises:
            HostRefused: with the host's code and reason.
        """
        encoded = {name: _encode(array) for name, array in inputs.items()}
        header = {
            "inputs": [
                {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(data)}}
                for name, (kind, shape, data) in encoded.items()
            ],
            "parameters": {"binary_data_output": True, **(parameters or {})},
        }
        text = json.dumps(header).encode()
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
        body = b"".join((text, *(data for _, _, data in encoded.values())))
        return _decode_answer(self._send("POST", path, content=body, headers={_HEADER_LENGTH: str(len(text))}))

    def models(self) -> list[dict[str, Any]]:
        """Every model that the token may see, with version and state."""
        return list(self._send("POST", "/v2/repository/index").json())

    def load(self, model: str, version: int | None = None) -> None:
        """Serve an accepted version (the newest when None); returns when it is ready."""
        parameters = {"parameters": {"version": version}} if version else {}
        self._send("POST", f"/v2/repository/models/{model}/load", json=parameters, timeout=None)

    def unload(self, model: str) -> None:
        """Stop serving a model; returns when its memory is back."""
        self._send("POST", f"/v2/repository/models/{model}/unload", json={"parameters": {"wait": True}}, timeout=None)

    def bundles(self) -> list[dict[str, Any]]:
        """Every accepted bundle."""
        return list(self._send("GET", "/v1/bundles").json())

    def trust(self) -> dict[str, Any]:
        """The trust policy in force: serial, keys, rules, root, revoked, and `problem` with the file on disk."""
        return dict(self._send("GET", "/v1/trust").json())

    def replace_trust(self, envelope: bytes) -> dict[str, Any]:
        """Put a policy in force that the holders of the host's [root] have signed; the answer is as `trust`'s."""
        return dict(self._send("PUT", "/v1/trust", content=envelope).json())

    def permit(self, envelope: bytes) -> dict[str, Any]:
        """Bring a signed downgrade permit, which lets its bundle in once; the answer has id, bundles and end."""
        return dict(self._send("POST", "/v1/trust/permits", content=envelope).json())

    def permits(self) -> list[dict[str, Any]]:
        """Every downgrade permit that was brought, oldest first; `problem` says why one lets nothing in."""
        return list(self._send("GET", "/v1/trust/permits").json())

    def explain(self, **asked: str) -> dict[str, Any]:
        """Why a signature counts or not: a tree of `holds`, `text` and `branches`.

        Args:
            asked: `name` (a model's) and `key`, or `bundle` (an id).
        """
        return dict(self._send("POST", "/v1/trust/explain", json=asked).json())

    def revocations(self) -> list[dict[str, Any]]:
        """Everything that was ever revoked, oldest first."""
        return list(self._send("GET", "/v1/revocations").json())

    def revoke(self, target: str, digest: str, reason: str = "") -> list[dict[str, Any]]:
        """Revoke a key (by fingerprint), bundle or blob for ever; the answer lists the models that this stopped.

        Args:
            target: `key`, `bundle` or `blob`.
            digest: 64 hex digits.
        """
        body = {"target": target, "digest": digest, "reason": reason}
        return list(self._send("POST", "/v1/revocations", json=body).json()["withdrawn"])

    def issue_token(self, name: str, scopes: list[str], **fields: Any) -> dict[str, Any]:
        """Make a token; the answer holds its secret, which is shown this once."""
        return dict(self._send("POST", "/v1/tokens", json={"name": name, "scopes": scopes, **fields}).json())

    def tokens(self) -> list[dict[str, Any]]:
        """Every token, without secrets."""
        return list(self._send("GET", "/v1/tokens").json())

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._send("DELETE", f"/v1/tokens/{token_id}")

    def log_keys(self) -> dict[str, str]:
        """The host's public keys as it says itself: `log` verifies checkpoints, `receipt` receipts."""
        return dict(self._send("GET", "/v1/log/keys").json())

    def get(self, path: str, **query: int) -> bytes:
        """The bytes at a path."""
        return self._send("GET", path, params=query).content

    def _call(self, model: str, body: bytes, version: int | None, headers: dict[str, str]) -> httpx.Response:
        path = f"/v1/models/{model}/call" + (f"?version={version}" if version else "")
        return self._send("POST", path, content=body, headers=headers)

    def _send(self, method: str, path: str, *, accept: tuple[int, ...] = (), **request: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise HostUnreachable(f"{self._http.base_url}: {error or type(error).__name__}") from None
        if answer.is_success or answer.status_code in accept:
            return answer
        raise _refusal(answer)


def _refusal(answer: httpx.Response) -> HostRefused:
    try:
        body = answer.json()
        message, code, hint = body.pop("error"), body.pop("code", "unknown"), body.pop("hint", None)
    except (ValueError, KeyError, AttributeError, TypeError):
        body, message, code, hint = {}, answer.text[:200] or answer.reason_phrase, "unknown", None
    wait = answer.headers.get("Retry-After", "")
    seconds = float(wait) if wait.replace(".", "", 1).isdigit() else None
    return HostRefused(message, status=answer.status_code, code=code, hint=hint, retry_after=seconds, facts=body)


def _encode(array: "NDArray[Any]") -> tuple[str, list[int], bytes]:
    """Datatype, shape and bytes of an array in the protocol's binary form."""
    import numpy as np

    if array.dtype.kind in "OSU":
        parts = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
        return "BYTES", list(array.shape), b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return _DATATYPES[little.dtype.str.lstrip("<|")], list(array.shape), little.tobytes()


def _decode_answer(answer: httpx.Response) -> dict[str, "NDArray[Any]"]:
    import numpy as np

    length = int(answer.headers.get(_HEADER_LENGTH, len(answer.content)))
    header, at, arrays = json.loads(answer.content[:length]), length, {}
    for output in header["outputs"]:
        shape, size = output["shape"], output.get("parameters", {}).get("binary_data_size")
        if size is None:
            arrays[output["name"]] = np.array(output.get("data", [])).reshape(shape)
            continue
        data, at = answer.content[at : at + size], at + size
        if output["datatype"] == "BYTES":
            arrays[output["name"]] = np.array(_elements(data, prod(shape)), object).reshape(shape)
        else:
            arrays[output["name"]] = np.frombuffer(data, _NUMPY[output["datatype"]]).reshape(shape)
    return arrays


def _elements(data: bytes, count: int) -> list[bytes]:
    at, elements = 0, []
    for _ in range(count):
        length = int.from_bytes(data[at : at + 4], "little")
        elements.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return elements


def _timings(header: str) -> dict[str, float]:
    """Milliseconds by stage from a Server-Timing header."""
    stages = (entry.strip().partition(";dur=") for entry in header.split(","))
    return {name: float(value) for name, found, value in stages if found}
