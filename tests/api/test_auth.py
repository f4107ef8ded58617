"""The doorkeeper and the throttle."""

import asyncio

import pytest

from api.double import EVERYTHING, HostDouble, ModelsDouble, TokensDouble, identity
from api.test_infer import ask, refused, tensor
from api.web import Web
from sandseal_host.api import auth, throttle
from sandseal_host.api.auth import Doorkeeper, token_key
from sandseal_host.api.grant import ANONYMOUS, Grant
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.throttle import FailureThrottle
from sandseal_host.errors import ModelUnknown, NotAuthenticated, NotPermitted, RateLimited
from sandseal_host.registry.tokens import Scope
from support.clock import Clock


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(auth, "monotonic", clock)
    monkeypatch.setattr(throttle, "monotonic", clock)
    return clock


@pytest.fixture
def tokens():
    return TokensDouble(EVERYTHING)


def admit(door, header, address="10.0.0.1"):
    return asyncio.run(door.admit(header, address))


class TestDoorkeeper:
    def test_checks_once_and_again_when_the_cache_is_old(self, tokens, clock):
        door = Doorkeeper(tokens, ApiSettings(token_cache_s=1.0))
        assert [admit(door, b"Bearer root") for _ in range(3)] == [EVERYTHING] * 3
        assert tokens.checks == 1
        clock.now += 0.99
        assert door.recall(token_key(b"Bearer root")) is EVERYTHING
        clock.now += 0.02
        assert door.recall(token_key(b"Bearer root")) is None
        admit(door, b"Bearer root")
        assert tokens.checks == 2

    def test_revocation_takes_effect(self, tokens, clock):
        door = Doorkeeper(tokens, ApiSettings())
        admit(door, b"Bearer root")
        tokens.grants.clear()
        door.forget("root")
        with pytest.raises(NotAuthenticated):
            admit(door, b"Bearer root")
        assert door.recall(token_key(b"Bearer root")) is None

    @pytest.mark.parametrize("header", [b"Basic cm9vdA==", b"Bearer", b"Bearer  ", b"root", b"", b"Bearer \xff"])
    def test_other_headers(self, tokens, header):
        with pytest.raises(NotAuthenticated):
            admit(Doorkeeper(tokens, ApiSettings()), header)

    def test_scheme_in_any_case(self, tokens):
        assert admit(Doorkeeper(tokens, ApiSettings()), b"bearer root") is EVERYTHING

    def test_no_header(self, tokens):
        with pytest.raises(NotAuthenticated):
            admit(Doorkeeper(tokens, ApiSettings()), None)
        open_door = Doorkeeper(tokens, ApiSettings(anonymous_inference=True))
        assert open_door.recall(None) is ANONYMOUS
        with pytest.raises(NotAuthenticated):
            admit(open_door, b"Bearer wrong")

    def test_failures_are_limited_per_address(self, tokens, clock):
        door = Doorkeeper(tokens, ApiSettings(auth_failures=3))
        admit(door, b"Bearer root")
        for i in range(3):
            with pytest.raises(NotAuthenticated):
                admit(door, b"Bearer guess%d" % i)
        checks = tokens.checks
        with pytest.raises(RateLimited) as limited:
            admit(door, b"Bearer guess9")
        assert tokens.checks == checks
        assert 0 < limited.value.retry_after <= 60
        clock.now += 10  # the good token is no longer believed, but remembered as one that was good
        assert admit(door, b"Bearer root") is EVERYTHING
        with pytest.raises(NotAuthenticated):
            admit(door, b"Bearer guess9", "10.0.0.2")
        clock.now += 60
        with pytest.raises(NotAuthenticated):
            admit(door, b"Bearer guess9")

    def test_memory_is_bounded(self, monkeypatch, clock):
        monkeypatch.setattr(auth, "_MAX_KNOWN", 2)
        names = [b"a", b"b", b"c"]
        door = Doorkeeper(TokensDouble(*(Grant(n.decode(), frozenset()) for n in names)), ApiSettings())
        for name in names:
            admit(door, b"Bearer " + name)
        assert [door.recall(token_key(b"Bearer " + name)) is None for name in names] == [True, False, False]


class TestThrottle:
    def test_an_ipv6_guest_owns_its_network(self, clock):
        throttle = FailureThrottle(1, 60)
        throttle.failed("2001:db8::1")
        with pytest.raises(RateLimited):
            throttle.check("2001:db8::2%eth0")
        throttle.check("2001:db8:0:1::1")

    def test_memory_is_bounded(self, clock, monkeypatch):
        monkeypatch.setattr(throttle, "_MAX_ADDRESSES", 2)
        limited = FailureThrottle(1, 60)
        for address in ("a", "b", "c"):
            limited.failed(address)
        limited.check("a")
        with pytest.raises(RateLimited):
            limited.check("c")


class TestGrant:
    def test_scopes(self):
        grant = Grant("g", frozenset({Scope.INFER}))
        grant.need(Scope.INFER)
        grant.need(Scope.OPERATE, Scope.INFER)
        with pytest.raises(NotPermitted) as refusal:
            grant.need(Scope.OPERATE, Scope.AUDIT)
        assert refusal.value.data == {"needed": ["operate", "audit"]}

    def test_models(self):
        grant = Grant("g", frozenset(), models="team-a.*")
        grant.need_model("team-a.m")
        with pytest.raises(ModelUnknown):
            grant.need_model("team-b.m")


class TestInference:
    body = tensor(data=[0] * 16)

    def test_tokens(self, client):
        for token, status, code in (("caller", 200, ""), ("auditor", 403, "not_permitted"), ("no", 401, None)):
            answer = client.post(
                "/v2/models/identity/infer", json={"inputs": [self.body]}, headers={"Authorization": f"Bearer {token}"}
            )
            assert answer.status_code == status
            if status == 401:
                assert answer.headers["www-authenticate"].startswith("Bearer")
            elif status != 200:
                assert answer.json()["code"] == code

    def test_a_model_that_a_token_may_not_see_is_unknown(self, client):
        for path in ("identity", "nope"):
            answer = client.post(f"/v2/models/{path}/infer", headers={"Authorization": "Bearer narrow"})
            refused(answer, 404, code="model_unknown")

    def test_tenant_reaches_the_model(self, client, host):
        ask(client, "identity", self.body)
        assert host.models.get("identity").requests[0].tenant == "acme"

    def test_anonymous(self):
        host = HostDouble(
            ModelsDouble(identity("identity", "FP32", "batch", 16)), ApiSettings(anonymous_inference=True)
        )
        with Web(host.app) as client:
            assert ask(client, "identity", self.body).status_code == 200
            refused(client.get("/v1/bundles"), 403, code="not_permitted")
        assert host.models.get("identity").requests[0].tenant == "anonymous"

    def test_too_many_failures(self, client):
        for _ in range(20):
            client.get("/v2/models", headers={"Authorization": "Bearer wrong"})
        answer = client.get("/v2/models", headers={"Authorization": "Bearer wrong"})
        refused(answer, 429, code="rate_limited")
        assert int(answer.headers["retry-after"]) > 0
