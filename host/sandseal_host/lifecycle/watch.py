"""Takes models out of service when nobody trusted stands behind them any more: revoked, refused by policy, expired."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sandseal_host.errors import Revoked
from sandseal_host.registry.standing import Standing, lapsed
from sandseal_host.registry.trust import InForce, Trust
from sandseal_host.serving.live import LiveModels
from sandseal_signing import trust as signed
from sandseal_signing.digest import Digest
from sandseal_signing.errors import TrustError

_log = logging.getLogger(__name__)

Key = tuple[str, int]
"""A model's name and version."""

_Reasons = Mapping[Key, str]


class TrustWatch:
    """Judges what is live again at every change of policy or revocations, and when a bundle expires.

    Lives on the event loop; judging itself happens on threads. Nothing goes live but through `admit`.

    Args:
        trust: the policy in force.
        live: the models.
        revoked: why accepted bundles are revoked; the registry's answer.
        withdrawn: called with each bundle whose model is taken out of service, and why.

    `changed` is called on a thread after every change of policy or revocations.
    """

    def __init__(
        self,
        trust: Trust,
        live: LiveModels,
        revoked: Callable[[signed.Revoked], _Reasons],
        withdrawn: Callable[[Standing, str], None],
    ) -> None:
        self._trust, self._live, self._revoked, self._withdrawn = trust, live, revoked, withdrawn
        self._standings: dict[Digest, Standing] = {}
        self.changed: Callable[[], None] = lambda: None
        self._judged = self._gone_under = -1
        self._gone: tuple[tuple[Standing, str], ...] = ()  # under that generation of the policy
        self._refused: dict[Key, str] = {}

    @property
    def generation(self) -> int:
        """The policy's, for `admit`."""
        return self._trust.generation

    def refusal(self, name: str, version: int | None = None) -> Revoked | None:
        """Why an accepted version may not run, as far as was noticed; that of the newest one by default."""
        versions = [known for known in self._refused if known[0] == name and version in (None, known[1])]
        return Revoked(self._refused[max(versions)], model=name) if versions else None

    def note(self, key: Key, refusal: TrustError | None) -> None:
        """Remember why a version was refused at a load; None: it was not."""
        if refusal is None:
            self._refused.pop(key, None)
        else:
            self._refused[key] = refusal.message

    async def admit(self, standing: Standing, generation: int) -> None:
        """Judge a bundle once more if the policy changed during its load; the caller makes it live in the same turn.

        Args:
            generation: the policy's before the bundle was verified.

        Raises:
            TrustError: it is no longer trusted.
        """
        while generation != self._trust.generation:
            current = await asyncio.to_thread(self._trust.in_force)
            generation = current.generation
            refusal = await asyncio.to_thread(standing.refusal, current.policy, datetime.now(UTC))
            if refusal is not None:
                raise refusal
        self._standings[standing.id] = standing

    def renew(self, standing: Standing) -> None:
        """Judge a live bundle by these signatures from now on."""
        if standing.id in self._standings:
            self._standings[standing.id] = standing

    async def watch(self, every_s: float) -> None:
        """Look at the policy, the revocations and the clock again and again; ends only when it is cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.enforce()
            except Exception:
                _log.exception("the policy could not be enforced; trying again in %s s", every_s)

    async def enforce(self) -> tuple[tuple[Standing, str], ...]:
        """Refuse what may no longer run, and begin to unload it.

        Returns:
            The bundles whose models were taken out of service under the policy and revocations now in force, each with
            the reason; by this call, or by one that was quicker.
        """
        current = await asyncio.to_thread(self._trust.in_force)
        now = datetime.now(UTC)
        changed = current.generation != self._judged
        if changed:
            live = {(entry.name, entry.version) for entry in self._live.index()}
            self._standings = {known: s for known, s in self._standings.items() if s.key in live}
        due = [standing for standing in self._standings.values() if changed or standing.expired(now)]
        refused = await asyncio.to_thread(lapsed, due, current.policy, now) if due else {}
        # Another call of this may have been quicker while the thread judged.
        left = {bundle_id: error for bundle_id, error in refused.items() if bundle_id in self._standings}
        if current.generation > self._gone_under:
            self._gone_under, self._gone = current.generation, ()
        self._gone += tuple(self._withdraw(bundle_id, error) for bundle_id, error in left.items())
        gone = self._gone
        if changed:
            await self._note_revoked(current)
        return gone

    def _withdraw(self, bundle_id: Digest, error: TrustError) -> tuple[Standing, str]:
        standing = self._standings.pop(bundle_id)
        self._live.revoke(bundle_id.hex, error.message)
        self._refused[standing.key] = error.message
        self._withdrawn(standing, error.message)
        return standing, error.message

    async def _note_revoked(self, current: InForce) -> None:
        self._refused.update(await asyncio.to_thread(self._revoked, current.policy.revoked))
        await asyncio.to_thread(self.changed)
        self._judged = current.generation
