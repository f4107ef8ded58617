"""The process in which one module is compiled, started by `compiler.Compiler`.

Standard input is the module, standard output gets its native code; with status `REFUSED`, why there is none. It imports
everything before it gives everything up, so it needs no file any more.
"""

import os
import sys

from wasmtime import Module, WasmtimeError

from sandseal_host.confinement import confine
from sandseal_host.sandbox.compiler import REFUSED
from sandseal_host.sandbox.config import new_engine

LARGEST_CODE = 256 << 20  # bytes


def main() -> None:
    """Compile standard input, within `memory` bytes and `cpu_s` seconds of processor time (the two arguments)."""
    memory, cpu_s = map(int, sys.argv[1:])
    confine(memory=memory, cpu_s=cpu_s, threads=1, readable=(), largest_file=LARGEST_CODE)
    status, output = _compiled(sys.stdin.buffer.read())
    with sys.stdout.buffer as out:
        out.write(output)
    os._exit(status)


def _compiled(wasm: bytes) -> tuple[int, bytes]:
    try:
        return 0, bytes(Module(new_engine(pooling=False), wasm).serialize())
    except WasmtimeError as error:
        return REFUSED, str(error).encode()


if __name__ == "__main__":
    main()
