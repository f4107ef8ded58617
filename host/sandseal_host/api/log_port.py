"""What the edge needs of the transparency log and of receipts, as it sees them (registry's `log` and `receipts`)."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from sandseal_signing.keys import PublicKey
from sandseal_signing.logproof import LogProof
from sandseal_signing.note import VerifierKey


class Log(Protocol):
    """The host's transparency log. Every method may block."""

    @property
    def verifier(self) -> VerifierKey:
        """The log's name and public key."""
        ...

    def checkpoint(self) -> bytes:
        """The newest signed checkpoint."""
        ...

    def entries(self, start: int, end: int) -> Sequence[bytes]:
        """The entries from number `start` on and before `end`, or as many of the first as one answer holds.

        Raises:
            ProofInvalid: there are none.
        """
        ...

    def prove(self, number: int, size: int | None = None) -> LogProof:
        """The proof that an entry is in the log of this size; of the newest when None.

        Raises:
            ProofInvalid: there is no such entry or size.
        """
        ...

    def consistency(self, old: int, new: int) -> Sequence[bytes]:
        """The proof that the log of size `new` continues that of size `old`.

        Raises:
            ProofInvalid: these are no sizes of the log.
        """
        ...


class Receipts(Protocol):
    """Writes receipts."""

    @property
    def public(self) -> PublicKey:
        """The key that verifies them."""
        ...

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
        """The receipt for one answer, as one line of ASCII; blocks.

        Args:
            request, response: the bodies without content coding.
            nonce: the client's, checked by `is_nonce`.
            skipped: stages that this answer did without.
            members: of a pipeline, the ids of the bundles whose models took part, by step.
        """
        ...
