"""For operators: trust new, add, list, check, explain, revoke, sign, replace, permit."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sandseal_sdk import publish
from sandseal_sdk.bundles.keyfiles import read_public_key
from sandseal_sdk.bundles.trust_file import Enrolment, enrol
from sandseal_sdk.commands.connection import ContextName, connect
from sandseal_sdk.commands.permit import permit
from sandseal_sdk.commands.publishing import key_reader, load_policy, read_key
from sandseal_sdk.console import note, out, table
from sandseal_sdk.errors import FileExists
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.errors import PolicyInvalid
from sandseal_signing.explain import explain
from sandseal_signing.keys import PublicKey
from sandseal_signing.policy_audit import Level, audit_policy
from sandseal_signing.policy_data import policy_data
from sandseal_signing.trust import TrustedKey, TrustPolicy

TrustFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A trust policy file.")]
Offline = Annotated[
    Path | None, typer.Option("--trust", exists=True, dir_okay=False, help="Ask this file instead of the host.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="See, check and change who is trusted.", no_args_is_help=True)
    for command in (new, add, check, explain_key, list_policy, permit, replace, revoke, sign):
        group.command({"explain_key": "explain", "list_policy": "list"}.get(command.__name__, command.__name__))(
            command
        )
    app.add_typer(group, name="trust")


def new(
    path: Annotated[Path, typer.Argument(help="The trust policy file to write; must not be there yet.")],
    bundle: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="A bundle folder; its name, limits and domains are let.")
    ],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The publisher's public key.")],
    holder: Annotated[str, typer.Option(help="The person or team that holds it.")] = "me",
) -> None:
    """Write a trust file by which one key may publish what a bundle folder holds, and nothing more."""
    if path.exists():
        raise FileExists(f"{path} is already there", hint="`sandseal trust add` enrols a key in it")
    publish.write_trust(path, bundle, {"publisher": read_public_key(key)}, holder=holder)
    note("next:")
    out.print(f"sandseal serve --trust {path}")


def add(
    path: TrustFile,
    name: Annotated[str, typer.Argument(help="What the policy calls the key.")],
    public: Annotated[str, typer.Argument(help="A .pub file, or ed25519:<base64>.")],
    holder: Annotated[str, typer.Option(help="The person or team; thresholds count these, not keys.")],
    rule: Annotated[list[int], typer.Option(help="Number of a rule that shall name the key.")] = [],  # noqa: B006
    models: Annotated[list[str], typer.Option(help="Pattern for a new rule of its own.")] = [],  # noqa: B006
    until: Annotated[datetime | None, typer.Option(help="When the key ends, in UTC.")] = None,
) -> None:
    """Enrol a key in a trust file and raise its serial; the host takes it up by itself."""
    text = public if public.startswith("ed25519:") else Path(public).read_text(encoding="ascii")
    key = TrustedKey(name, holder, PublicKey.parse(text), until.replace(tzinfo=UTC) if until else None)
    changed = enrol(path.read_text(encoding="utf-8"), key_reader(path), Enrolment(key, rule, tuple(models)))
    _write(path, changed)
    note(f"{name} of {holder} is enrolled; `sandseal trust check {path}` looks for trouble")
    out.print(f"{path}: serial {TrustPolicy.parse(changed, key_reader(path)).serial}")


def check(path: TrustFile) -> None:
    """Look for what is wrong or soon will be: shadowed rules, unreachable thresholds, keys that end."""
    policy = load_policy(path)
    findings = audit_policy(policy, datetime.now(UTC))
    for finding in findings:
        out.print(f"{finding.level:>7}  {finding.where}: {finding.text}", markup=False)
    out.print(f"{path}: serial {policy.serial}, {len(policy.keys)} keys, {len(policy.rules)} rules, valid")
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)


def explain_key(
    model: Annotated[str | None, typer.Argument(help="A model's name; it need not exist.")] = None,
    key: Annotated[str | None, typer.Argument(help="A key's name, fingerprint, .pub file, or ed25519:...")] = None,
    bundle: Annotated[str | None, typer.Option(help="Ask about a bundle that the host has, by its id.")] = None,
    trust: Offline = None,
    context: ContextName = "default",
) -> None:
    """Say whether a key's signature counts for a model, or a bundle may run, and every reason."""
    if bundle is None and (model is None or key is None):
        raise typer.BadParameter("give a model and a key, or --bundle")
    if bundle is not None:
        with connect(context) as client:
            _print_tree(client.explain(bundle=bundle))
        return
    asked = Path(str(key)).read_text(encoding="ascii") if str(key).endswith(".pub") else str(key)
    if trust:
        _print_tree(explain(load_policy(trust), str(model), asked, datetime.now(UTC)).as_data())
        return
    with connect(context) as client:
        _print_tree(client.explain(name=str(model), key=asked))


