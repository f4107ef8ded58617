"""What every bundle of a host is built with."""

from collections.abc import Callable
from dataclasses import dataclass

from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.sandbox.runners import StageRunners
from sandseal_host.serving.rules import ServingRules
from sandseal_host.settings import Settings


@dataclass(frozen=True, slots=True)
class Tools:
    """What every bundle of a host is built with.

    Args:
        ledger: what is built is entered there.
        runners: make what runs its plugins.
        progress: called with the name of each model file and plugin before it is looked at.
    """

    settings: Settings
    rules: ServingRules
    devices: Devices
    ledger: MemoryLedger
    runners: StageRunners
    progress: Callable[[str], None]
