"""Receipts for those who ask: which bundle turned which request into which response, signed by the host."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from sandseal_host.registry.log import TransparencyLog
from sandseal_signing.bundle import Bundle
from sandseal_signing.digest import Digest
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.receipt import Receipt, make_receipt


class ReceiptDesk:
    """Writes receipts; thread-safe.

    Args:
        log: whose newest state every receipt names.
        key: signs receipts and nothing else.
    """

    def __init__(self, log: TransparencyLog, key: PrivateKey) -> None:
        self._log, self._key = log, key
        self._plugins: dict[str, Mapping[str, Digest]] = {}

    @property
    def public(self) -> PublicKey:
        """The key that verifies them."""
        return self._key.public

    def know(self, bundle: Bundle) -> None:
        """Remember the plugins of a bundle that will answer."""
        digests = {resource.name: resource.digest for resource in bundle.statement.resources}
        stages = bundle.manifest.stages_by_name
        self._plugins[bundle.id.hex] = {name: digests[stage.plugin] for name, stage in stages.items()}

    def write(
        self,
        bundle_id: str,
        request: bytes | memoryview,
        response: bytes,
        *,
        service_class: str,
        nonce: str,
        skipped: Collection[str] = (),
        members: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """The receipt for one answer, as one line of ASCII; hashes, so call it from a thread.

        Args:
            bundle_id: of a bundle that `know` was told of.
            request, response: the bodies without content coding.
            nonce: the client's, checked by `is_nonce`.
            skipped: stages that this answer did without.
            members: of a pipeline, the ids of the bundles whose models took part, by step.
        """
        receipt = Receipt(
            bundle=Digest(bundle_id),
            plugins={stage: digest for stage, digest in self._plugins[bundle_id].items() if stage not in skipped},
            request=Digest.of(request),
            response=Digest.of(response),
            time=datetime.now(UTC),
            service_class=service_class,
            nonce=nonce,
            log=self._log.state,
            members={step: Digest(member) for step, member in members.items()},
        )
        return make_receipt(receipt, self._key)
