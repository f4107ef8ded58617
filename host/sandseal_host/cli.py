"""The operator's commands: serve, run, doctor, tune, token reset; heavy imports wait until a command runs."""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandseal_sdk.console import note, out, table

if TYPE_CHECKING:
    from sandseal_host.api.tls import TlsFiles
    from sandseal_host.app import Host
    from sandseal_host.settings import Settings
    from sandseal_signing.manifest import Manifest

Started = Callable[[str, Path | None], None]
"""Called with the host's address, and the file of a token that this start made."""

_INLINE_ELEMENTS = 16


def register(app: typer.Typer) -> None:
    """Add these commands to the one `sandseal` command."""
    for command in (serve, run, doctor, tune):
        app.command()(command)
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    if tokens := groups.get("token"):
        tokens.command("reset")(token_reset)
    if log := groups.get("log"):
        log.command("rotate")(log_rotate)


def serve(
    trust: Annotated[Path | None, typer.Option(help="Trust policy file: who may publish what.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for blobs, catalog and the operator's token.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind; loopback when absent.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind; 0 picks a free one.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, or a list such as cuda:0,cuda:1.")] = None,
    anonymous: Annotated[bool | None, typer.Option(help="Take inference without a token.")] = None,
) -> None:
    """Run the host; every other setting is a SANDSEAL_* variable (see host/README.md)."""
    from sandseal_host.settings import read_settings
    from sandseal_host.stages import hanging

    settings = read_settings(trust=trust, data=data, host=host, port=port, device=device, anonymous=anonymous)

    def started(url: str, token: Path | None) -> None:
        if token:
            note(f"the operator's token is in {token}")
        print(url, flush=True)

    _serve(settings, started)
    if hanging():  # a load that was given up: the C++ that it is in would abort the process as Python ends
        os._exit(0)


def run(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An ONNX file.")],
    port: Annotated[int, typer.Option(help="Port on the loopback interface; 0 picks a free one.")] = 8000,
    device: Annotated[str, typer.Option(help="cpu, cuda, or a list such as cuda:0,cuda:1.")] = "cpu",
) -> None:
    """Serve an ONNX file at once: sealed with a throw-away key, verified as always, on loopback only."""
    from sandseal_host.settings import read_settings
    from sandseal_sdk import publish
    from sandseal_sdk.bundles.keyfiles import read_private_key
    from sandseal_sdk.client import Client
    from sandseal_signing.pack import pack_folder

    with tempfile.TemporaryDirectory(prefix="sandseal-run-") as temporary:
        folder = Path(temporary)
        made = publish.init(model, folder / "made", name=publish.name_of(model))
        with (folder / "model.seal").open("wb") as seal:
            contents = pack_folder(made.bundle, seal, [read_private_key(made.key, str)])
        settings = read_settings(trust=made.trust, data=folder / "data", port=port, device=device, anonymous=True)

        def started(url: str, token: Path | None) -> None:
            secret = token.read_text(encoding="utf-8").strip() if token else None
            with Client(url, secret) as client:
                client.push(folder / "model.seal")
            note(f"{contents.manifest.name} is ready; Ctrl-C stops it and leaves nothing behind. Try:")
            print(_curl(url, contents.manifest, folder / "request.json"), flush=True)

        _serve(settings, started)


def doctor() -> None:
    """Say what this machine can and cannot do."""
    from sandseal_host.doctor import examine

    rows = [[finding.subject, finding.state, finding.detail] for finding in examine()]
    table("", ["what", "state", "detail"], rows)


def tune(
    bundle: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The model's .seal file.")],
    trust: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The trust policy to verify it by.")],
    profile: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="What `sandseal record` wrote.")],
    goal: Annotated[str, typer.Option(help="latency or throughput.")] = "latency",
    device: Annotated[str, typer.Option(help="cpu, or a device such as cuda:0; nothing else should use it.")] = "cpu",
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="For each of the settings that are tried.")] = 6.0,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every combination, not one setting after the other.")
    ] = False,
    output: Annotated[Path, typer.Option("--out", "-o", help="The serving file to write.")] = Path("serving.toml"),
) -> None:
    """Replay a model's recorded arrivals with other settings, and write those that serve them best."""
    from sandseal_host.runtime.device import Device
    from sandseal_host.tuning.candidate import Candidate, Goal, Outcome
    from sandseal_host.tuning.profile import read_profile
    from sandseal_host.tuning.tune import tune as tune_model
    from sandseal_host.tuning.tune import write_settings
    from sandseal_sdk.commands.publishing import load_policy
    from sandseal_signing.bundle import InMemory, open_bundle
    from sandseal_signing.seal import SealReader
    from sandseal_signing.verdict import Moment

    if goal not in [*Goal]:
        raise typer.BadParameter("give latency or throughput", param_hint="--goal")
    arrivals = read_profile(profile)
    with bundle.open("rb") as file:
        opened = open_bundle(SealReader(file), load_policy(trust), lambda _: Moment.current(), InMemory())

    def progress(candidate: Candidate, outcome: Outcome) -> None:
        named = zip((*Candidate.COLUMNS, *Outcome.COLUMNS), (*candidate.cells(), *outcome.cells()), strict=True)
        note(", ".join(f"{name} {value}" for name, value in named))

    tuned = tune_model(
        opened,
        arrivals,
        Device.parse(device),
        Goal(goal),
        seconds=seconds,
        progress=progress,
        exhaustive=exhaustive,
    )
    write_settings(output, opened, tuned.best[0], Goal(goal))
    rows = [[*c.cells(), *outcome.cells(), "*" * (c == tuned.best[0])] for c, outcome in tuned.trials]
    table(f"best for {goal}: *", [*Candidate.COLUMNS, *Outcome.COLUMNS, ""], rows)
    out.print(f"{output}  SANDSEAL_SERVING={output} SANDSEAL_THREADS={tuned.best[0].threads} sandseal serve ...")


