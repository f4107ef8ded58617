"""Plugins in wasmtime; the only room that knows it.

engine      SandboxEngine: compiles stages, one per process
compiler    Compiler: modules compiled in a limited child, and kept in a PrivateCache
plugin      Plugin: a compiled stage, called from any thread, a fresh instance per call
pool        StagePool: its calls in order of urgency over threads
workers/    Workers: the same in processes that all plugins share
runners     StageRunners: makes either for the stages of loaded models
stream      PluginStream: an instance that lives as long as a stream; workers/stream has the workers' own;
            stream_seats: how many there may be
text/       TextWorker: a publisher's tokenizer and chat template, in a process of the model's own
children    how processes of this room are started and ended
instance    one guest that follows ABI v1
store       one wasmtime store; the only place where guest code runs
program     what instances share; module, imports: what a module may export and import
logits      what logits stages get besides their inputs
abi         ABI v1 in bytes (sdk/abi/abi-v1.md); memory: the guest's memory as the host reads it
snapshot    what `_initialize` leaves behind, for builds
deadline, ticker, guest, traps, log, printable, statistics, config
raw         wasmtime's C API by ctypes
"""

from sandseal_host.sandbox.config import MAX_INSTANCES
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.instance import Instance
from sandseal_host.sandbox.log import LogSink
from sandseal_host.sandbox.plugin import Plugin
from sandseal_host.sandbox.pool import StagePool
from sandseal_host.sandbox.snapshot import Snapshot, take_snapshot
from sandseal_host.sandbox.statistics import InstanceUsage, PluginStatistics, PoolStatistics, WorkerStatistics
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.stage import WorkerStage
from sandseal_host.sandbox.workers.workers import Workers

__all__ = [
    "MAX_INSTANCES",
    "SandboxEngine",
    "Plugin",
    "Instance",
    "StagePool",
    "Workers",
    "WorkerStage",
    "WorkerPlugin",
    "LogSink",
    "Snapshot",
    "take_snapshot",
    "InstanceUsage",
    "PluginStatistics",
    "PoolStatistics",
    "WorkerStatistics",
]
