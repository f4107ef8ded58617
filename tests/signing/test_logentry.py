import json
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rfc8785 import dumps

from sandseal_signing.digest import Digest
from sandseal_signing.errors import JsonInvalid, LogEntryInvalid
from sandseal_signing.logentry import MAX_BYTES, MAX_TEXT, Detail, Kind, LogEntry, Role, Subject, sentence
from support.keys import ed25519_key, p256_key

NOON = datetime(2026, 11, 30, 12, 0, 0, 250, UTC)
ID = Digest.of(b"statement")
BUNDLE = Subject(bundle=ID, name="acme.tiny", version=7)
OLD, NEW = ed25519_key("old"), ed25519_key("new")
ROTATION = LogEntry.rotation(Role.LOG, OLD, NEW, NOON, "operator", Detail(reason="yearly"))
ENTRIES = {
    "accept": LogEntry(
        Kind.ACCEPT,
        NOON,
        "token ci",
        BUNDLE,
        Detail(serial=12, rule=0, threshold=2, holders=("alice@acme", "bob@acme"), keys=(ID, Digest.of(b"key"))),
    ),
    "accept, by permit": LogEntry(Kind.ACCEPT, NOON, "token ci", BUNDLE, Detail(permit=Digest.of(b"permit"))),
    "reject": LogEntry(
        Kind.REJECT, NOON, "token ci", detail=Detail(code="json_invalid", reason="it is not strict JSON")
    ),
    "reject, with its id": LogEntry(Kind.REJECT, NOON, "token ci", Subject(bundle=ID)),
    "reject, with its name": LogEntry(Kind.REJECT, NOON, "token ci", BUNDLE),
    "pending": LogEntry(Kind.PENDING, NOON, "token ci", BUNDLE, Detail(threshold=2, holders=("alice@acme",))),
    "load": LogEntry(Kind.LOAD, NOON, "host", BUNDLE, Detail(serial=12, device="cuda:0")),
    "unload": LogEntry(Kind.UNLOAD, NOON, "host", BUNDLE, Detail(reason="replaced by version 8")),
    "revoke a key": LogEntry(Kind.REVOKE, NOON, "operator", Subject(key=ID)),
    "revoke a bundle": LogEntry(Kind.REVOKE, NOON, "operator", Subject(bundle=ID)),
    "revoke a file": LogEntry(Kind.REVOKE, NOON, "operator", Subject(blob=ID)),
    "policy": LogEntry(Kind.POLICY, NOON, "operator", Subject(serial=13, policy=ID)),
    "key rotation": ROTATION,
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_render_and_parse_are_inverses(entry: LogEntry) -> None:
    data = entry.render()
    assert LogEntry.parse(data) == entry
    assert LogEntry.parse(data).render() == data == dumps(json.loads(data))


def test_every_kind_and_every_member_is_in_the_examples() -> None:
    assert {entry.kind for entry in ENTRIES.values()} == set(Kind)
    for part, name in ((Subject, "subject"), (Detail, "detail")):
        used = {member for entry in ENTRIES.values() for member in json.loads(entry.render())[name]}
        assert used == {field.name for field in fields(part)}


def test_an_entry_is_canonical_json() -> None:
    assert json.loads(ENTRIES["accept"].render()) == {
        "schema": "sandseal.log/1",
        "kind": "accept",
        "time": "2026-11-30T12:00:00.000250Z",
        "actor": "token ci",
        "subject": {"bundle": ID.hex, "name": "acme.tiny", "version": 7},
        "detail": {
            "serial": 12,
            "rule": 0,
            "threshold": 2,
            "holders": ["alice@acme", "bob@acme"],
            "keys": [ID.hex, Digest.of(b"key").hex],
        },
    }
    assert ENTRIES["reject, with its id"].render() == (
        b'{"actor":"token ci","detail":{},"kind":"reject","schema":"sandseal.log/1",'
        b'"subject":{"bundle":"%b"},"time":"2026-11-30T12:00:00.000250Z"}' % ID.hex.encode()
    )


@settings(max_examples=100, deadline=None)
@given(
    st.datetimes(datetime(1000, 1, 2), timezones=st.timezones()),  # noqa: DTZ001 (hypothesis adds the zone)
    st.text(min_size=1).map(sentence).filter(bool),
    st.builds(
        Detail,
        reason=st.none() | st.text(min_size=1).map(sentence).filter(bool),
        rule=st.none() | st.integers(0, 2**53 - 1),
        holders=st.lists(st.text(min_size=1, max_size=20).map(sentence).filter(bool), max_size=3, unique=True).map(
            tuple
        ),
    ),
)
def test_whatever_a_host_has_to_say_is_an_entry(time: datetime, actor: str, detail: Detail) -> None:
    entry = LogEntry(Kind.LOAD, time, actor, BUNDLE, detail)
    read = LogEntry.parse(entry.render())
    assert read == replace(entry, time=time.astimezone(UTC))
    assert read.render() == entry.render()


def test_times_are_written_in_utc() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=9)))
    assert replace(ROTATION, time=east).render() == ROTATION.render()
    with pytest.raises(LogEntryInvalid, match="time: has no zone"):
        replace(ENTRIES["load"], time=NOON.replace(tzinfo=None)).render()