def list_policy(trust: Offline = None, context: ContextName = "default") -> None:
    """Show the keys, rules and revocations in force."""
    if trust:
        policy: dict[str, Any] = {**policy_data(load_policy(trust)), "problem": None, "permits": []}
    else:
        with connect(context) as client:
            policy = {**client.trust(), "permits": client.permits()}
    keys = [
        [k["name"], k["holder"], k["fingerprint"][:16], k["not_after"] or "", "revoked" if k["revoked"] else ""]
        for k in policy["keys"]
    ]
    table("keys", ["name", "holder", "fingerprint", "until", ""], keys)
    rules = [
        [str(number), " ".join(r["models"]), " ".join(r["keys"]), str(r["threshold"]), " ".join(r["imports"])]
        for number, r in enumerate(policy["rules"])
    ]
    table("rules", ["rule", "models", "keys", "threshold", "imports"], rules)
    for kind, digests in policy["revoked"].items():
        for digest in digests:
            out.print(f"revoked {kind.removesuffix('s')} {digest}")
    for one in policy["permits"]:
        out.print(f"permit for {one['name']} to bundle {one['to_bundle']}: {one['problem'] or 'open'}", markup=False)
    if policy["problem"]:
        note(f"the file on the host's disk is not in force: {policy['problem']}")
    out.print(f"serial {policy['serial']}")


def revoke(
    target: Annotated[str, typer.Argument(metavar="key|bundle|blob", help="What to revoke.")],
    digest: Annotated[str, typer.Argument(help="A key's name or fingerprint, a bundle's id, a file's SHA-256.")],
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    context: ContextName = "default",
) -> None:
    """Revoke for ever; models that fall under it stop at once."""
    with connect(context) as client:
        if target == "key":
            named = {key["name"]: key["fingerprint"] for key in client.trust()["keys"]}
            digest = named.get(digest, digest)
        withdrawn = client.revoke(target, digest, reason)
    for model in withdrawn:
        out.print(f"{model['name']} version {model['version']} stopped: {model['reason']}", markup=False)
    note(f"{target} {digest} is revoked")


def sign(
    path: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A trust file, or an envelope over one.")],
    key: Annotated[list[Path], typer.Option(help="A root key; may be given several times.")],
    output: Annotated[Path | None, typer.Option("--out", "-o", help="The envelope; beside the file.")] = None,
) -> None:
    """Sign a trust file that holds its keys inline, for `sandseal trust replace`."""
    data = path.read_bytes()
    document = Document.parse(data, TRUST_TYPE, str(path)) if data.startswith(b"{") else Document(data, TRUST_TYPE)
    TrustPolicy.parse(document.payload.decode(), _no_files)
    written = output or path.with_suffix(".dsse")
    written.write_bytes(document.sign([read_key(one) for one in key]).render())
    out.print(str(written))


def replace(
    envelope: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What `sandseal trust sign` wrote.")],
    context: ContextName = "default",
) -> None:
    """Put a policy in force on the host that enough holders of its [root] have signed."""
    with connect(context) as client:
        policy = client.replace_trust(envelope.read_bytes())
    out.print(f"serial {policy['serial']} is in force")


def _print_tree(branch: dict[str, Any], depth: int = 0) -> None:
    mark = {True: "yes", False: "NO ", None: " - "}[branch["holds"]]
    out.print(f"{'   ' * depth}{mark} {branch['text']}", markup=False)
    for below in branch["branches"]:
        _print_tree(below, depth + 1)


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


def _no_files(name: str) -> str:
    raise PolicyInvalid(f"the policy names the key file {name!r}", hint="write its keys inline: 'ed25519:...'")
