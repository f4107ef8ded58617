"""The life of a model version."""

from enum import StrEnum


class ModelState(StrEnum):
    """Where a model version is in its life: one state after the other, and from each it may fail or be revoked."""

    PENDING = "pending"
    VERIFYING = "verifying"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    UNLOADED = "unloaded"
    FAILED = "failed"
    REVOKED = "revoked"

    @property
    def final(self) -> bool:
        """Whether nothing follows."""
        return self in (ModelState.UNLOADED, ModelState.FAILED, ModelState.REVOKED)

    def leads_to(self, state: "ModelState") -> bool:
        """Whether a state may follow on this one."""
        if self.final:
            return False
        order = list(ModelState)
        return state in (ModelState.FAILED, ModelState.REVOKED, order[order.index(self) + 1])