# What is no entry.


def parse(entry: LogEntry, change: Callable[[dict[str, Any]], Any]) -> LogEntry:
    document = json.loads(entry.render())
    change(document)
    return LogEntry.parse(dumps(document))


LOAD, REVOKE, POLICY = ENTRIES["load"], ENTRIES["revoke a key"], ENTRIES["policy"]
CHANGES: dict[str, tuple[LogEntry, Callable[[dict[str, Any]], Any], str]] = {
    "another schema": (LOAD, lambda d: d.update(schema="sandseal.log/2"), "schema: must be"),
    "another member": (LOAD, lambda d: d.update(extra=1), "extra: is not a member"),
    "another kind": (LOAD, lambda d: d.update(kind="delete"), "kind: must be one of accept, reject"),
    "a kind that is no text": (LOAD, lambda d: d.update(kind=["load"]), "kind: must be"),
    "no actor": (LOAD, lambda d: d.pop("actor"), "actor: is missing"),
    "an empty actor": (LOAD, lambda d: d.update(actor=""), "actor: must be 1 to 500 printable"),
    "a control character": (LOAD, lambda d: d.update(actor="a\nb"), "actor: must be"),
    "a text too long": (LOAD, lambda d: d.update(actor="a" * (MAX_TEXT + 1)), "actor: must be"),
    "a time without fraction": (LOAD, lambda d: d.update(time="2026-11-30T12:00:00Z"), "time: must be"),
    "a time with offset": (LOAD, lambda d: d.update(time="2026-11-30T12:00:00.000000+00:00"), "time: must be"),
    "a day that is none": (LOAD, lambda d: d.update(time="2026-02-30T12:00:00.000000Z"), "not a time that exists"),
    "no subject": (LOAD, lambda d: d.pop("subject"), "subject: is missing"),
    "a load of nothing": (LOAD, lambda d: d["subject"].clear(), r"must have the members \[bundle, name, version\]"),
    "a load by name": (LOAD, lambda d: d["subject"].pop("bundle"), "must have the members"),
    "a load of a key": (LOAD, lambda d: d["subject"].update(key=ID.hex), "must have the members"),
    "another subject member": (LOAD, lambda d: d["subject"].update(extra=1), "must have the members"),
    "a null in the subject": (LOAD, lambda d: d["subject"].update(name=None), "name: must be"),
    "a name that is none": (LOAD, lambda d: d["subject"].update(name="A"), "name: must be"),
    "version 0": (LOAD, lambda d: d["subject"].update(version=0), "version: must be"),
    "an upper-case id": (LOAD, lambda d: d["subject"].update(bundle=ID.hex.upper()), "bundle: must be"),
    "two revoked at once": (REVOKE, lambda d: d["subject"].update(blob=ID.hex), r"\[key\] or \[bundle\] or \[blob\]"),
    "a policy without serial": (POLICY, lambda d: d["subject"].pop("serial"), "must have the members"),
    "no detail": (LOAD, lambda d: d.pop("detail"), "detail: is missing"),
    "another detail": (LOAD, lambda d: d["detail"].update(body="..."), "detail.body: is not a member"),
    "a code with spaces": (LOAD, lambda d: d["detail"].update(code="a b"), "code: must be"),
    "holders that are none": (LOAD, lambda d: d["detail"].update(holders=[]), "is not in canonical form"),
    "a holder twice": (LOAD, lambda d: d["detail"].update(holders=["a", "a"]), "holds a string twice"),
    "a reason that is null": (LOAD, lambda d: d["detail"].update(reason=None), "reason: must be"),
    "signatures on a load": (LOAD, lambda d: d.update(signatures=["A" * 86 + "=="]), "signatures: is not a member"),
}


@pytest.mark.parametrize(("entry", "change", "why"), CHANGES.values(), ids=CHANGES)
def test_what_is_no_entry(entry: LogEntry, change: Callable[[dict[str, Any]], Any], why: str) -> None:
    with pytest.raises(LogEntryInvalid, match=why):
        parse(entry, change)


