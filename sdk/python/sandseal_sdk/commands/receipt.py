"""For clients: verify a receipt offline."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.console import out
from sandseal_signing.digest import Digest
from sandseal_signing.errors import ReceiptInvalid
from sandseal_signing.keys import PublicKey
from sandseal_signing.logentry import render_time
from sandseal_signing.receipt import Receipt, verify_receipt

Body = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="The body, without content coding.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    receipt = typer.Typer(help="Verify what a host signed about an answer.", no_args_is_help=True)
    receipt.callback()(lambda: None)  # keeps `verify` a command of its own
    receipt.command()(verify)
    app.add_typer(receipt, name="receipt")


def verify(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The Sandseal-Receipt header's value.")],
    key: Annotated[str, typer.Option(help="The host's receipt key (ed25519:...) or a file of it.")],
    request: Body = None,
    response: Body = None,
    nonce: Annotated[str | None, typer.Option(help="The nonce that was sent.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Verify a receipt's signature, and that it is about these bodies where they are given; needs no host."""
    public = PublicKey.parse(key) if key.startswith("ed25519:") else read_public_key(Path(key))
    receipt = verify_receipt(file.read_bytes().strip(), public)
    _check("request", receipt.request, request)
    _check("response", receipt.response, response)
    if nonce is not None and nonce != receipt.nonce:
        raise ReceiptInvalid(f"the receipt has the nonce {receipt.nonce!r}, not {nonce!r}")
    facts = _facts(receipt)
    if as_json:
        out.print_json(json.dumps(facts))
        return
    for name, value in facts.items():
        out.print(f"{name:<10} {value}", markup=False)
    for name, body in (("request", request), ("response", response)):
        out.print(f"{'ok' if body else '--'}  the {name}'s body was {'' if body else 'not '}compared", markup=False)


def _check(name: str, signed: Digest, body: Path | None) -> None:
    if body is not None and Digest.of(body.read_bytes()) != signed:
        raise ReceiptInvalid(
            f"{body} is not the {name} that the receipt is about", hint="give the body's bytes as they were sent"
        )


def _facts(receipt: Receipt) -> dict[str, str]:
    return {
        "bundle": receipt.bundle.hex,
        **{f"{stage} plugin": digest.hex for stage, digest in receipt.plugins.items()},
        **{f"{step} bundle": bundle.hex for step, bundle in receipt.members.items()},
        "request": receipt.request.hex,
        "response": receipt.response.hex,
        "time": render_time(receipt.time),
        "class": receipt.service_class,
        "nonce": receipt.nonce,
        "log": f"{receipt.log.origin} of {receipt.log.head.size} entries, root {receipt.log.head.root.hex()}",
    }
