"""A whole host on the test's own event loop, without its edge: bundles go in, rows come out."""

import asyncio
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from sandseal_host.app import Host
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.revocations import Target
from sandseal_host.settings import Settings
from sandseal_signing.tensor import DataType
from support.bundles import seal, trust_text
from support.hostile_models import described
from support.keys import ed25519_key
from support.onnx_models import OnnxModel, build
from support.serving import request

ROW = ("batch", 2)

Variant = tuple[str, OnnxModel, dict[str, str]]
"""A precision, its graph, and what else the manifest says of it."""


def adding(number: int) -> OnnxModel:
    """x FP32 [batch, 2] -> y = x + number."""
    constant = numpy_helper.from_array(np.full(2, number, np.float32), "number")
    node = helper.make_node("Add", ["x", "number"], ["y"])
    return build([node], [("x", DataType.FP32, ROW)], [("y", DataType.FP32, ROW)], [constant])


class LivingHost:
    """A host that took its bundles in unvetted, so that what vetting would refuse can be loaded."""

    def __init__(self, host: Host) -> None:
        self.host, self.models, self.live = host, host._models, host._live
        self._asked = 0

    async def push(
        self, name: str, version: int, model: OnnxModel | None = None, variants: Sequence[Variant] = (), **more: Any
    ) -> Accepted:
        """Take in a version of a model that adds its version, or of another one, as a push does.

        Args:
            more: members of the manifest's `model`.
        """
        accepted = await self.accept(name, version, model, variants, **more)
        await asyncio.to_thread(self.models.take_in, accepted)
        return accepted

    async def accept(
        self, name: str, version: int, model: OnnxModel | None = None, variants: Sequence[Variant] = (), **more: Any
    ) -> Accepted:
        """Take in a version, and do not load it."""
        model = model or adding(version)
        members = [{"precision": precision, "file": f"{precision}.onnx", **said} for precision, _, said in variants]
        described_model = described(model) | {"batching": {"max_rows": 4}, "variants": members, **more}
        files = {"model.onnx": model.data} | {f"{precision}.onnx": graph.data for precision, graph, _ in variants}
        archive = seal([ed25519_key("alice")], name, version, files=files, model=described_model)
        registry = self.host._registry
        return await asyncio.to_thread(registry.accept, io.BytesIO(archive), lambda _: None)

    async def push_pipeline(self, name: str, version: int, pipeline: Mapping[str, Any], **plugins: bytes) -> Accepted:
        """Take in a pipeline with these plugins, which lie in plugins/NAME.wasm."""
        files = {f"plugins/{plugin}.wasm": wasm for plugin, wasm in plugins.items()}
        archive = seal([ed25519_key("alice")], name, version, files=files, pipeline=pipeline)
        accepted = await asyncio.to_thread(self.host._registry.accept, io.BytesIO(archive), self.host._vet)
        await asyncio.to_thread(self.models.take_in, accepted)
        return accepted

    async def ask(self, name: str, version: int | None = None) -> int:
        """The version that answers."""
        self._asked += 1
        response = await self.models.get(name, version).infer(request(self._asked))
        return round(float(response.outputs[0].data[0, 0])) - self._asked

    async def revoke(self, accepted: Accepted) -> None:
        """Revoke a bundle, and let the host notice."""
        await asyncio.to_thread(self.host._trust.revoke, Target.BUNDLE, accepted.id, "eve")
        await self.host._watch.enforce()

    async def delete(self, accepted: Accepted) -> None:
        """Forget a bundle."""
        await asyncio.to_thread(self.models.remove, accepted)

    def states(self, name: str) -> dict[int, str]:
        """Each version's state."""
        return {entry.version: str(entry.state) for entry in self.models.index() if entry.name == name}

    def ready(self, name: str) -> set[int]:
        """The versions that serve."""
        return {version for version, state in self.states(name).items() if state == "ready"}


@asynccontextmanager
async def living_host(folder: Path, serving: str = "", **settings: Any) -> AsyncIterator[LivingHost]:
    """A host that has restored what served before; stopped at the end.

    Args:
        folder: its data folder, kept from one start to the next.
        serving: text of the serving file.
    """
    trust, rules = folder / "trust.toml", folder / "serving.toml"
    if not trust.exists():
        trust.write_text(trust_text({"alice": ed25519_key("alice")}, {"domains": ["", "f", "com.microsoft"]}))
    rules.write_text(serving)
    host = Host(Settings(trust=trust, data=folder, serving=rules, plugin_workers=0, scrub_mib_s=0, **settings))
    await host.start()
    try:
        yield LivingHost(host)
    finally:
        await host.stop()