def test_an_entry_has_one_form_only() -> None:
    data = LOAD.render()
    for other in (data + b"\n", json.dumps(json.loads(data)).encode(), data.replace(b"acme", b"\\u0061cme")):
        with pytest.raises(LogEntryInvalid, match="is not in canonical form"):
            LogEntry.parse(other)
    with pytest.raises(JsonInvalid, match="stands twice"):
        LogEntry.parse(data[:-1] + b',"kind":"load"}')
    with pytest.raises(LogEntryInvalid, match="over 65536"):
        LogEntry.parse(bytes(MAX_BYTES + 1))


def test_what_parse_refuses_is_never_rendered() -> None:
    for entry in (
        replace(LOAD, actor=""),
        replace(LOAD, kind=Kind.REVOKE),
        replace(LOAD, subject=replace(BUNDLE, version=0)),
        replace(LOAD, signatures=(bytes(64),)),
        replace(ROTATION, signatures=()),
    ):
        with pytest.raises(LogEntryInvalid):
            entry.render()


# Never a secret.

SECRETS = [
    OLD.pem().decode(),
    "Authorization: Bearer 0123456789abcdef0123456789abcdef",
    "sst_cXVpdGUgYSBzZWNyZXQgdG9rZW4gb2YgYSBob3N0",
]


@pytest.mark.parametrize("secret", SECRETS, ids=["key", "header", "token"])
def test_secrets_are_taken_out_of_sentences_and_refused_in_entries(secret: str) -> None:
    text = sentence(f"the host met {secret}")
    assert "[removed]" in text
    assert not any(part in text for part in secret.split()[-2:])
    for entry in (replace(LOAD, actor=secret.replace("\n", " ")), replace(LOAD, detail=Detail(reason=secret[:400]))):
        with pytest.raises(LogEntryInvalid, match="without key or token"):
            entry.render()
    assert replace(LOAD, detail=Detail(reason=text)).render()


@given(st.text())
def test_a_sentence_is_printable_short_and_stays_as_it_is(text: str) -> None:
    shown = sentence(text)
    assert shown.isprintable()
    assert len(shown) <= MAX_TEXT
    assert sentence(shown) == shown


def test_a_sentence_keeps_what_is_no_secret() -> None:
    assert sentence("a bearer token is missing; name 'a\tb\ud800'") == "a bearer token is missing; name 'a\\tb\\ud800'"


# Key rotation.


def test_a_rotation_is_signed_by_both_keys() -> None:
    document = json.loads(ROTATION.render())
    assert document["subject"] == {"role": "log", "old": OLD.public.inline, "new": NEW.public.inline}
    assert len(document["signatures"]) == 2
    assert LogEntry.rotation(Role.RECEIPT, OLD, NEW, NOON, "operator").render()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d["signatures"].reverse(), "are not by the old and the new key"),
        (lambda d: d.update(actor="somebody else"), "are not by the old and the new key"),
        (lambda d: d["subject"].update(role="receipt"), "are not by the old and the new key"),
        (lambda d: d["subject"].update(new=ed25519_key("third").public.inline), "are not by the old and the new key"),
        (lambda d: d["subject"].update(old=ed25519_key("third").public.inline), "are not by the old and the new key"),
        (lambda d: d["subject"].update(new=d["subject"]["old"]), "new: is the old key"),
        (lambda d: d["subject"].update(new="ed25519:AAAA"), "new: not a public key"),
        (lambda d: d["subject"].update(new="ed25519:" + "A" * 43 + "="), "new: this Ed25519 key is refused"),
        (lambda d: d["subject"].update(new=p256_key("x").public.pem), "new: must be ed25519:"),
        (lambda d: d["subject"].update(role="token"), "role: must be log or receipt"),
        (lambda d: d.pop("signatures"), "signatures: is missing"),
        (lambda d: d["signatures"].pop(), "signatures: must hold at least 2"),
        (lambda d: d["signatures"].append("A" * 86 + "=="), "signatures: must be two"),
        (lambda d: d["signatures"].append(d["signatures"].pop(0)[:-2]), "signatures: must be a list of Ed25519"),
    ],
)
def test_what_is_no_rotation(change: Callable[[dict[str, Any]], Any], why: str) -> None:
    with pytest.raises(LogEntryInvalid, match=why):
        parse(ROTATION, change)


def test_only_ed25519_keys_rotate() -> None:
    with pytest.raises(LogEntryInvalid, match="new: must be ed25519:"):
        LogEntry.rotation(Role.LOG, OLD, p256_key("x"), NOON, "operator").render()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*ENTRIES.values()]), st.data())
def test_no_changed_byte_passes_for_the_same_entry(entry: LogEntry, data: st.DataObject) -> None:
    rendered = entry.render()
    at = data.draw(st.integers(0, len(rendered) - 1))
    changed = rendered[:at] + bytes([data.draw(st.integers(0, 255))]) + rendered[at + 1 :]
    try:
        assert LogEntry.parse(changed).render() == changed
    except (LogEntryInvalid, JsonInvalid):
        assert changed != rendered
