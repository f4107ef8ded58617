"""The process's one wasm engine: compiles stages and keeps the clock that stops them."""

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Self

from wasmtime import Engine

from sandseal_host.errors import NotReady
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.config import can_pool, new_engine
from sandseal_host.sandbox.log import GuestLog, LogSink, to_logger
from sandseal_host.sandbox.plugin import Plugin
from sandseal_host.sandbox.program import link
from sandseal_host.sandbox.ticker import Ticker
from sandseal_signing.manifest import StageSpec


class SandboxEngine:
    """Compiles plugins with a strict feature set; make one per process.

    Args:
        log: gets what guests write (plugin label, level of the standard library's logging, line).
        pooling: keep guest memories in a pool, which makes fresh instances cheap; by default where a child process
            shows that it can be had (it reserves about 1 TiB of address space).
    """

    def __init__(self, *, log: LogSink = to_logger, pooling: bool | None = None) -> None:
        self.pooling = can_pool() if pooling is None else pooling
        self._log = log
        self._engine = new_engine(pooling=self.pooling)
        self._ticker = Ticker(partial(_advance, self._engine))
        self._closed = False

    def compile(
        self, wasm: bytes, spec: StageSpec, *, assets: Mapping[str, bytes] | None = None, label: str = ""
    ) -> Plugin:
        """Check, compile and try one stage; takes as long as its code is large, so never on an event loop.

        Args:
            wasm: the module as signed.
            spec: the signed stage.
            assets: signed files by name; the plugin can read those that the stage lists.
            label: names the plugin in errors and logs; by default its file name.

        Raises:
            PluginInvalid: the module breaks ABI v1 or imports what it may not.
            PluginTrapped: its initialisation trapped, ran too long or wants more memory than its limit.
            NotReady: the engine is closed.
        """
        if self._closed:
            raise NotReady("the sandbox engine is closed")
        label = label or spec.plugin
        return Plugin(link(self._engine, self._ticker, wasm, spec, assets or {}, GuestLog(label, self._log), label))

    def close(self) -> None:
        """Let running calls end within their limits, refuse new ones, and stop the clock."""
        self._closed = True
        self._ticker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _advance(engine: Engine) -> None:
    raw.advance_epoch(raw.address(engine.ptr()))
