"""What the edge needs from the rest of the host, as it sees it; app.py connects the rooms that offer it."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from sandseal_host.api.grant import Grant
from sandseal_host.errors import Busy
from sandseal_host.registry.acceptance import Signer
from sandseal_host.serving.cuts import Explanation
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.generation.tool_calls import CallForm
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.ports import Cancellable, Waiter
from sandseal_host.serving.recording import Recording
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.tally import Served
from sandseal_host.serving.versions import VersionPolicy
from sandseal_signing.digest import Readable
from sandseal_signing.manifest import Manifest
from sandseal_signing.variants import Precision


class Text(Protocol):
    """What makes tokens of a model's prompts; whatever the publisher wrote for it runs confined."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What tokens are in bytes."""
        ...

    @property
    def calls(self) -> CallForm | None:
        """How the model writes calls of functions; None where it was taught none."""
        ...

    def encode(self, text: str, request: Request) -> Awaitable[Sequence[int]]:
        """The tokens of a prompt; the request says whose it is, and how urgent."""
        ...

    def chat(
        self, messages: Sequence[Mapping[str, Any]], request: Request, *, opening: str = "", **options: Any
    ) -> Awaitable[Sequence[int]]:
        """The tokens of a prompt that asks for the next message.

        Args:
            messages, options: what the template is given.
            request: see `encode`.
            opening: what the next message begins with.

        Raises:
            RequestInvalid: the model's template does not take these messages.
        """
        ...


class LiveModel(Protocol):
    """One ready version of a model (serving's `Model`)."""

    @property
    def manifest(self) -> Manifest:
        """What it is called and takes."""
        ...

    @property
    def version(self) -> int:
        """Its version."""
        ...

    @property
    def bundle_id(self) -> str:
        """The digest of the bundle that it came in."""
        ...

    @property
    def precision(self) -> Precision | None:
        """Of the variant that serves; None for a model that has but one graph."""
        ...

    def infer(self, request: Request) -> Awaitable[Response]:
        """Answer a request; cancelling takes it out of the queue."""
        ...

    def impediment(self, models: str = "*") -> Busy | None:
        """Why every request is refused now, although the model is ready.

        Args:
            models: pattern of the names of models that whoever asks may know of.
        """
        ...

    def begin(self, request: Request, waiter: Waiter) -> Cancellable:
        """Answer a request later, through `waiter`; what is returned takes it back."""
        ...

    @property
    def accepted_at(self) -> float:
        """When its bundle was accepted, in seconds since 1970."""
        ...

    def recorded(self) -> AbstractContextManager[Recording]:
        """Take down when requests arrive, and in which shapes, meanwhile."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Keep it from being unloaded meanwhile."""
        ...

    @property
    def text(self) -> Text:
        """What makes tokens of prompts, for one that generates text."""
        ...

    def generate(self, request: GenerationRequest) -> Stream:
        """Begin to generate text, for one that does.

        Raises:
            HostError: as `infer` raises before it waits.
        """
        ...

    @property
    def settings(self) -> SchedulerSettings:
        """How it is batched and queued."""
        ...

    def explain(self) -> Explanation:
        """What waits and runs, and why the last batches were cut."""
        ...

    def served(self) -> Served:
        """What it answered since it was loaded."""
        ...


