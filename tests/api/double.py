"""The rest of a host in memory, behind the edge's own interfaces: NumPy models, lists of bundles and tokens."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from api.offers_double import OffersDouble
from sandseal_host.api.app import create_app
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.grant import Grant
from sandseal_host.api.ports import BundleEntry, HostState, TokenEntry
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.trust_port import PermitEntry, RevocationEntry, Withdrawn
from sandseal_host.errors import BundleUnknown, Busy, ModelUnknown, NotAuthenticated, NotReady
from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.observe.observers import Observers
from sandseal_host.registry.acceptance import Signer
from sandseal_host.registry.revocations import Target
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.claim import hand_over
from sandseal_host.serving.cuts import Cut, CutReason, Explanation
from sandseal_host.serving.ports import Cancellable, Waiter
from sandseal_host.serving.recording import Arrival, Recording
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.tally import Served
from sandseal_host.serving.versions import VersionPolicy
from sandseal_host.settings import Settings
from sandseal_host.tensors import Tensor
from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import ProofInvalid, SealTruncated
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind, LogEntry, Subject
from sandseal_signing.logproof import LogProof
from sandseal_signing.manifest import Manifest, ModelSpec
from sandseal_signing.merkle import MerkleTree, consistency_proof, inclusion_proof, leaf_hash
from sandseal_signing.note import VerifierKey
from sandseal_signing.tensor import DataType, TensorSpec
from sandseal_signing.variants import Precision

Run = Callable[[Request], tuple[Tensor, ...]]


def spec(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, DataType(dtype), shape)


def manifest(
    name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], version: int = 1, raw: tuple[str, ...] = ()
) -> Manifest:
    model = ModelSpec("model.onnx", tuple(inputs), tuple(outputs), raw=raw)
    return Manifest(name, version, model, release="r1")


class ModelDouble:
    """A model that runs a NumPy function on the loop; `gate`, when set, is awaited first."""

    def __init__(self, manifest: Manifest, run: Run, *, remember: bool = True) -> None:
        self.remember = remember
        self.manifest = manifest
        self.version = manifest.version
        self.precision: Precision | None = None
        self.bundle_id = hashlib.sha256(repr(manifest).encode()).hexdigest()
        self.run = run
        self.state, self.reason = "ready", ""
        self.accepted_at = 1_700_000_000.0
        self.trouble: Busy | None = None
        self.skipped: tuple[str, ...] = ()
        self.requests: list[Request] = []
        self.account = Served(
            3, 6, 1, 0.25, 0.5, 0.0, 0.0, 1_700_000_000.5, {2: (2, 0.25), 4: (1, 0.125)}, {"cpu": 512}
        )
        self.cancelled = 0
        self.gate: asyncio.Event | None = None

    @property
    def name(self) -> str:
        return self.manifest.name

    @contextmanager
    def hold(self) -> Iterator[None]:
        yield

    async def infer(self, request: Request) -> Response:
        if self.remember:
            self.requests.append(request)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return Response(self.run(request), {"queue": 0.001, "run": 0.002}, self.skipped)

    def impediment(self, models: str = "*") -> Busy | None:
        return self.trouble

    def explain(self) -> Explanation:
        return Explanation({"realtime": 0, "standard": 3}, 1, (Cut(CutReason.FULL, 2, 8, 0.25),))

    def recorded(self) -> AbstractContextManager[Recording]:
        recording = Recording(0.0)
        recording.arrivals += [Arrival(0.5, "standard", ((1, 4),)), Arrival(0.75, "batch", ((2, 4),))]
        return nullcontext(recording)

    def served(self) -> Served:
        return self.account

    @property
    def settings(self) -> SchedulerSettings:
        return SchedulerSettings(max_rows=8, max_delay_s=0.0005, instances=2, max_requests=100)

    def begin(self, request: Request, waiter: Waiter) -> Cancellable:
        task = asyncio.get_running_loop().create_task(self.infer(request))
        task.add_done_callback(partial(hand_over, waiter))
        return task


def identity(name: str, dtype: str, *shape: int | str, **options: Any) -> ModelDouble:
    """A model whose output y is its input x."""

    def run(request: Request) -> tuple[Tensor, ...]:
        (x,) = request.inputs
        return (Tensor("y", x.dtype, x.shape, x.data),)

    return ModelDouble(manifest(name, [spec("x", dtype, *shape)], [spec("y", dtype, *shape)], **options), run)


def pair() -> ModelDouble:
    """Two inputs, a FP32 and b INT64; two outputs, d = a - b and s = a + b."""

    def run(request: Request) -> tuple[Tensor, ...]:
        a, b = (tensor.data.astype(np.float32) for tensor in request.inputs)
        return tuple(Tensor(n, DataType.FP32, v.shape, v) for n, v in (("d", a - b), ("s", a + b)))

    inputs = [spec("a", "FP32", "batch", 4), spec("b", "INT64", "batch", 4)]
    outputs = [spec("d", "FP32", "batch", 4), spec("s", "FP32", "batch", 4)]
    return ModelDouble(manifest("pair", inputs, outputs), run)


def mlp(*, remember: bool = True) -> ModelDouble:
    """128 -> 10 in FP32."""
    weights = np.linspace(-1, 1, 1280, dtype=np.float32).reshape(128, 10)

    def run(request: Request) -> tuple[Tensor, ...]:
        y = request.inputs[0].data @ weights
        return (Tensor("y", DataType.FP32, y.shape, y),)

    made = manifest("mlp", [spec("x", "FP32", "batch", 128)], [spec("y", "FP32", "batch", 10)])
    return ModelDouble(made, run, remember=remember)


class ModelsDouble:
    def __init__(self, *models: ModelDouble) -> None:
        self.models = list(models)

    def get(self, name: str, version: int | None = None) -> ModelDouble:
        found = [m for m in self.models if m.name == name and version in (None, m.version)]
        if not found:
            raise ModelUnknown(f"there is no model {name!r}", model=name)
        model = max(found, key=lambda m: (m.state == "ready", m.version))
        if model.state != "ready":
            raise NotReady(f"model {name!r} is {model.state}", model=name)
        return model

    def index(self) -> list[ModelDouble]:
        return self.models

    def versions(self, name: str) -> VersionPolicy:
        return VersionPolicy(None) if name == "versions" else VersionPolicy()


class BundlesDouble:
    """Accepts streams of `SEAL:name:` and any bytes that end in `:END`; remembers what it read."""

    def __init__(self) -> None:
        self.accepted: list[BundleEntry] = []
        self.streams: list[bytes] = []
        self.refuse: Exception | None = None

    def accept(self, stream: BinaryIO, publisher: Grant) -> BundleEntry:
        head = stream.read(5)
        if self.refuse is not None:
            raise self.refuse
        self.streams.append(body := head + stream.read())
        if not body.endswith(b":END"):
            raise SealTruncated(f"the stream ends after {len(body)} bytes")
        name = body.split(b":")[1].decode()
        self.accepted.append(
            entry := BundleEntry(
                id=hashlib.sha256(body).hexdigest(),
                name=name,
                version=1,
                release="r1",
                state="ready",
                signers=(Signer("k", publisher.name, "ff"),),
                rule=0,
                holders=(publisher.name,),
                threshold=1,
                size=len(body),
                accepted_at=datetime(2026, 1, 2, tzinfo=UTC),
            )
        )
        return entry

    def sign(self, bundle_id: str, signature: bytes, publisher: Grant) -> BundleEntry:
        entry = self.entry(bundle_id)
        self.accepted.remove(entry)
        self.accepted.append(entry := replace(entry, state="ready", holders=(*entry.holders, publisher.name)))
        self.streams.append(signature)
        return entry

    def entries(self) -> list[BundleEntry]:
        return self.accepted

    def entry(self, bundle_id: str) -> BundleEntry:
        for entry in self.accepted:
            if entry.id == bundle_id:
                return entry
        raise BundleUnknown(f"no bundle {bundle_id!r}")

    def remove(self, bundle_id: str) -> None:
        self.accepted.remove(self.entry(bundle_id))


class TokensDouble:
    """Tokens whose secrets are their names."""

    def __init__(self, *grants: Grant) -> None:
        self.grants = {grant.name: grant for grant in grants}
        self.checks = 0
        self.expires: datetime | None = None

    def check(self, secret: str) -> Grant:
        self.checks += 1
        if secret not in self.grants:
            raise NotAuthenticated("nobody issued this token")
        return self.grants[secret]

    def issue(self, grant: Grant, expires: datetime | None) -> tuple[TokenEntry, str]:
        self.grants[grant.name], self.expires = grant, expires
        return self._entry(grant), grant.name

    def entries(self) -> list[TokenEntry]:
        return [self._entry(grant) for grant in self.grants.values()]

    def revoke(self, token_id: str) -> bool:
        return self.grants.pop(token_id, None) is not None

    def _entry(self, grant: Grant) -> TokenEntry:
        created = datetime(2026, 1, 1, tzinfo=UTC)
        return TokenEntry(
            id=grant.name,
            name=grant.name,
            scopes=tuple(sorted(grant.scopes)),
            tenant=grant.tenant,
            models=grant.models,
            ceiling=grant.ceiling.name,
            requests_s=grant.rate.requests_s,
            rows_s=grant.rate.rows_s,
            created=created,
        )


class LifecycleDouble:
    def __init__(self, models: ModelsDouble) -> None:
        self.state = HostState.READY
        self.models = models
        self.calls: list[tuple[str, str, int | None, bool]] = []

    async def load(self, name: str, version: int | None, *, wait: bool) -> None:
        self.calls.append(("load", name, version, wait))
        if name not in {m.name for m in self.models.models}:
            raise ModelUnknown(f"no bundle for {name!r} was accepted")

    async def unload(self, name: str, version: int | None, *, wait: bool) -> None:
        self.calls.append(("unload", name, version, wait))
        self.models.get(name, version).state = "unloaded"


class TrustDouble:
    """A policy of serial 7; each revocation takes the model `mlp` out of service."""

    def __init__(self) -> None:
        self.revoked: list[RevocationEntry] = []
        self.envelopes: list[bytes] = []
        self.kept: list[PermitEntry] = []

    def policy(self) -> dict[str, Any]:
        return {"serial": 7, "problem": None}

    def replace(self, envelope: bytes, operator: Grant) -> dict[str, Any]:
        self.envelopes.append(envelope)
        return {"serial": 8, "problem": None}

    def explain(self, model: str, key: str) -> dict[str, Any]:
        return {"holds": True, "text": f"{key} for {model}", "branches": []}

    def explain_bundle(self, bundle_id: str) -> dict[str, Any]:
        return {"holds": True, "text": bundle_id, "branches": []}

    def permit(self, envelope: bytes, publisher: Grant) -> PermitEntry:
        name, at = envelope.decode(), datetime(2026, 1, 2, tzinfo=UTC)
        publisher.need_model(name)
        self.kept.append(PermitEntry("a" * 64, name, "b" * 64, "c" * 64, at, publisher.name, at, None, None))
        return self.kept[-1]

    def permits(self) -> list[PermitEntry]:
        return self.kept

    def revocations(self) -> list[RevocationEntry]:
        return self.revoked

    def revoke(self, target: Target, digest: str, reason: str, operator: Grant) -> list[Withdrawn]:
        self.revoked.append(RevocationEntry(target, digest, operator.name, reason, datetime(2026, 1, 2, tzinfo=UTC)))
        return [Withdrawn("b" * 64, "mlp", 1, f"{target} {digest} is revoked")]


class LogDouble:
    """A log of three entries whose one proof is always the same."""

    def __init__(self) -> None:
        self.key = PrivateKey.generate()
        self.lines = [LogEntry(Kind.POLICY, _THEN, "root", _policy(serial)).render() for serial in (1, 2, 3)]

    @property
    def verifier(self) -> VerifierKey:
        return VerifierKey("log.example", self.key.public)

    def checkpoint(self) -> bytes:
        return Checkpoint("log.example", self._tree(3).frontier.head).sign(self.key)

    def entries(self, start: int, end: int) -> list[bytes]:
        self._need(0 <= start < end <= 3)
        return self.lines[start:end]

    def prove(self, number: int, size: int | None = None) -> LogProof:
        size = 3 if size is None else size
        self._need(0 <= number < size <= 3)
        tree = self._tree(size)
        note = Checkpoint("log.example", tree.frontier.head).sign(self.key)
        return LogProof(number, inclusion_proof(number, size, tree.read), note)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        self._need(0 <= old <= new <= 3)
        return consistency_proof(old, new, self._tree(3).read)

    def _tree(self, size: int) -> MerkleTree:
        return MerkleTree(map(leaf_hash, self.lines[:size]))

    def _need(self, there: bool) -> None:
        if not there:
            raise ProofInvalid("a log of 3 has no such thing")


class ReceiptsDouble:
    """Receipts that say in plain text what they were made of."""

    public = PrivateKey.generate().public

    def write(
        self, bundle_id: str, request: bytes | memoryview, response: bytes, *,
        service_class: str, nonce: str, skipped: Collection[str] = (),
        members: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:  # fmt: skip
        digests = [hashlib.sha256(body).hexdigest() for body in (request, response)]
        return " ".join((bundle_id, *digests, service_class, nonce, *skipped, *members.values())).encode()


_THEN = datetime(2026, 1, 2, tzinfo=UTC)


def _policy(serial: int) -> Subject:
    return Subject(serial=serial, policy=Digest.of(b"%d" % serial))


EVERYTHING = Grant("root", frozenset(Scope), tenant="acme")


@dataclass
class HostDouble:
    """A host in memory and its application."""

    models: ModelsDouble
    settings: ApiSettings = field(default_factory=ApiSettings)
    observers: Observers = field(default_factory=lambda: Observers(Settings()))

    def __post_init__(self) -> None:
        self.bundles = BundlesDouble()
        self.offers = OffersDouble(self.bundles)
        self.tokens = TokensDouble(
            EVERYTHING,
            Grant("caller", frozenset({Scope.INFER})),
            Grant("publisher", frozenset({Scope.PUBLISH}), models="acme.*"),
            Grant("narrow", frozenset({Scope.INFER, Scope.OPERATE}), models="m*"),
            Grant("auditor", frozenset({Scope.AUDIT})),
        )
        self.trust = TrustDouble()
        self.log, self.receipts = LogDouble(), ReceiptsDouble()
        self.lifecycle = LifecycleDouble(self.models)
        self.metrics = HostMetrics()
        self.app: DataPlane = create_app(
            models=self.models,
            bundles=self.bundles,
            offers=self.offers,
            tokens=self.tokens,
            trust=self.trust,
            log=self.log,
            receipts=self.receipts,
            lifecycle=self.lifecycle,
            metrics=self.metrics,
            observers=self.observers,
            settings=self.settings,
        )
