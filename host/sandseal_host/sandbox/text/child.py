"""The process that has a model's tokenizer and chat template, started by `worker.py`.

It imports everything before it gives everything up, so it needs no more files. Standard input is its socket to the
host; where that ends, so does the process.
"""

import json
import os
import pickle
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sandseal_host.confinement import confine
from sandseal_host.error_members import error_members
from sandseal_host.errors import ModelFailed
from sandseal_host.sandbox.text.frames import Frames, Kind
from sandseal_host.sandbox.text.texts import Texts
from sandseal_host.tensors import pack_bytes
from sandseal_signing.errors import SandsealError

_STDLIB = str(Path(os.__file__).parent)  # which imports parts of itself when they are needed
_ZONES = ("/usr/share/zoneinfo", "/etc/localtime")  # templates may ask what day it is

_TOO_MUCH = ModelFailed(
    "the tokenizer or the chat template wants more memory than it may have",
    hint="send less text; if it goes on, the publisher must look at both",
)


def main() -> None:
    """Give up everything but `memory` bytes (the argument) and the socket, and serve until the host leaves."""
    (memory,) = map(int, sys.argv[1:])
    frames = Frames(socket.socket(fileno=os.dup(0)))
    missing = confine(memory=memory, cpu_s=None, threads=1, readable=(_STDLIB, *_ZONES))
    try:
        _serve(frames, missing)
    except EOFError:
        os._exit(0)


def _serve(frames: Frames, missing: Sequence[str]) -> None:
    _, files = frames.receive()
    try:
        texts = Texts(pickle.loads(files))  # noqa: S301 - only the host writes these
        tokens = pack_bytes(list(texts.tokens))
    except SandsealError as error:
        _fail(frames, error)
        return
    frames.send(Kind.READY, json.dumps([list(missing), list(texts.special)]).encode())
    frames.send(Kind.TOKENS, tokens.data)
    while True:
        kind, body = frames.receive()
        try:
            ids = _answer(texts, kind, body)
        except SandsealError as error:
            _fail(frames, error)
        except MemoryError:
            _fail(frames, _TOO_MUCH)
        else:
            frames.send(Kind.IDS, np.array(ids, np.int32).data.cast("B"))


def _answer(texts: Texts, kind: Kind, body: bytes) -> Sequence[int]:
    if kind is Kind.ENCODE:
        return texts.encode(body.decode("utf-8", "surrogatepass"))
    messages, options = json.loads(body)
    return texts.chat(messages, options)


def _fail(frames: Frames, error: SandsealError) -> None:
    frames.send(Kind.ERROR, json.dumps(error_members(error)).encode())


if __name__ == "__main__":
    main()
