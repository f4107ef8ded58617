"""The registry's bundles as the edge speaks of them (api.ports.Bundles)."""

from collections.abc import Sequence
from dataclasses import replace

from sandseal_host.api.grant import Grant
from sandseal_host.api.ports import BundleEntry, LoggedEntry
from sandseal_host.desks.push import Push
from sandseal_host.errors import BundleUnknown
from sandseal_host.lifecycle.models import ModelKeeper
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.intake import Vet
from sandseal_host.registry.load_view import LoadViews
from sandseal_host.registry.log import TransparencyLog
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.registry import Registry
from sandseal_host.serving.states import ModelState
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import SandsealError


class BundleDesk:
    """Takes what is asked about bundles; called on worker threads.

    Args:
        registry: the bundles.
        models: serves what was accepted.
        vet: looks inside a verified bundle.
        log: proves acceptances.
        views: knows which loaded weights are bound by path.
    """

    def __init__(
        self, registry: Registry, models: ModelKeeper, vet: Vet, log: TransparencyLog, views: LoadViews
    ) -> None:
        self._registry, self._models, self._vet, self._log, self._views = registry, models, vet, log, views

    def accept(self, stream: Readable, publisher: Grant) -> BundleEntry:
        """Verify, store, vet and serve an uploaded bundle.

        Raises:
            ModelUnknown: the publisher's token does not cover the model.
        """
        return self.taken_in(self._registry.take(Push(stream, publisher), self._vet, publisher.name))

    def sign(self, bundle_id: str, signature: bytes, publisher: Grant) -> BundleEntry:
        """Add a signature; a bundle that it completes is served, and so is one that should be and was refused.

        Raises:
            ModelUnknown: see `accept`.
        """
        known = self._find(bundle_id)
        publisher.need_model(known.name)
        signed = self._registry.sign(known.id, signature, self._vet, publisher.name)
        if isinstance(known, Pending):
            return self.taken_in(signed)
        accepted = self._registry.get(known.id)
        self._models.resign(accepted)
        return self._proven(accepted)

    def taken_in(self, taken: Accepted | Pending) -> BundleEntry:
        """Put what the registry has just taken in into service, and show it."""
        self._models.take_in(taken)
        return _pending_entry(taken) if isinstance(taken, Pending) else self._proven(taken)

    def entries(self) -> Sequence[BundleEntry]:
        """The accepted bundles, and the pending ones."""
        accepted = [self._entry(accepted) for accepted in self._registry.list()]
        return [*accepted, *map(_pending_entry, self._registry.pending())]

    def entry(self, bundle_id: str) -> BundleEntry:
        """One of them."""
        known = self._find(bundle_id)
        return _pending_entry(known) if isinstance(known, Pending) else self._proven(known)

    def remove(self, bundle_id: str) -> None:
        """Unload a bundle's model if it is loaded, and forget the bundle."""
        known = self._find(bundle_id)
        if isinstance(known, Accepted):
            self._models.remove(known)
        else:
            self._registry.delete(known.id)
            self._models.look_at_pending()

    def _find(self, bundle_id: str) -> Accepted | Pending:
        try:
            wanted = Digest(bundle_id)
        except SandsealError:
            raise BundleUnknown(f"{bundle_id[:80]!r} is not a bundle id") from None
        return self._registry.waiting(wanted) or self._registry.get(wanted)

    def _proven(self, accepted: Accepted) -> BundleEntry:
        """The bundle, with where the log says that it was accepted."""
        entry, logged = self._entry(accepted), self._log.acceptance(accepted.id)
        if logged is None:  # accepted before there was a log
            return entry
        shown = LoggedEntry(logged.proof.index, logged.entry.decode(), logged.proof.render().decode())
        return replace(entry, log=shown)

    def _entry(self, accepted: Accepted) -> BundleEntry:
        state = self._models.states().get((accepted.name, accepted.version))
        refusal = self._models.refusal(accepted.name, accepted.version)
        return BundleEntry(
            id=accepted.id.hex,
            name=accepted.name,
            version=accepted.version,
            release=accepted.release,
            state="revoked" if refusal else str(state or "accepted"),
            signers=accepted.signers,
            rule=accepted.rule,
            holders=accepted.holders,
            threshold=accepted.threshold,
            size=accepted.size,
            accepted_at=accepted.accepted_at,
            detail=refusal.message if refusal else "",
            weights=self._binding(accepted) if state is ModelState.READY else None,
        )

    def _binding(self, accepted: Accepted) -> str:
        return "path" if self._views.bound(accepted.id) else "bytes"


def _pending_entry(pending: Pending) -> BundleEntry:
    return BundleEntry(
        id=pending.id.hex,
        name=pending.name,
        version=pending.version,
        release=pending.release,
        state="revoked" if pending.refused else "pending",
        signers=pending.signers,
        rule=pending.verdict.rule,
        holders=pending.verdict.holders,
        threshold=pending.verdict.threshold,
        size=pending.size,
        accepted_at=None,
        detail=pending.detail,
    )
