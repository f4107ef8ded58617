"""For clients: call."""

import json
import mimetypes
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sandseal_sdk.commands.connection import ContextName, connect
from sandseal_sdk.console import note, out
from sandseal_sdk.hosts.inference import lead_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(call)


def call(
    model: Annotated[str, typer.Argument(help="The model's name.")],
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="The input; standard input when absent.")
    ] = None,
    content_type: Annotated[str | None, typer.Option(help="Guessed from the file's name when absent.")] = None,
    version: Annotated[int | None, typer.Option(help="A version; the one that serves when absent.")] = None,
    parameter: Annotated[
        list[str], typer.Option(metavar="NAME=VALUE", help="For the model's plugins and the host; several allowed.")
    ] = [],  # noqa: B006
    service_class: Annotated[
        str | None, typer.Option("--class", help="realtime, standard or batch; the host's default when absent.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which host and client give up.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="Where to keep the host's receipt and, beside it, the answer.")
    ] = None,
    context: ContextName = "default",
) -> None:
    """Send a file to a model that takes one, and print its answer as JSON."""
    body = file.read_bytes() if file else sys.stdin.buffer.read()
    kind = content_type or mimetypes.guess_type(file.name if file else "")[0] or "application/octet-stream"
    parameters = dict(map(_read_parameter, parameter))
    if service_class is not None:
        parameters["sandseal.class"] = service_class
    if timeout is not None:
        parameters["timeout"] = int(timeout * 1e6)  # the protocol's microseconds
    with connect(context) as client:
        if receipt is None:
            answer = client.call(model, body, kind, version=version, parameters=parameters, timeout=timeout)
            out.print_json(json.dumps(answer))
            return
        nonce = secrets.token_urlsafe(16)
        answered, signed = client.call_with_receipt(
            model, body, nonce, kind, version=version, parameters=parameters, timeout=timeout
        )
    kept = {side: receipt.with_name(f"{receipt.name}.{side}") for side in ("request", "response")}
    receipt.write_bytes(signed)
    kept["response"].write_bytes(answered)
    if parameters:  # then the request is more than the file
        kept["request"].write_bytes(lead_of(parameters) + body)
    out.print_json(answered.decode())
    note(f"verify it: sandseal receipt verify {receipt} --key KEY --response {kept['response']} --nonce {nonce}")


def _read_parameter(written: str) -> tuple[str, Any]:
    """A parameter by name; what is a number, a boolean or a text in JSON is one, anything else a text."""
    name, given, value = written.partition("=")
    if not (name and given):
        raise typer.BadParameter(f"{written!r} is not NAME=VALUE", param_hint="--parameter")
    try:
        read = json.loads(value, parse_constant=str)
    except ValueError:
        return name, value
    return name, read if isinstance(read, bool | int | float | str) else value
