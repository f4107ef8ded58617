"""What publishers, operators and auditors ask of a host, over REST."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandseal_sdk.hosts.call import Call, quoted, with_query
from sandseal_sdk.hosts.session import Session
from sandseal_sdk.hosts.target import Waits
from sandseal_sdk.hosts.transfer import OfferPush
from sandseal_signing.digest import CHUNK
from sandseal_signing.envelope import MEDIA_TYPE
from sandseal_signing.pack import Progress

_AS_LONG_AS_IT_TAKES = Waits(answer_s=None)


class ControlPlane(Session):
    """A session's part that needs more than the scope `infer`."""

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
        return dict(self._send(Call("POST", "/v1/bundles", chunks(), headers), _AS_LONG_AS_IT_TAKES).json())

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
        call = Call("POST", f"/v1/bundles/{quoted(bundle_id)}/signatures", signature, {"Content-Type": MEDIA_TYPE})
        return dict(self._send(call, _AS_LONG_AS_IT_TAKES).json())

    def models(self) -> list[dict[str, Any]]:
        """Every model that the token may see, with version and state."""
        call = Call("POST", "/v2/repository/index")
        return list(self._insist(lambda _: call).json())

    def load(self, model: str, version: int | None = None) -> None:
        """Serve an accepted version (the newest when None); returns when it is ready."""
        parameters = {"parameters": {"version": version}} if version else {}
        path = f"/v2/repository/models/{quoted(model)}/load"
        self._send(Call.document("POST", path, parameters), _AS_LONG_AS_IT_TAKES)

    def unload(self, model: str) -> None:
        """Stop serving a model; returns when its memory is back."""
        path = f"/v2/repository/models/{quoted(model)}/unload"
        self._send(Call.document("POST", path, {"parameters": {"wait": True}}), _AS_LONG_AS_IT_TAKES)

    def queue(self, model: str, version: int | None = None) -> dict[str, Any]:
        """What waits for a model, and why its last batches were cut: `waiting` by class, `batches` oldest first."""
        query = {"version": version} if version else {}
        return dict(self._read(f"/v1/models/{quoted(model)}/queue", **query))

    def record(self, model: str, seconds: float, version: int | None = None) -> dict[str, Any]:
        """Record for so many seconds when requests arrive at a model, and in which shapes: a profile to tune with."""
        query = {"seconds": seconds} | ({"version": version} if version else {})
        call = Call("POST", with_query(f"/v1/models/{quoted(model)}/recordings", query))
        return dict(self._send(call, _AS_LONG_AS_IT_TAKES).json())

    def bundles(self) -> list[dict[str, Any]]:
        """Every accepted bundle."""
        return list(self._read("/v1/bundles"))

    def trust(self) -> dict[str, Any]:
        """The trust policy in force: serial, keys, rules, root, revoked, and `problem` with the file on disk."""
        return dict(self._read("/v1/trust"))

    def replace_trust(self, envelope: bytes) -> dict[str, Any]:
        """Put a policy in force that the holders of the host's [root] have signed; the answer is as `trust`'s."""
        return dict(self._send(Call("PUT", "/v1/trust", envelope)).json())

    def permit(self, envelope: bytes) -> dict[str, Any]:
        """Bring a signed downgrade permit, which lets its bundle in once; the answer has id, bundles and end."""
        return dict(self._send(Call("POST", "/v1/trust/permits", envelope)).json())

    def permits(self) -> list[dict[str, Any]]:
        """Every downgrade permit that was brought, oldest first; `problem` says why one lets nothing in."""
        return list(self._read("/v1/trust/permits"))

    def explain(self, **asked: str) -> dict[str, Any]:
        """Why a signature counts or not: a tree of `holds`, `text` and `branches`.

        Args:
            asked: `name` (a model's) and `key`, or `bundle` (an id).
        """
        return dict(self._send(Call.document("POST", "/v1/trust/explain", asked)).json())

    def revocations(self) -> list[dict[str, Any]]:
        """Everything that was ever revoked, oldest first."""
        return list(self._read("/v1/revocations"))

    def revoke(self, target: str, digest: str, reason: str = "") -> list[dict[str, Any]]:
        """Revoke a key (by fingerprint), bundle or blob for ever; the answer lists the models that this stopped.

        Args:
            target: `key`, `bundle` or `blob`.
            digest: 64 hex digits.
        """
        body = {"target": target, "digest": digest, "reason": reason}
        return list(self._send(Call.document("POST", "/v1/revocations", body)).json()["withdrawn"])

    def issue_token(self, name: str, scopes: list[str], **fields: Any) -> dict[str, Any]:
        """Make a token; the answer holds its secret, which is shown this once."""
        return dict(self._send(Call.document("POST", "/v1/tokens", {"name": name, "scopes": scopes, **fields})).json())

    def tokens(self) -> list[dict[str, Any]]:
        """Every token, without secrets."""
        return list(self._read("/v1/tokens"))

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._send(Call("DELETE", f"/v1/tokens/{quoted(token_id)}"))

    def log_keys(self) -> dict[str, str]:
        """The host's public keys as it says itself: `log` verifies checkpoints, `receipt` receipts."""
        return dict(self._read("/v1/log/keys"))

    def get(self, path: str, **query: int) -> bytes:
        """The bytes at a path."""
        call = Call("GET", with_query(path, query))
        return self._insist(lambda _: call).content
