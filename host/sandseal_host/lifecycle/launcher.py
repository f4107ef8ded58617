"""Verifies and builds one accepted version until it is ready."""

import asyncio
from dataclasses import dataclass

from sandseal_host.errors import LoadTimeout, NotReady
from sandseal_host.lifecycle.watch import TrustWatch
from sandseal_host.loader import Loader
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.load_view import Bound
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.standing import Standing
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.model import Model
from sandseal_host.serving.states import ModelState
from sandseal_host.settings import Settings
from sandseal_host.stages import LoadStage, LoadStages, apart
from sandseal_signing.digest import Digest
from sandseal_signing.errors import SandsealError, TrustError


@dataclass(frozen=True, slots=True)
class LoadStatistics:
    """Loads now, and since the start.

    Args:
        under_way: that are not over.
        overdue: that were given up and go on, since what hangs cannot be broken off.
        loaded_total: that ended with a ready model.
        failed_total: that did not.
    """

    under_way: int
    overdue: int
    loaded_total: int
    failed_total: int


class Launcher:
    """Launches models; lives on the event loop.

    A hanging file system, ONNX Runtime and a device's driver cannot be broken off: the thread of a load that was
    given up goes on, its memory stays promised, and what it makes is freed when it ends. Until then its version is
    not tried again, so that no version has more than one such thread.

    Args:
        registry: verifies the bundles.
        loader: builds models out of them.
        live: shows how far each is.
        watch: admits what is trusted.
        receipts: told of every bundle before it serves.
        settings: how long each stage may take.
    """

    def __init__(
        self,
        registry: Registry,
        loader: Loader,
        live: LiveModels,
        watch: TrustWatch,
        receipts: ReceiptDesk,
        settings: Settings,
    ) -> None:
        self._registry, self._loader, self._live = registry, loader, live
        self._watch, self._receipts, self._settings = watch, receipts, settings
        self._overdue: dict[Digest, LoadStages] = {}
        self._loading = self._loaded = self._failed = 0

    def statistics(self) -> LoadStatistics:
        """The counts at this moment."""
        return LoadStatistics(self._loading, len(self._overdue), self._loaded, self._failed)

    async def launch(self, accepted: Accepted) -> Model:
        """Make a version ready; the index says how far it is, and why it failed.

        Raises:
            SandsealError: it cannot be loaded, or is not trusted; what it held is free, unless a stage hangs.
            NotReady: an earlier load of it hangs.
        """
        self._loading += 1
        try:
            model = await self._launch(accepted)
        except BaseException:
            self._failed += 1
            raise
        finally:
            self._loading -= 1
        self._loaded += 1
        return model

    async def _launch(self, accepted: Accepted) -> Model:
        if accepted.id in self._overdue:
            raise NotReady(
                f"{accepted.name} version {accepted.version}: an earlier load was given up and has not ended yet",
                hint="look at disk and device; restarting the host ends it",
            )
        standing = await asyncio.to_thread(self._registry.standing, accepted)
        model = Model(standing.manifest, accepted.id.hex, accepted.accepted_at.timestamp())
        model.advance(ModelState.VERIFYING)
        self._live.announce(model)
        try:
            await self._bring_up(model, accepted)
        except TrustError as refusal:
            model.revoke(refusal.message)
            raise
        except SandsealError as error:
            model.fail(error.message)
            raise
        except BaseException as error:
            model.fail(f"the load was broken off by {type(error).__name__}")
            raise
        return model

    async def _bring_up(self, model: Model, accepted: Accepted) -> None:
        generation = self._watch.generation

        def show(stage: LoadStage) -> None:
            if stage is LoadStage.WARMING and model.state is ModelState.LOADING:  # not on each of several devices
                model.advance(ModelState.WARMING)

        stages = LoadStages(self._settings, show)
        try:
            bundle = await stages.within(apart(lambda: self._registry.open(accepted.id)), _close)
            self._receipts.know(bundle)
            standing = Standing.of(bundle, accepted.accepted_at)

            async def admit() -> None:
                await self._watch.admit(standing, generation)
                bundle.check()

            model.advance(ModelState.LOADING)
            await self._loader.load(model, bundle, admit, stages)
        except LoadTimeout as error:
            error.message = f"{model!r}: {error.message}"
            raise
        finally:
            self._note_overdue(accepted.id, stages)

    def _note_overdue(self, bundle_id: Digest, stages: LoadStages) -> None:
        if stages.overdue is not None and not stages.overdue.done():
            self._overdue[bundle_id] = stages
            stages.overdue.add_done_callback(lambda _: self._overdue.pop(bundle_id))


def _close(opened: "asyncio.Future[Bound]") -> None:
    """Close a bundle that was verified too late."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
