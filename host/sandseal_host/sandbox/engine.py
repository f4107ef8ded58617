"""The process's one wasm engine: compiles stages and keeps the clock that stops them."""

from collections.abc import Mapping
from functools import cached_property, partial
from hashlib import sha256
from types import TracebackType
from typing import Self

from wasmtime import Engine, Module, WasmtimeError

from sandseal_host.errors import NotReady
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.compiler import Compiler, does_not_compile
from sandseal_host.sandbox.config import MAX_INSTANCES, can_pool, new_engine
from sandseal_host.sandbox.log import GuestLog, LogSink, to_logger
from sandseal_host.sandbox.module import MAGIC
from sandseal_host.sandbox.plugin import Plugin
from sandseal_host.sandbox.program import link
from sandseal_host.sandbox.ticker import Ticker
from sandseal_signing.stage import StageSpec


class SandboxEngine:
    """Compiles plugins with a strict feature set; make one per process.

    Args:
        log: gets what guests write (plugin label, level of the standard library's logging, line).
        pooling: keep guest memories in a pool, which makes fresh instances cheap; by default where a child process
            shows that it can be had (it reserves about 1 TiB of address space).
        fuel: count instructions, so that `Instance.usage` says them; for test harnesses, not for hosts.
        compiler: compiles modules elsewhere and keeps their code, without fuel; by default each is compiled here.
        instances: that may be alive at once, where there is a pool.
    """

    def __init__(
        self,
        *,
        log: LogSink = to_logger,
        pooling: bool | None = None,
        fuel: bool = False,
        compiler: Compiler | None = None,
        instances: int = MAX_INSTANCES,
    ) -> None:
        self.pooling = can_pool() if pooling is None else pooling
        self._log, self._fuel, self._compiler = log, fuel, compiler
        self._engine = new_engine(pooling=self.pooling, fuel=fuel, instances=instances)
        self._ticker = Ticker(partial(_advance, self._engine))
        self._closed = False

    @cached_property
    def fingerprint(self) -> str:
        """Of all that native code depends on: wasmtime's version, its configuration, the processor's features.

        wasmtime writes these into what it serialises, so the code of a module without anything in it is made of them.
        """
        return sha256(Module(self._engine, MAGIC).serialize()).hexdigest()

    def code(self, wasm: bytes, label: str) -> bytes:
        """A module's native code, for `compile` in another process of this host; blocks as that does.

        Raises:
            PluginInvalid: it does not compile.
        """
        if self._compiler is not None:
            return self._compiler.code(wasm, self.fingerprint, label)
        try:
            return bytes(Module(self._engine, wasm).serialize())
        except WasmtimeError as error:
            raise does_not_compile(label, str(error)) from None

    def compile(
        self,
        wasm: bytes,
        spec: StageSpec,
        *,
        assets: Mapping[str, bytes] | None = None,
        label: str = "",
        code: bytes | None = None,
    ) -> Plugin:
        """Check, compile and try one stage; takes as long as its code is large, so never on an event loop.

        Args:
            wasm: the module as signed.
            spec: the signed stage.
            assets: signed files by name; the plugin can read those that the stage lists.
            label: names the plugin in errors and logs; by default its file name.
            code: what `code` gave for this module in another process of this host. Nothing else may ever be given:
                it is run.

        Raises:
            PluginInvalid: the module breaks ABI v1 or imports what it may not.
            PluginTrapped: its initialisation trapped, ran too long or wants more memory than its limit.
            NotReady: the engine is closed.
        """
        if self._closed:
            raise NotReady("the sandbox engine is closed")
        label = label or spec.plugin
        guest_log, compiled = GuestLog(label, self._log), partial(self._module, wasm, code, label)
        program = link(
            self._engine, self._ticker, wasm, compiled, spec, assets or {}, guest_log, label, fuel=self._fuel
        )
        return Plugin(program)

    def _module(self, wasm: bytes, code: bytes | None, label: str) -> Module:
        if code is None and self._compiler is None:
            return Module(self._engine, wasm)
        return Module.deserialize(self._engine, self.code(wasm, label) if code is None else code)

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