def token_reset(
    data: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The host's data folder.")] = Path(
        "sandseal-data"
    ),
) -> None:
    """Replace the operator's token, on the host's own machine; for when it was lost."""
    from sandseal_host.registry.catalog import Catalog
    from sandseal_host.registry.tokens import Tokens

    with Catalog(f"sqlite:///{data / 'catalog.sqlite'}") as catalog:
        out.print(str(Tokens(catalog).reset(data / "operator.token")))


def log_rotate(
    role: Annotated[str, typer.Argument(metavar="log|receipt", help="Which of the host's keys.")],
    data: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The host's data folder.")] = Path(
        "sandseal-data"
    ),
) -> None:
    """Replace one of the host's own keys, on its own machine while it is stopped; the log says so."""
    from sandseal_host.registry.blobs import BlobStore
    from sandseal_host.registry.catalog import Catalog
    from sandseal_host.registry.keyring import Keyring
    from sandseal_host.registry.rotation import open_log, rotate
    from sandseal_host.settings import read_settings
    from sandseal_signing.logentry import Role

    if role not in [*Role]:
        raise typer.BadParameter("give log or receipt", param_hint="ROLE")
    settings = read_settings(data=data)
    url = settings.catalog_url or f"sqlite:///{data / 'catalog.sqlite'}"
    with BlobStore(data / "blobs"), Catalog(url) as catalog:  # while the store is locked, no host runs
        keyring = Keyring(data / "keys")
        rotate(open_log(catalog, keyring), keyring, Role(role), "operator")
    out.print((data / "keys" / f"{role}.pub").read_text(encoding="ascii").strip(), markup=False)


def _serve(settings: "Settings", started: Started) -> None:
    from sandseal_host.observe.logs import configure_logging

    configure_logging(json=settings.log_format == "json", level=settings.log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_host(settings, started))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Uvloop's where it is installed; it does not exist for Windows."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _host(settings: "Settings", started: Started) -> None:
    from sandseal_host.api.server import serve as serve_http
    from sandseal_host.api.tls import tls_files
    from sandseal_host.app import Host

    tls = tls_files(settings)
    host = Host(settings)
    over_grpc = await _serve_grpc(host, settings, tls)
    restoring = asyncio.ensure_future(host.start())
    tasks: set[asyncio.Future[Any]] = {restoring}
    scheme = "https" if tls else "http"

    def listening(address: str, port: int) -> None:
        shown = f"[{address}]" if ":" in address else address
        tasks.add(asyncio.ensure_future(asyncio.to_thread(started, f"{scheme}://{shown}:{port}", host.new_token_file)))

    try:
        await serve_http(host.asgi, settings, tls=tls, listening=listening, stopping=host.stopping)
        await asyncio.gather(*tasks)
    finally:
        if over_grpc is not None:
            await over_grpc.stop(settings.drain_s)
        await host.stop()


async def _serve_grpc(host: "Host", settings: "Settings", tls: "TlsFiles | None") -> Any:
    """The gRPC server, where the settings want one."""
    if settings.grpc_port is None:
        return None
    from sandseal_host.api.grpc.server import serve_grpc

    server, port = await serve_grpc(host.asgi.endpoint, host=settings.host, port=settings.grpc_port, tls=tls)
    note(f"gRPC on port {port}")
    return server


def _curl(url: str, manifest: "Manifest", request: Path) -> str:
    """A curl line that the model answers: zeros in the shapes that it takes, in a file when they are many."""
    inputs = []
    for spec in manifest.inputs:
        shape = [axis if isinstance(axis, int) else 1 for axis in spec.shape]
        filler: Any = {"BYTES": "", "BOOL": False}.get(spec.dtype, 0)
        inputs.append({"name": spec.name, "datatype": spec.dtype, "shape": shape, "data": [filler] * prod(shape)})
    body = json.dumps({"inputs": inputs})
    if any(len(tensor["data"]) > _INLINE_ELEMENTS for tensor in inputs):
        request.write_text(body, encoding="utf-8")
        body = f"@{request}"
    return f"curl -s {url}/v2/models/{manifest.name}/infer -d '{body}'"