class ModelEntry(Protocol):
    """One version of a model, whatever its state, as the repository index shows it."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def version(self) -> int:
        """The version."""
        ...

    @property
    def state(self) -> str:
        """Where its life stands (`ready`, `loading`, `draining`, `failed` ...)."""
        ...

    @property
    def reason(self) -> str:
        """Why it is not ready; empty when it is."""
        ...


class Models(Protocol):
    """The models that can answer now (serving's `LiveModels`)."""

    def get(self, name: str, version: int | None) -> LiveModel:
        """The model's version, or the one that serves; call its `infer` in the same turn of the loop.

        Raises:
            ModelUnknown: no such model or version.
            NotReady: it is there but does not serve.
        """
        ...

    def index(self) -> Sequence[ModelEntry]:
        """Every version that is known."""
        ...

    def versions(self, name: str) -> VersionPolicy:
        """Which versions of a model serve side by side."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """Where the transparency log says that a bundle was accepted.

    Args:
        index: the entry's number.
        entry: its bytes, which are JSON.
        proof: that it is there, as a C2SP tlog-proof.
    """

    index: int
    entry: str
    proof: str


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One accepted or pending bundle, as the control plane shows it.

    Args:
        id: the digest of its signed statement, 64 hex digits.
        name: the model's name.
        version: the model's version.
        release: what the publisher calls that version.
        state: where the version stands (`pending`, `accepted`, `loading`, `ready`, `revoked` ...).
        signers: the enrolled keys whose signatures verified.
        rule: number of the trust policy's rule that accepted it.
        holders: the distinct holders that counted for the rule.
        threshold: how many it wanted.
        size: bytes of all its files.
        accepted_at: when; None while it is pending.
        detail: how many of how many holders signed a pending one, and who may still do so; or why it is `revoked`.
        log: its acceptance in the log; None in lists.
        weights: how a loaded one's are bound to what was verified: `bytes` in memory, or a `path` under leases.
    """

    id: str
    name: str
    version: int
    release: str
    state: str
    signers: tuple[Signer, ...]
    rule: int | None
    holders: tuple[str, ...]
    threshold: int
    size: int
    accepted_at: datetime | None
    detail: str = ""
    log: LoggedEntry | None = None
    weights: str | None = None


class Bundles(Protocol):
    """The registry's bundles. Every method may block."""

    def accept(self, stream: Readable, publisher: Grant) -> BundleEntry:
        """Verify and store a sealed bundle read from `stream`, whose early end means a broken upload.

        Raises:
            SandsealError: it is refused; nothing is left behind.
        """
        ...

    def sign(self, bundle_id: str, signature: bytes, publisher: Grant) -> BundleEntry:
        """Add a signature file to a pending bundle, which may complete it, or to an accepted one.

        Raises:
            BundleUnknown: there is none of this id.
            SandsealError: the signature counts for nothing, or the bundle is refused now.
        """
        ...

    def entries(self) -> Sequence[BundleEntry]:
        """The accepted bundles."""
        ...

    def entry(self, bundle_id: str) -> BundleEntry:
        """One of them.

        Raises:
            BundleUnknown: there is none of this id.
        """
        ...

    def remove(self, bundle_id: str) -> None:
        """Unload and forget a bundle.

        Raises:
            BundleUnknown: there is none of this id.
        """
        ...


class HostState(StrEnum):
    """Where the host's own life stands."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    NO_WORKERS = "no workers"  # for plugins


class Lifecycle(Protocol):
    """Loads and unloads what has been accepted."""

    @property
    def state(self) -> HostState:
        """Whether the host as a whole is ready."""
        ...

    async def load(self, name: str, version: int | None, *, wait: bool) -> None:
        """Load a version, the newest accepted one by default; `wait` until it is ready.

        Raises:
            ModelUnknown: nothing of this name and version was accepted.
            SandsealError: it does not load.
        """
        ...

    async def unload(self, name: str, version: int | None, *, wait: bool) -> None:
        """Unload a version, or all of them; `wait` until their memory is back.

        Raises:
            ModelUnknown: nothing of this name and version is loaded.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """An issued token, without its secret.

    Args:
        id: what revoking it takes.
        name: what its operator calls it.
        scopes: what it may do.
        tenant: whose share it uses.
        models: pattern of the model names that it may see.
        ceiling: the most urgent class that its requests get.
        requests_s: inference requests a second; None for as many as come.
        rows_s: their rows a second; None likewise.
        created: when it was issued.
        expires: from when on it is worth nothing; None for never.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    tenant: str
    models: str
    ceiling: str
    requests_s: float | None
    rows_s: float | None
    created: datetime
    expires: datetime | None = None


class Tokens(Protocol):
    """The registry's tokens. Every method may block."""

    def check(self, secret: str) -> Grant:
        """What the bearer of this secret may do; compares digests, in constant time.

        Raises:
            NotAuthenticated: nobody issued it, it was revoked, or it has expired.
        """
        ...

    def issue(self, grant: Grant, expires: datetime | None) -> tuple[TokenEntry, str]:
        """A new token and its secret, which is shown this once."""
        ...

    def entries(self) -> Sequence[TokenEntry]:
        """The tokens in force."""
        ...

    def revoke(self, token_id: str) -> bool:
        """Revoke a token; False when there is none of this id."""
        ...
