"""The trust policy in force: the operator's file, with every revocation that was ever made."""

import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sandseal_host.registry.journal import Journal
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.revocations import Revocations, Target, targets_of
from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.errors import PolicyInvalid, PolicyRefused
from sandseal_signing.logentry import Kind, Subject
from sandseal_signing.trust import TrustPolicy

_EDIT = "edit the trust file on the host's own machine"


@dataclass(frozen=True, slots=True)
class InForce:
    """A policy and its generation, which grows with every change of file or revocations since the start."""

    policy: TrustPolicy
    generation: int


class Trust:
    """Who is trusted now; thread-safe.

    What the file revokes is kept with the other revocations, so that an older file brings nothing back.

    Args:
        file: the operator's.
        revocations: those kept.
        journal: is told when another policy comes into force.
    """

    def __init__(self, file: PolicyFile, revocations: Revocations, journal: Journal) -> None:
        self._file, self._revocations, self._journal = file, revocations, journal
        self._guard = threading.Lock()
        self._source: TrustPolicy | None = None
        self._in_force = InForce(file.current(), 0)
        self.in_force()

    @property
    def generation(self) -> int:
        """The generation in force as far as it was looked at; touches no file."""
        return self._in_force.generation

    @property
    def problem(self) -> str | None:
        """Why the file on disk is not in force, when it is not."""
        return self._file.problem

    def in_force(self) -> InForce:
        """The policy now; looks whether the file changed.

        Raises:
            StoreError: what it revokes cannot be kept.
        """
        with self._guard:
            source = self._file.current()
            if source is not self._source:
                self._adopt(source)
            return self._in_force

    def current(self) -> TrustPolicy:
        """The policy now."""
        return self.in_force().policy

    def revoke(self, target: Target, digest: Digest, actor: str, reason: str = "") -> None:
        """Revoke a key, bundle or blob, for ever; from the next verdict on it counts.

        Raises:
            StoreError: it cannot be kept, and is not revoked.
        """
        with self._guard:
            if self._revocations.add([(target, digest)], actor, reason):
                self._unite(self._in_force.policy)

    def replace(self, envelope: bytes, operator: str) -> TrustPolicy:
        """Put another policy in force, and into the operator's file, as the holders of [root] have signed it.

        Args:
            envelope: a DSSE envelope over the text of a trust file that names no other file.
            operator: who brings it; nobody's word but the signatures' counts.

        Raises:
            PolicyRefused: there is no [root] in the policy in force, too few of its holders signed, or the serial is
                not higher.
            PolicyInvalid: it is not a policy, or names key files.
            EnvelopeInvalid, JsonInvalid, LimitExceeded, SignatureInvalid: see `Document`.
            StoreError: the operator's file cannot be written; the old policy stays.
        """
        document = Document.parse(envelope, TRUST_TYPE, "the envelope")
        self.in_force()  # a file that changed a moment ago says who may
        with self._guard:
            policy = self._in_force.policy
            if policy.root is None:
                raise PolicyRefused(
                    "the policy in force has no [root], so nobody may replace it from outside", hint=_EDIT
                )
            root = policy.root
            holders = document.approved(policy, root.keys, root.threshold, datetime.now(UTC))
            serial = parse_inline(document.payload).serial
            if serial <= policy.serial:
                raise PolicyRefused(f"serial {serial} is not above {policy.serial}, which is in force")
            self._file.write(document.payload)
            self._adopt(self._file.current(), f"{', '.join(holders)}, brought by {operator}")
            return self._in_force.policy

    def _adopt(self, source: TrustPolicy, actor: str = "trust file") -> None:
        self._revocations.add(targets_of(source.revoked), actor, f"in the trust file of serial {source.serial}")
        self._journal.record(Kind.POLICY, actor, Subject(serial=source.serial, policy=self._file.digest))
        self._unite(source)
        self._source = source

    def _unite(self, policy: TrustPolicy) -> None:
        united = replace(policy, revoked=self._revocations.unite(policy.revoked))
        self._in_force = InForce(united, self._in_force.generation + 1)


def parse_inline(payload: bytes) -> TrustPolicy:
    """A trust file that brings its keys with it.

    Raises:
        PolicyInvalid: it does not, or is not a policy.
    """

    def no_files(name: str) -> str:
        raise FileNotFoundError(2, "a policy that comes over the network holds its keys inline", name)

    try:
        return TrustPolicy.parse(payload.decode(), no_files)
    except UnicodeDecodeError as error:
        raise PolicyInvalid(f"the policy is not UTF-8: {error}") from None
