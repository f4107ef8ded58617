import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_signing.digest import Digest
from sandseal_signing.errors import PolicyRefused
from sandseal_signing.manifest import Manifest, parse_manifest, render_manifest
from sandseal_signing.stage import Limits, StageSpec
from sandseal_signing.statement import Resource, Statement
from sandseal_signing.trust import MaxLimits, Revoked, Rule, TrustedKey, TrustPolicy
from sandseal_signing.verdict import Moment, State, Verdict, judge
from support.bundles import manifest
from support.keys import ed25519_key

NOW = datetime(2027, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ID = Digest.of(b"id")
STATEMENT = Statement.of(
    "x", [Resource(name, Digest.of(name.encode()), 1 << 20, "x/y") for name in ("bundle.json", "model.onnx", "p.wasm")]
)
MANIFEST = parse_manifest(render_manifest(manifest("acme.tiny", 5)))

ALICE, LAPTOP, BOB, CAROL, EVE = (
    TrustedKey(name, holder, ed25519_key(name).public)
    for name, holder in (
        ("alice", "alice@acme"),
        ("laptop", "alice@acme"),
        ("bob", "bob@acme"),
        ("carol", "carol@acme"),
        ("eve", "eve@else"),
    )
)
RULE = Rule(("acme.*",), ("alice", "laptop", "bob", "carol"))
TWO = replace(RULE, threshold=2)


def policy(*rules: Rule, **revoked: frozenset[str]) -> TrustPolicy:
    keys = {key.name: key for key in (ALICE, LAPTOP, BOB, CAROL, EVE)}
    return TrustPolicy(1, keys, rules or (RULE,), Revoked(**revoked))


POLICY, PRESENT = policy(), Moment(NOW)


def verdict(
    *signers: TrustedKey,
    policy: TrustPolicy = POLICY,
    manifest: Manifest = MANIFEST,
    moment: Moment = PRESENT,
) -> Verdict:
    return judge(ID, STATEMENT, signers or (ALICE,), manifest, policy, moment)


def against(verdict: Verdict) -> list[tuple[str, str]]:
    return [(reason.check, reason.detail) for reason in verdict.reasons if not reason.holds]


def stage(**members: object) -> Manifest:
    spec = StageSpec("p.wasm", "run", (), (), **members)  # type: ignore[arg-type]
    return replace(MANIFEST, pre=spec)


def test_what_an_accepting_verdict_says() -> None:
    found = verdict(ALICE, BOB)
    assert found.state is State.ACCEPTED
    assert (found.rule, found.holders, found.threshold) == (0, ("alice@acme", "bob@acme"), 1)
    assert [(reason.check, reason.holds, reason.detail) for reason in found.reasons] == [
        ("rule", True, "rule 0 covers the name 'acme.tiny'"),
        ("signer", True, "key 'alice' of alice@acme signed"),
        ("signer", True, "key 'bob' of bob@acme signed"),
        ("threshold", True, "2 of 1 holders signed (alice@acme, bob@acme)"),
    ]
    assert found.require() is found


FINGERPRINT = frozenset({ALICE.public.fingerprint})
REFUSALS: dict[str, tuple[Callable[[], Verdict], list[tuple[str, str]]]] = {
    "no rule": (
        lambda: verdict(manifest=replace(MANIFEST, name="other")),
        [("rule", "no rule covers the name 'other'")],
    ),
    "not under this rule": (
        lambda: verdict(EVE),
        [
            ("signer", "key 'eve' of eve@else may not sign under this rule"),
            ("threshold", "0 of 1 holders signed (none); 1 more must sign, out of: alice@acme, bob@acme, carol@acme"),
        ],
    ),
    "the first rule decides": (
        lambda: verdict(BOB, policy=policy(replace(RULE, models=("acme.t*",), keys=("alice",)), RULE)),
        [
            ("signer", "key 'bob' of bob@acme may not sign under this rule"),
            ("threshold", "0 of 1 holders signed (none); 1 more must sign, out of: alice@acme"),
        ],
    ),
    "key revoked": (
        lambda: verdict(policy=policy(keys=FINGERPRINT)),
        [
            ("signer", "key 'alice' of alice@acme is revoked"),
            ("threshold", "0 of 1 holders signed (none); 1 more must sign, out of: alice@acme, bob@acme, carol@acme"),
        ],
    ),
    "key expired": (
        lambda: verdict(replace(ALICE, not_after=NOW)),
        [
            ("signer", "key 'alice' of alice@acme expired at 2027-06-01T00:00:00Z"),
            ("threshold", "0 of 1 holders signed (none); 1 more must sign, out of: alice@acme, bob@acme, carol@acme"),
        ],
    ),
    "bundle revoked": (
        lambda: verdict(policy=policy(bundles=frozenset({ID.hex}))),
        [("revoked", f"bundle {ID} is revoked")],
    ),
    "file revoked": (
        lambda: verdict(policy=policy(blobs=frozenset({Digest.of(b"model.onnx").hex}))),
        [("revoked", f"file 'model.onnx' ({Digest.of(b'model.onnx')}) is revoked")],
    ),
    "not valid yet": (
        lambda: verdict(manifest=replace(MANIFEST, not_before=NOW + HOUR)),
        [("validity", "the bundle is valid only from 2027-06-01T01:00:00Z")],
    ),
    "expired": (
        lambda: verdict(manifest=replace(MANIFEST, expires=NOW)),
        [("validity", "the bundle expired at 2027-06-01T00:00:00Z")],
    ),
    "same version": (
        lambda: verdict(moment=Moment(NOW, newest=5)),
        [("version", "version 5 is not above 5, accepted before")],
    ),
    "older version": (
        lambda: verdict(moment=Moment(NOW, newest=9)),
        [("version", "version 5 is not above 9, accepted before")],
    ),
    "files too large": (
        lambda: verdict(policy=policy(replace(RULE, max_limits=MaxLimits(total_mib=2)))),
        [("limits", "the files have 3145728 bytes, the rule allows 2 MiB")],
    ),
    "too much memory": (
        lambda: verdict(manifest=stage(limits=Limits(65, 1000))),
        [("limits", "'p.wasm' asks for 65 MiB of memory, the rule allows 64")],
    ),
    "too much time": (
        lambda: verdict(manifest=stage(limits=Limits(64, 1001))),
        [("limits", "'p.wasm' asks for 1001 ms of time, the rule allows 1000")],
    ),
    "imports": (
        lambda: verdict(
            manifest=stage(imports=("now", "log", "asset")), policy=policy(replace(RULE, imports=("now",)))
        ),
        [("imports", "'p.wasm' asks for ['asset', 'log'], which the rule does not grant")],
    ),
    "domains": (
        lambda: verdict(manifest=replace(MANIFEST, model=replace(MANIFEST.model, domains=("", "com.microsoft")))),
        [("domains", "the model uses operator domains ['com.microsoft'], which the rule does not grant")],
    ),
    "everything at once": (
        lambda: verdict(
            manifest=replace(stage(imports=("log",)), expires=NOW),
            policy=policy(TWO, bundles=frozenset({ID.hex})),
            moment=Moment(NOW, newest=5),
        ),
        [
            ("revoked", f"bundle {ID} is revoked"),
            ("validity", "the bundle expired at 2027-06-01T00:00:00Z"),
            ("version", "version 5 is not above 5, accepted before"),
            ("imports", "'p.wasm' asks for ['log'], which the rule does not grant"),
            ("threshold", "1 of 2 holders signed (alice@acme); 1 more must sign, out of: bob@acme, carol@acme"),
        ],
    ),
}


@pytest.mark.parametrize(("ask", "reasons"), REFUSALS.values(), ids=REFUSALS)
def test_each_reason_refuses_by_itself(ask: Callable[[], Verdict], reasons: list[tuple[str, str]]) -> None:
    found = ask()
    assert found.state is State.REFUSED
    assert against(found) == reasons
    with pytest.raises(PolicyRefused) as caught:
        found.require()
    assert all(detail in caught.value.message for _, detail in reasons)
    assert caught.value.message.startswith("by the trust policy the bundle is refused: ")
    assert caught.value.data == {"verdict": found.as_data()}


@pytest.mark.parametrize(
    ("signers", "state"),
    [
        ((ALICE,), State.PENDING),
        ((ALICE, LAPTOP), State.PENDING),
        ((ALICE, EVE), State.PENDING),
        ((ALICE, replace(BOB, not_after=NOW - HOUR)), State.PENDING),
        ((EVE,), State.REFUSED),
        ((ALICE, BOB), State.ACCEPTED),
        ((ALICE, LAPTOP, BOB, CAROL), State.ACCEPTED),
        ((ALICE, BOB, EVE), State.ACCEPTED),
        ((ALICE, BOB, replace(CAROL, not_after=NOW)), State.ACCEPTED),
    ],
)
def test_thresholds_count_distinct_holders_of_good_signatures(signers: tuple[TrustedKey, ...], state: State) -> None:
    assert verdict(*signers, policy=policy(TWO)).state is state


def test_a_pending_verdict_says_who_is_missing() -> None:
    found = verdict(ALICE, LAPTOP, policy=policy(TWO, keys=frozenset({CAROL.public.fingerprint})))
    assert against(found) == [("threshold", "1 of 2 holders signed (alice@acme); 1 more must sign, out of: bob@acme")]
    with pytest.raises(PolicyRefused, match="the bundle is pending: 1 of 2 holders"):
        found.require()


def test_a_bundle_that_is_refused_anyway_is_never_pending() -> None:
    assert verdict(policy=policy(TWO), moment=Moment(NOW, newest=5)).state is State.REFUSED


@pytest.mark.parametrize(
    ("ask", "accepted"),
    [
        (lambda: verdict(replace(ALICE, not_after=NOW + HOUR)), True),
        (lambda: verdict(replace(ALICE, not_after=NOW - HOUR), moment=Moment(NOW, accepted_at=NOW - 2 * HOUR)), True),
        (lambda: verdict(replace(ALICE, not_after=NOW - HOUR), moment=Moment(NOW, accepted_at=NOW - HOUR)), False),
        (lambda: verdict(manifest=replace(MANIFEST, expires=NOW + HOUR)), True),
        (
            lambda: verdict(
                manifest=replace(MANIFEST, expires=NOW - HOUR), moment=Moment(NOW, accepted_at=NOW - 2 * HOUR)
            ),
            False,
        ),
        (lambda: verdict(manifest=replace(MANIFEST, not_before=NOW)), True),
        (lambda: verdict(moment=Moment(NOW, newest=4)), True),
        (lambda: verdict(moment=Moment(NOW, newest=None)), True),
        (lambda: verdict(policy=policy(replace(RULE, max_limits=MaxLimits(total_mib=3)))), True),
        (lambda: verdict(manifest=stage(limits=Limits(64, 1000))), True),
    ],
)
def test_the_edges_of_time_version_and_limits(ask: Callable[[], Verdict], accepted: bool) -> None:
    assert (ask().state is State.ACCEPTED) is accepted


def test_the_verdict_is_a_pure_function() -> None:
    arguments = (ID, STATEMENT, (ALICE, EVE), stage(imports=("log",)), policy(TWO), Moment(NOW, 5))
    before = repr(arguments)
    assert judge(*arguments) == judge(*arguments)
    assert repr(arguments) == before


def test_the_present_moment_has_a_zone() -> None:
    moment = Moment.current(newest=3)
    assert moment.now.tzinfo is UTC
    assert (moment.newest, moment.accepted_at) == (3, None)


def test_a_verdict_is_ready_for_json() -> None:
    assert json.loads(json.dumps(verdict(ALICE).as_data())) == {
        "state": "accepted",
        "rule": 0,
        "holders": ["alice@acme"],
        "threshold": 1,
        "reasons": [
            {"check": "rule", "holds": True, "detail": "rule 0 covers the name 'acme.tiny'"},
            {"check": "signer", "holds": True, "detail": "key 'alice' of alice@acme signed"},
            {"check": "threshold", "holds": True, "detail": "1 of 1 holders signed (alice@acme)"},
        ],
    }
