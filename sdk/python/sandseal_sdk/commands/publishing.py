"""For publishers: keygen, init, pack, sign, show."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sandseal_sdk.bundles.keyfiles import read_private_key, write_key_pair
from sandseal_sdk.console import byte_progress, note, out, table
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import KeyInvalid, PolicyInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import Contents, list_folder, pack_folder, read_seal, sign_seal
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Verdict

SealFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A .seal file.")]
Keys = Annotated[list[Path], typer.Option("--key", help="Private key to sign with; may be given several times.")]
OmsKeys = Annotated[
    list[Path], typer.Option("--oms-key", help="P-256 or P-384 key, for a co-signature that stock OMS tools verify.")
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (keygen, init, pack, sign, show):
        app.command()(command)


def keygen(
    name: Annotated[Path, typer.Argument(help="Writes NAME.key and NAME.pub.")],
    algorithm: Annotated[str, typer.Option(help="ed25519, or ecdsa-p256 for a co-signature.")] = "ed25519",
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase to encrypt the key.")] = False,
) -> None:
    """Make a key pair."""
    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True).encode() if passphrase else None
    key = PrivateKey.generate(algorithm)
    private, public = write_key_pair(name, key, secret)
    note(f"private key: {private} (keep it)   public key: {public} (give it to the operator)")
    out.print(f"public = {key.public.inline!r}" if algorithm == "ed25519" else f"hint {key.public.hint}")


def init(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An ONNX file, or a pipeline's TOML.")],
    name: Annotated[str | None, typer.Option(help="The model's name; made from the file's when absent.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Where to; a folder called after the name.")] = None,
    pre: Annotated[str | None, typer.Option(help="Runs before the model: a plugin's folder, or sandseal:NAME.")] = None,
    post: Annotated[str | None, typer.Option(help="Runs after the model: likewise.")] = None,
    asset: Annotated[list[str], typer.Option(help="NAME=FILE, for an asset that a plugin asks for.")] = [],  # noqa: B006
) -> None:
    """Write a bundle folder, a key pair and a trust policy for an ONNX model or a pipeline, ready to pack and push.

    sandseal:NAME is a plugin that comes with Sandseal, such as sandseal:image-classification.
    """
    from sandseal_sdk import publish
    from sandseal_sdk.first_party import ready_plugin

    name = name or publish.name_of(model)
    to = folder or Path(name)
    if model.suffix == ".toml":
        from sandseal_sdk.pipeline_file import write_pipeline

        made = publish.open_workspace(write_pipeline(model, to / "bundle", name=name, progress=note), to)
    else:
        made = publish.init(
            model,
            to,
            name=name,
            pre=ready_plugin(pre, "pre", note) if pre else None,
            post=ready_plugin(post, "post", note) if post else None,
            assets={name: Path(file) for name, _, file in (given.partition("=") for given in asset)},
        )
    note("next:")
    out.print(f"sandseal pack {made.bundle} --key {made.key}")
    out.print(f"sandseal serve --trust {made.trust}")


def pack(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Holds bundle.json and its files.")],
    key: Keys = [],  # noqa: B006  # typer reads the default, nobody changes it
    oms_key: OmsKeys = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--out", "-o", help="The .seal file; NAME-VERSION.seal.")] = None,
) -> None:
    """Pack a folder into a .seal file; sign it in the same step when a key is given."""
    keys = _read_keys(key, oms_key)
    total = sum((folder / name).stat().st_size for name in list_folder(folder))
    partial = (output or folder).with_suffix(".seal.partial")
    try:
        with partial.open("wb") as file, byte_progress("packing", 2 * total) as advance:
            contents = pack_folder(folder, file, keys, advance, threads=os.cpu_count() or 1)
        manifest = contents.manifest
        sealed = output or folder.with_name(f"{manifest.name}-{manifest.version}.seal")
        partial.replace(sealed)
    finally:
        partial.unlink(missing_ok=True)
    _report(sealed, contents)


def sign(
    seal: SealFile,
    key: Keys = [],  # noqa: B006
    oms_key: OmsKeys = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Instead of changing the file.")] = None,
    detached: Annotated[
        Path | None, typer.Option(help="Write the one signature here, for `sandseal push`; the .seal stays as it is.")
    ] = None,
) -> None:
    """Add signatures to a .seal file; the bundle id stays the same."""
    keys = _read_keys(key, oms_key)
    if not keys:
        raise KeyInvalid("there is no key to sign with", hint="give --key, --oms-key or both")
    if detached:
        _sign_detached(seal, keys, detached)
        return
    partial = seal.with_suffix(".seal.partial")
    try:
        with (
            seal.open("rb", buffering=0) as source,
            partial.open("wb") as file,
            byte_progress("signing", 2 * seal.stat().st_size) as advance,
        ):
            contents = sign_seal(source, file, keys, advance)
        partial.replace(output or seal)
    finally:
        partial.unlink(missing_ok=True)
    _report(output or seal, contents)


def show(seal: SealFile) -> None:
    """Show what a .seal file holds and who signed it; trusts nobody and says nothing about trust."""
    with seal.open("rb", buffering=0) as file, byte_progress("reading", seal.stat().st_size) as advance:
        contents = read_seal(file, advance)
    manifest = contents.manifest
    out.print(f"{manifest.name} version {manifest.version} {manifest.release}".rstrip())
    rows = [[r.name, str(r.size), r.digest.hex[:16]] for r in contents.statement.in_transfer_order]
    table("", ["file", "bytes", "sha256"], rows)
    for side, specs in (("input", manifest.inputs), ("output", manifest.outputs)):
        for spec in specs:
            out.print(f"{side:>6}  {spec.name}  {spec.dtype}  {list(spec.shape)}")
    for step in manifest.pipeline.steps if manifest.pipeline else ():
        what = step.stage.plugin if step.stage else f"model {step.model} {step.bundle[:16]}".rstrip()
        out.print(f"  step  {step.name}: {what}, from {', '.join(map(str, step.sources))}")
    _report(seal, contents)


def load_policy(path: Path) -> TrustPolicy:
    """Read a trust file and the key files that it names.

    Raises:
        PolicyInvalid: unreadable or not a trust policy.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyInvalid(f"cannot read {path}: {error}") from None
    return TrustPolicy.parse(text, key_reader(path))


