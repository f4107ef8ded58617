"""A stage behind a circuit, and what becomes of a request whose stage failed."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from sandseal_host.errors import CircuitOpen, InputRefused, PluginError
from sandseal_host.serving.circuit import DEFAULT, Circuit, CircuitSettings, CircuitState
from sandseal_host.serving.ports import StageRunner
from sandseal_host.tensors import Tensor
from sandseal_signing.stage import StageSpec

_MAX_TENANTS = 1024  # whose circuits are remembered, those that called last

_log = logging.getLogger(__name__)


class Staged(NamedTuple):
    """What a request has after a stage.

    Args:
        tensors: the stage's outputs.
        skipped: they are its inputs, since it failed and its manifest allows that.
    """

    tensors: tuple[Tensor, ...]
    skipped: bool


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """A guarded stage now, and since it was made.

    Args:
        circuit_open: 1 while a tenant's calls are refused, or tried one at a time; else 0.
        failures_in_row: of the plugin, up to now; of the tenant that has most.
        opened_total: how often a circuit opened.
        refused_total: calls that were not tried because it was open.
        skipped_total: requests that went on without the stage.
    """

    circuit_open: int
    failures_in_row: int
    opened_total: int
    refused_total: int
    skipped_total: int


class GuardedStage:
    """A stage that is left alone for a while when it keeps failing, by the tenant that it fails for.

    One circuit for all would let whoever knows an input that traps shut everybody else out. Only the plugin's own
    failures count (`PluginError`): an input that it refuses is an answer that it gave, and a call that never reached it
    says nothing.

    Args:
        runner: runs the stage; closed with this.
        spec: the signed stage.
        settings: when the circuit opens.
        clock: seconds, growing.
    """

    def __init__(
        self,
        runner: StageRunner,
        spec: StageSpec,
        settings: CircuitSettings = DEFAULT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner, self._spec, self._clock = runner, spec, clock
        self._settings = settings
        self._circuits: OrderedDict[str, Circuit] = OrderedDict()  # by tenant, the latest to call last
        self._opened = self._refused = self._skipped = 0
        self._why = ""  # the last failure, for the log

    async def run(
        self, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float, tenant: str
    ) -> Staged:
        """Run the stage, if its tenant's circuit lets it; other arguments and errors as `StageRunner.apply`.

        With `on_failure` = `passthrough` a stage that fails or may not be tried is skipped.

        Raises:
            CircuitOpen: it failed too often lately.
        """
        try:
            return Staged(await self._apply(inputs, parameters, urgency, deadline, tenant), skipped=False)
        except (PluginError, CircuitOpen):
            if self._spec.on_failure != "passthrough":
                raise
        self._skipped += 1
        named = zip(inputs, self._spec.outputs, strict=True)
        return Staged(tuple(replace(tensor, name=spec.name) for tensor, spec in named), skipped=True)

    def impediment(self) -> CircuitOpen | None:
        """Why requests are refused now, whoever sends them; None when they are not."""
        now, circuits = self._clock(), self._circuits.values()
        resting = bool(circuits) and all(circuit.state(now) is CircuitState.OPEN for circuit in circuits)
        if self._spec.on_failure == "passthrough" or not resting:
            return None
        return self._resting(min(circuits, key=lambda circuit: circuit.wait_s(now)))

    def statistics(self) -> StageStatistics:
        """The counts, and the circuit's state at this moment."""
        now, circuits = self._clock(), self._circuits.values()
        closed = all(circuit.state(now) is CircuitState.CLOSED for circuit in circuits)
        failures = max((circuit.failures for circuit in circuits), default=0)
        return StageStatistics(int(not closed), failures, self._opened, self._refused, self._skipped)

    def close(self) -> None:
        """Stop taking calls and drop the plugin."""
        self._runner.close()

    async def _apply(
        self, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float, tenant: str
    ) -> tuple[Tensor, ...]:
        circuit = self._circuit(tenant)
        turn = circuit.enter(self._clock())
        if turn is None:
            self._refused += 1
            raise self._resting(circuit)
        worked: bool | None = None
        try:
            outputs = await self._runner.apply(inputs, parameters, urgency, deadline)
            worked = True
        except InputRefused:
            worked = True
            raise
        except PluginError as error:
            worked, self._why = False, error.message
            raise
        finally:
            self._leave(circuit, turn, worked)
        return outputs

    def _circuit(self, tenant: str) -> Circuit:
        circuit = self._circuits.get(tenant)
        if circuit is None:
            circuit = self._circuits[tenant] = Circuit(self._settings)
        self._circuits.move_to_end(tenant)
        if len(self._circuits) > _MAX_TENANTS:
            self._circuits.popitem(last=False)
        return circuit

    def _leave(self, circuit: Circuit, turn: int, worked: bool | None) -> None:
        before, now = circuit.openings, self._clock()
        circuit.leave(turn, worked, now)
        if circuit.openings > before:
            self._opened += 1
            message, pause = self._resting(circuit).message, circuit.wait_s(now)
            _log.warning("%s, next try in %g s: %s", message, pause, self._why)

    def _resting(self, circuit: Circuit) -> CircuitOpen:
        plugin, failures = self._spec.plugin, circuit.failures
        return CircuitOpen(
            f"plugin {plugin!r} failed {failures} times in a row and is left alone for a while",
            retry_after=circuit.wait_s(self._clock()),
            plugin=plugin,
            failures=failures,
        )
