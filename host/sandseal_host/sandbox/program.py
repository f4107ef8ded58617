"""A compiled and linked stage: everything that its instances share, and nothing that changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wasmtime import Engine, FuncType, InstancePre, Linker, Module, WasmtimeError

from sandseal_host.errors import PluginInvalid, PluginOutOfMemory
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.abi import StageForm
from sandseal_host.sandbox.compiler import does_not_compile
from sandseal_host.sandbox.imports import define_imports
from sandseal_host.sandbox.log import GuestLog
from sandseal_host.sandbox.logits import VOCABULARY
from sandseal_host.sandbox.module import PAGE, ModuleOutline, read_outline
from sandseal_host.sandbox.statistics import Tally
from sandseal_host.sandbox.ticker import Ticker
from sandseal_signing.stage import StageSpec

MEMORY, ABI, ALLOC, INITIALIZE, RESET = "memory", "sandseal_abi", "sandseal_alloc", "_initialize", "sandseal_reset"
_STAGE = "(i32) -> (i32)"
_REQUIRED = {MEMORY: "memory", ABI: "() -> (i32)", ALLOC: "(i32 i32) -> (i32)"}
_OPTIONAL = {INITIALIZE: "() -> ()", RESET: "() -> ()"}


@dataclass(frozen=True, slots=True)
class Program:
    """A stage that is ready to be instantiated; dropping the last reference frees it.

    Args:
        label: names the plugin in errors and logs.
        form: how the signed stage's calls look.
        engine_at: address of the process's one engine.
        ticker: its clock.
        linked_at: address of the module with its imports.
        owners: what keeps these addresses valid.
        log: where the guest's lines go.
        tally: counts of its calls.
        assets: the signed files that the stage lists, and a logits stage's vocabulary.
        initializes: it exports `_initialize`.
        resets: it exports `sandseal_reset`.
        fuel: instructions are counted.
    """

    label: str
    form: StageForm
    engine_at: int
    ticker: Ticker
    linked_at: int
    owners: tuple[Engine, InstancePre]
    log: GuestLog
    tally: Tally
    assets: Mapping[str, bytes]
    initializes: bool
    resets: bool
    fuel: bool

    @property
    def spec(self) -> StageSpec:
        """The signed stage."""
        return self.form.spec

    @property
    def memory_limit(self) -> int:
        """The most linear memory of an instance, in bytes."""
        return self.spec.limits.memory_mib << 20


def no_room(label: str, size: int, limit: int) -> PluginOutOfMemory:
    """The error for a call of `size` bytes that does not fit into the guest's memory."""
    return PluginOutOfMemory(
        f"plugin {label!r} has no room for a call of {size} bytes within its {limit >> 20} MiB",
        plugin=label, function=ALLOC, trap="out_of_memory", frames=[], wanted=size, limit=limit,
    )  # fmt: skip


def link(
    engine: Engine, ticker: Ticker, wasm: bytes, compiled: Callable[[], Module], spec: StageSpec,
    assets: Mapping[str, bytes], log: GuestLog, label: str, *, fuel: bool = False,
) -> Program:  # fmt: skip
    """Check, compile and link a stage's module; runs no guest code.

    Args:
        compiled: gives the module's code; asked once its outline is good.

    Raises:
        PluginInvalid: not wasm, a start section, wrong exports, forbidden imports, or it does not compile.
        PluginOutOfMemory: its memory is larger than the limit from the start.
    """
    outline = read_outline(wasm, label)
    _check_outline(outline, spec, label)
    try:
        module = compiled()
        _check_types(module, spec)
        linker = Linker(engine)
        define_imports(linker, outline, spec, label)
        linked = linker.instantiate_pre(module)
    except WasmtimeError as error:
        raise does_not_compile(label, str(error)) from None
    return Program(
        label=label,
        form=StageForm(spec, label),
        engine_at=raw.address(engine.ptr()),
        ticker=ticker,
        linked_at=raw.address(linked.ptr()),
        owners=(engine, linked),
        log=log,
        tally=Tally(),
        assets=_granted(assets, spec, label),
        initializes=INITIALIZE in outline.exports,
        resets=RESET in outline.exports,
        fuel=fuel,
    )


def _check_outline(outline: ModuleOutline, spec: StageSpec, label: str) -> None:
    if outline.starts:
        raise PluginInvalid(
            f"plugin {label!r} has a start section, which would run code before any limit of a call",
            hint="export the function as _initialize instead (AssemblyScript: --exportStart _initialize)",
            plugin=label,
        )
    if spec.function in _REQUIRED or spec.function in _OPTIONAL:
        raise PluginInvalid(f"plugin {label!r}: {spec.function!r} cannot be a stage's function", plugin=label)
    required = {**_REQUIRED, spec.function: _STAGE} | ({RESET: _OPTIONAL[RESET]} if spec.mode == "stream" else {})
    wanted = required | {name: kind for name, kind in _OPTIONAL.items() if name in outline.exports}
    for name, kind in wanted.items():
        found = outline.exports.get(name)
        if found != kind:
            what = f"does not export {name!r}" if found is None else f"exports {name!r} as {found}"
            raise PluginInvalid(
                f"plugin {label!r} {what}; ABI v1 needs it as {kind}", plugin=label, export=name, wanted=kind
            )
    least = outline.memory_pages * PAGE
    if least > spec.limits.memory_mib << 20:
        raise PluginOutOfMemory(
            f"plugin {label!r} starts with {least >> 20} MiB of memory, over its limit of {spec.limits.memory_mib}",
            plugin=label, function=MEMORY, trap="out_of_memory", frames=[],
            wanted=least, limit=spec.limits.memory_mib << 20,
        )  # fmt: skip


def _check_types(module: Module, spec: StageSpec) -> None:
    """Hear from wasmtime too what will be called unchecked; only names whose signature we have read (see module.py)."""
    called = {**_REQUIRED, **_OPTIONAL, spec.function: _STAGE}
    for export in module.exports:
        name = export.name
        kind = export.type if name in called else None
        if isinstance(kind, FuncType):
            found = f"({' '.join(map(str, kind.params))}) -> ({' '.join(map(str, kind.results))})"
            if found != called[name]:
                raise WasmtimeError(f"export {name!r} is {found} to the compiler")


def _granted(assets: Mapping[str, bytes], spec: StageSpec, label: str) -> Mapping[str, bytes]:
    missing = [name for name in spec.assets if name not in assets]
    if missing:
        raise PluginInvalid(f"plugin {label!r} lists the asset {missing[0]!r}, which is not there", plugin=label)
    return {name: assets[name] for name in (*spec.assets, VOCABULARY) if name in assets}
