"""Tiny guests in WebAssembly text form, and the specs to run them with.

`guest(body)` is a module that follows ABI v1 whose stage function `run` has `body`; every part can be replaced by
another. `$in` and `$out` give the address of an input's or output's descriptor.
"""

import numpy as np
from wasmtime import wat2wasm

from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_signing.stage import Limits, StageSpec
from sandseal_signing.tensor import DataType, TensorSpec

MEMORY = '(memory (export "memory") 2)'
ABI = '(func (export "sandseal_abi") (result i32) (i32.const 1))'
ALLOC = """
(global $top (mut i32) (i32.const 4096))
(func (export "sandseal_alloc") (param $size i32) (param $align i32) (result i32) (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $top) (i32.const 15)) (i32.const -16)))
  (global.set $top (i32.add (local.get $at) (local.get $size)))
  (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
    (then (if (i32.eq (i32.const -1)
                      (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))
            (then (return (i32.const 0))))))
  (local.get $at))
"""
HELPERS = """
(func $in (param $call i32) (param $i i32) (result i32)
  (i32.add (i32.load offset=4 (local.get $call)) (i32.mul (i32.const 96) (local.get $i))))
(func $out (param $call i32) (param $i i32) (result i32)
  (i32.add (i32.load offset=12 (local.get $call)) (i32.mul (i32.const 96) (local.get $i))))
(func $describe (param $out i32) (param $data i32) (param $bytes i64) (param $axis i64)
  (i32.store offset=8 (local.get $out) (local.get $data))
  (i64.store offset=16 (local.get $out) (local.get $bytes))
  (i64.store offset=24 (local.get $out) (local.get $axis)))
(func $alias (param $out i32) (param $in i32)
  (i32.store offset=8 (local.get $out) (i32.load offset=8 (local.get $in)))
  (i64.store offset=16 (local.get $out) (i64.load offset=16 (local.get $in)))
  (memory.copy (i32.add (local.get $out) (i32.const 24)) (i32.add (local.get $in) (i32.const 24)) (i32.const 64)))
"""
DONE = "(i32.const 0)"
ALIAS = "(call $alias (call $out (local.get $call) (i32.const 0)) (call $in (local.get $call) (i32.const 0)))"
ECHO = f"{ALIAS} {DONE}"


def wasm(text: str) -> bytes:
    return bytes(wat2wasm(text))


def guest(
    body: str = ECHO,
    *,
    imports: str = "",
    memory: str = MEMORY,
    abi: str = ABI,
    alloc: str = ALLOC,
    stage: str | None = None,
    extra: str = "",
) -> bytes:
    stage = stage or f'(func $run (export "run") (param $call i32) (result i32) {body})'
    return wasm(f"(module {imports} {memory} {abi} {alloc} {HELPERS} {stage} {extra})")


def refuse(text: str, end: str = "(i32.const 7)") -> str:
    """A body and data that refuse with `text`; pass to `guest` as two parts."""
    size = len(text.encode())
    return f"""(i32.store offset=32 (local.get $call) (i32.const 1024))
               (i32.store offset=36 (local.get $call) (i32.const {size})) {end}"""


def data(text: bytes, at: int = 1024) -> str:
    escaped = "".join(f"\\{byte:02x}" for byte in text)
    return f'(data (i32.const {at}) "{escaped}")'


def tensor_spec(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, DataType(dtype), shape)


X = tensor_spec("x", "FP32", "n")
Y = tensor_spec("y", "FP32", "n")


def stage_spec(
    *,
    inputs: tuple[TensorSpec, ...] = (X,),
    outputs: tuple[TensorSpec, ...] = (Y,),
    memory_mib: int = 4,
    time_ms: int = 200,
    **rest: object,
) -> StageSpec:
    return StageSpec("p.wasm", "run", inputs, outputs, Limits(memory_mib, time_ms), **rest)  # type: ignore[arg-type]


def floats(*values: float, name: str = "x") -> Tensor:
    return Tensor(name, DataType.FP32, (len(values),), np.array(values, np.float32))


def texts(*values: bytes, name: str = "x") -> Tensor:
    return Tensor(name, DataType.BYTES, (len(values),), pack_bytes(list(values)))
