"""What a fresh instance costs over a reused one, for a small guest and for one that turns 150 KB into 600 KB.

    python tests/sandbox/measure_fresh.py

Both sides of a line run in turn; microseconds at the median. The last line is a guest that starts with two pages of
memory and grows during the call, which a fresh instance pays for.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from sandbox.guests import ALLOC, DONE, ECHO, floats, guest, stage_spec, tensor_spec
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import DataType

PIXELS, ROUNDS = 224 * 224 * 3, 1000
RESET = '(func (export "sandseal_reset") (global.set $top (i32.const 4096)))'
STEP = """(f32.store offset={} (i32.add (local.get $to) (i32.shl (local.get $i) (i32.const 2)))
  (f32.mul (f32.const 0.00392156862) (f32.convert_i32_u
    (i32.load8_u offset={} (i32.add (local.get $from) (local.get $i))))))"""
NORMALISE = f"""(local $i i32) (local $from i32) (local $to i32)
  (local.set $from (i32.load offset=8 (call $in (local.get $call) (i32.const 0))))
  (local.set $to (call $alloc (i32.const {4 * PIXELS}) (i32.const 16)))
  (loop $next {"".join(STEP.format(4 * k, k) for k in range(8))}
    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8))) (i32.const {PIXELS}))))
  (call $describe (call $out (local.get $call) (i32.const 0)) (local.get $to)
    (i64.const {4 * PIXELS}) (i64.const {PIXELS})) {DONE}"""


def micros(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e6


def module(body: str, pages: int) -> bytes:
    alloc = ALLOC.replace("(func (export", "(func $alloc (export")
    return guest(body, alloc=alloc, memory=f'(memory (export "memory") {pages})', extra=RESET)


def main() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, PIXELS, np.uint8)
    image = [Tensor("x", DataType.UINT8, (PIXELS,), pixels)]
    large = stage_spec(inputs=(tensor_spec("x", "UINT8", "n"),))
    with SandboxEngine() as engine:
        print(f"memory pool: {engine.pooling}")
        for name, wasm, spec, inputs in (
            ("64 floats in and out", module(ECHO, 2), stage_spec(), [floats(*range(64))]),
            ("150 KB to 600 KB", module(NORMALISE, 16), large, image),
            ("150 KB to 600 KB, growing", module(NORMALISE, 2), large, image),
        ):
            with engine.compile(wasm, spec) as plugin, plugin.instance() as reused:
                rounds = [
                    (micros(lambda: reused.call(inputs)), micros(lambda: plugin.call(inputs)))  # noqa: B023
                    for _ in range(ROUNDS)
                ]
            again, fresh = (median(side) for side in zip(*rounds, strict=True))
            print(f"{name:28} reused {again:6.1f}   fresh {fresh:6.1f}   difference {fresh - again:6.1f} us")


if __name__ == "__main__":
    main()
