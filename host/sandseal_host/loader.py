"""From a verified bundle to a model that can serve: the only file where registry, sandbox, runtime and serving meet."""

from contextlib import ExitStack

from sandseal_signing.bundle import Bundle
from sandseal_signing.manifest import Batching, StageSpec

from sandseal_host.errors import ModelInvalid
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.pool import StagePool
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.model import Model
from sandseal_host.settings import Settings


class Loader:
    """Builds models from bundles on one device, with one sandbox engine.

    Args:
        settings: tighten what bundles are signed for, never widen it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device = Device.parse(settings.device)
        self._device.check()
        self._engine = SandboxEngine()

    def close(self) -> None:
        """Stop the sandbox engine; models built here must be closed before."""
        self._engine.close()