def key_reader(path: Path) -> Callable[[str], str]:
    """Reads the key files that a trust file names, which lie beside it."""
    return lambda name: (path.parent / name).read_text(encoding="ascii")


def print_verdict(verdict: Verdict) -> None:
    """Print a verdict's reasons, one a line."""
    for reason in verdict.reasons:
        out.print(f"{'ok ' if reason.holds else 'NO '} {reason.check}: {reason.detail}", markup=False)


def _read_keys(key: list[Path], oms_key: list[Path]) -> list[PrivateKey]:
    """The keys to sign with; those for stock OMS tools are of a kind that these know."""
    co_keys = {path: read_key(path) for path in oms_key}
    for path, co_key in co_keys.items():
        if co_key.public.algorithm == "ed25519":
            raise KeyInvalid(
                f"{path} holds an Ed25519 key, which stock OMS tools cannot verify",
                hint="`sandseal keygen NAME --algorithm ecdsa-p256` makes one that they can; this one goes with --key",
            )
    return [*(read_key(path) for path in key), *co_keys.values()]


def read_key(path: Path) -> PrivateKey:
    """Read a private key, asking for its passphrase when it has one."""
    return read_private_key(path, lambda: str(typer.prompt(f"Passphrase of {path}", hide_input=True, err=True)))


def _sign_detached(seal: Path, keys: list[PrivateKey], path: Path) -> None:
    if len(keys) != 1:
        raise KeyInvalid(f"{len(keys)} keys for one signature file", hint="sign once per key, each into its own file")
    with seal.open("rb", buffering=0) as file, byte_progress("reading", seal.stat().st_size) as advance:
        contents = read_seal(file, advance)
    path.write_bytes(Envelope.sign(contents.payload, keys[0]).render())
    note(f"signed {contents.manifest.name} version {contents.manifest.version}; next: sandseal push {path}")
    out.print(f"{path}  bundle {contents.id}")


def _report(seal: Path, contents: Contents) -> None:
    signers = [Envelope.parse(data, name).hint[:16] for name, data in contents.signatures.items()]
    note(f"signed by {', '.join(signers)}" if signers else "not signed yet: `sandseal sign` it before the push")
    out.print(f"{seal}  bundle {contents.id}")
