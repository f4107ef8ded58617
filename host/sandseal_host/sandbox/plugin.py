"""A compiled stage that any thread can call."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sandseal_host.errors import NotReady, PluginInvalid
from sandseal_host.sandbox.abi import VERSION
from sandseal_host.sandbox.guest import Cancelled
from sandseal_host.sandbox.instance import Instance
from sandseal_host.sandbox.program import Program
from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.tensors import Tensor
from sandseal_signing.stage import StageSpec


class Plugin:
    """A stage's module, compiled, linked and tried once; made by `SandboxEngine.compile`.

    Args:
        program: the compiled stage.

    Raises:
        PluginInvalid: it follows another ABI version, or cannot be instantiated.
        PluginTrapped: its initialisation trapped or ran too long.
    """

    def __init__(self, program: Program) -> None:
        self._program: Program | None = program
        self.label = program.label
        self.spec: StageSpec = program.spec
        self._tally, self._log = program.tally, program.log
        with self.instance() as instance:
            version = instance.abi()
        if version != VERSION:
            raise PluginInvalid(
                f"plugin {self.label!r} follows ABI version {version}; this host knows {VERSION}",
                hint="build it again with the SDK of this host's version",
                plugin=self.label, version=version,
            )  # fmt: skip

    def call(
        self, inputs: Sequence[Tensor], parameters: bytes = b"{}", cancelled: Cancelled | None = None
    ) -> tuple[Tensor, ...]:
        """Run the stage on a fresh instance that nothing else will see; arguments and errors as `Instance`'s."""
        with self.instance(cancelled) as instance:
            return instance.call(inputs, parameters)

    def instance(self, cancelled: Cancelled | None = None) -> Instance:
        """A fresh instance to call more than once: for tests, benchmarks and streams.

        Args:
            cancelled: see `Instance`.

        Raises:
            NotReady: the plugin is closed.
        """
        program = self._program
        if program is None:
            raise NotReady(f"plugin {self.label!r} is closed")
        return Instance(program, cancelled)

    def statistics(self) -> PluginStatistics:
        """Counts since it was compiled."""
        return self._tally.statistics(self._log)

    def close(self) -> None:
        """Take no new calls; the code is freed when the last running one has ended."""
        self._program = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
