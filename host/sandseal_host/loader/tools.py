"""What every bundle of a host is built with."""

from collections.abc import Callable
from dataclasses import dataclass

from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.runtime.saved_graphs import SavedGraphs
from sandseal_host.sandbox.runners import StageRunners
from sandseal_host.serving.rules import ServingRules
from sandseal_host.settings import Settings

STAGE_QUEUES = 4
"""That may wait in a plugin or a tokenizer: one for each class, one for tenants with less than their share."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What every bundle of a host is built with.

    Args:
        ledger: what is built is entered there.
        runners: make what runs its plugins.
        saved: optimised graphs are kept there.
        progress: called with the name of each model file and plugin before it is looked at.
    """

    settings: Settings
    rules: ServingRules
    devices: Devices
    ledger: MemoryLedger
    runners: StageRunners
    saved: SavedGraphs | None
    progress: Callable[[str], None]
