"""signing/README.md is normative, so what it shows is what the code does."""

import json
import re
from pathlib import Path

import pytest

from sandseal_signing import bundle, envelope, errors, manifest, permit, schema, statement, trust
from sandseal_signing.trust import TrustPolicy
from support.bundles import trust_text
from support.keys import ed25519_key
from support.worked_example import FILES, README, packed, rewrite

TEXT = README.read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"^## ", TEXT.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def test_the_worked_example_and_the_table_of_errors_are_up_to_date() -> None:
    assert TEXT.count("<!-- generated: ") == 8
    assert rewrite(TEXT) == TEXT, "run: python tests/support/worked_example.py"


def test_the_example_of_use_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", section("Use"), re.DOTALL)
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    key = ed25519_key("alice")
    (tmp_path / "trust.toml").write_text(trust_text({"alice": key}))
    monkeypatch.setattr("sandseal_signing.keys.PrivateKey.generate", lambda: key)
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "README.md", "exec"), {})
    bundle_id = packed()[0].id
    assert capsys.readouterr().out == f"{bundle_id}\nacme.tiny ['alice@acme'] accepted\n"


def test_the_trust_policy_shown_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", section("Trust policy"), re.DOTALL)
    text += "".join(
        f'[keys.{name}]\nholder = "{name}"\npublic = "keys/{name}.pub"\n' for name in ("bob", "ops1", "ops2")
    )
    policy = TrustPolicy.parse(text, lambda name: ed25519_key(name).public.pem)
    assert policy.rules[0].max_limits == trust.MaxLimits()
    assert policy.rules[0].threshold == 2


def test_the_limits_shown_are_the_limits() -> None:
    limits = section("Limits")
    assert f"{envelope.MAX_SIGNATURES}, {envelope.MAX_FILE_BYTES >> 20} MiB each" in limits
    assert f"{envelope.MAX_SIGNATURE_BYTES >> 20} MiB together" in limits
    assert f"{statement.MAX_BYTES >> 20} MiB, {statement.MAX_RESOURCES:,} files" in limits
    assert f"| `bundle.json` | {manifest.MAX_BYTES >> 10} KiB" in limits
    assert f"| a plugin | {manifest.MAX_PLUGIN_BYTES >> 20} MiB" in limits
    assert f"default {trust.MaxLimits().total_mib:,}" in limits
    assert f"{schema.MAX_DEPTH} levels" in limits
    assert f"| a trust policy | {trust.MAX_BYTES >> 20} MiB" in limits
    assert f"| a permit | {permit.MAX_BYTES >> 10} KiB" in limits


def test_every_code_shown_exists_and_every_member_of_the_manifest_is_shown() -> None:
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
    shown = set(
        re.findall(
            r"`((?:[a-z]+_)(?:invalid|missing|mismatch|unexpected|exceeded|truncated|refused|unknown|unsafe))`", TEXT
        )
    )
    assert shown <= codes
    assert {"key_invalid", "policy_refused"} <= shown
    properties = bundle_schema()["properties"] | bundle_schema()["$defs"]["model"]["properties"]
    assert all(f"{name}`" in section("bundle.json") or f"{name}." in section("bundle.json") for name in properties)


def bundle_schema() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((README.parent / "bundle.schema.json").read_text())
    return found


def test_the_steps_are_numbered_as_in_the_code() -> None:
    source = Path(bundle.__file__).read_text(encoding="utf-8")
    in_code = [int(n) for line in re.findall(r"# ([\d, ]+)\. .*", source) for n in re.findall(r"\d+", line)]
    in_code += [int(n) for n in re.findall(r"# .*\. (\d+)\. ", source)]
    assert sorted(in_code) == list(range(1, 12))
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", section("Order of checks"), re.MULTILINE)] == list(range(1, 12))
