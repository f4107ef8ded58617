"""Other engines for the same model, each in a process and a virtual environment of its own.

Run as a script there: it loads the file and answers each line `STREAMS TOKENS` with the seconds that it took.
"""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

SLOTS, CONTEXT, THREADS, PROMPT = 16, 512, 2, 37
PACKAGES = {"llama.cpp": "xllamacpp", "openvino-genai": "openvino-genai", "onnxruntime-genai": "onnxruntime-genai"}

Prompts = Sequence[Sequence[int]]
Run = Callable[[Prompts, int], None]


class Peer:
    """One engine that has the model loaded.

    Args:
        name: of the engine, and what it runs.
        process: reads orders and says seconds.
    """

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self.name, self._process = name, process
        self.speed(2, 4)

    def speed(self, streams: int, tokens: int) -> float:
        """Tokens a second of so many streams at once, their prompts included."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{streams} {tokens}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                return streams * tokens / json.loads(line)["seconds"]
        raise RuntimeError(f"{self.name} ended")


@contextmanager
def opened(models: Sequence[tuple[str, str, Callable[[], Path]]], venvs: Path) -> Iterator[list[Peer]]:
    """The engines that can be installed and that load their file; who cannot is named on standard error.

    Args:
        models: of each the engine, what it runs, and what gives the file or folder of that.
        venvs: where their virtual environments are.
    """
    from support.venv import NotInstallable, make_venv

    with ExitStack() as processes:
        peers = []
        for engine, what, model in models:
            folder = venvs / PACKAGES[engine]
            python = folder / "bin" / "python"
            try:
                python = python if python.exists() else make_venv(folder, PACKAGES[engine])
                command = [python, __file__, engine, model()]
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
                processes.callback(process.wait)
                processes.callback(process.kill)
                peers.append(Peer(f"{engine} {what}", process))
            except (NotInstallable, RuntimeError, OSError) as error:
                print(f"NOT MEASURED: {engine} {what}: {error}", file=sys.stderr)
        yield peers


def llama(model: str) -> Run:
    """llama.cpp's server, in this process."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    server = xllamacpp.Server(params)

    def run(prompts: Prompts, tokens: int) -> None:
        order = {"n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        asked = [
            threading.Thread(target=server.handle_completions, args=({"prompt": list(prompt), **order},))
            for prompt in prompts
        ]
        for each in asked:
            each.start()
        for each in asked:
            each.join()

    return run


def openvino(model: str) -> Run:
    """OpenVINO GenAI's continuous batching."""
    import numpy as np
    import openvino_genai
    from openvino import Tensor

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_seqs, scheduler.cache_size = SLOTS, 1
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": THREADS})

    def run(prompts: Prompts, tokens: int) -> None:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
        pipeline.generate([Tensor(np.array([prompt], np.int64)) for prompt in prompts], [config] * len(prompts))

    return run


def genai(model: str) -> Run:
    """ONNX Runtime GenAI, all prompts as one batch."""
    import numpy as np
    import onnxruntime_genai as og

    loaded = og.Model(model)

    def run(prompts: Prompts, tokens: int) -> None:
        params = og.GeneratorParams(loaded)
        params.set_search_options(batch_size=len(prompts), max_length=PROMPT + tokens, min_length=PROMPT + tokens)
        generator = og.Generator(loaded, params)
        generator.append_tokens(np.array(prompts, np.int32))
        while not generator.is_done():
            generator.generate_next_token()

    return run


ENGINES = {"llama.cpp": llama, "openvino-genai": openvino, "onnxruntime-genai": genai}


def main() -> None:
    """Answer orders until there are no more."""
    run = ENGINES[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        streams, tokens = map(int, line.split())
        prompts = [random.Random(time.monotonic_ns() + i).sample(range(1000, 40_000), PROMPT) for i in range(streams)]
        began = time.monotonic()
        run(prompts, tokens)
        print(json.dumps({"seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
