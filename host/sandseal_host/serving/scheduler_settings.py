"""What bounds a lane's queue and shapes its batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandseal_host.serving.request import CLASSES, ServiceClass


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What bounds a lane's queue and shapes its batches.

    Args:
        max_rows: the most rows of a batch.
        max_delay_s: how long the oldest request waits for others while an instance is free; 0 = never.
        instances: how many batches may run at once.
        max_requests: the most requests of one class that wait.
        max_queued_rows: the most rows of one class that wait.
        window: how many requests that do not fit a batch are looked past.
        weights: tenants' shares; 1 for those not named.
        classes: by name; a request says which of them, and has its target, expiry and bounds from here.
    """

    max_rows: int = 1
    max_delay_s: float = 0.0
    instances: int = 1
    max_requests: int = 4096
    max_queued_rows: int = 65_536
    window: int = 32
    weights: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, ServiceClass] = field(default_factory=lambda: CLASSES)
