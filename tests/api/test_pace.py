"""Rates of tokens and tenants, and the ceiling of classes."""

import tomllib
from pathlib import Path

import pytest

from api import wire
from api.double import HostDouble, ModelsDouble, TokensDouble, identity
from api.test_control import as_
from api.test_faces import BINARY, JSON, LENGTH, request
from api.test_infer import refused, tensor
from api.web import Web
from sandseal_host.api import pace
from sandseal_host.api.access import Access, parse_access
from sandseal_host.api.grant import Grant
from sandseal_host.api.pace import Bucket, Paces
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import RateLimited, SettingsInvalid
from sandseal_host.registry.tokens import Rate, Scope
from sandseal_host.serving.request import BATCH, STANDARD
from support.clock import Clock

INFER = frozenset({Scope.INFER})
GUIDE = Path(__file__).parents[2] / "host" / "README.md"


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pace, "monotonic", clock)
    return clock


def host_of(*grants: Grant, **tenants: Rate) -> HostDouble:
    host = HostDouble(
        ModelsDouble(identity("identity", "FP32", "batch", 16), identity("wide", "FP32", "batch", "n")),
        ApiSettings(access=Access(tenants), anonymous_inference=True),
    )
    host.tokens.grants |= TokensDouble(*grants).grants
    return host


def infer(client, token, rows=1, **options):
    x = tensor(shape=(rows, 16), data=[0] * 16 * rows)
    headers = as_(token) if token else None
    return client.post("/v2/models/identity/infer", json={"inputs": [x], **options}, headers=headers)


class TestBucket:
    def waits(self, bucket, clock):
        return max(0.0, bucket.free_at - clock.now)

    def test_one_second_at_once_then_at_the_rate(self, clock):
        bucket = Bucket("requests", 4.0, "x")
        for _ in range(4):
            assert self.waits(bucket, clock) == 0
            bucket.take(9, clock.now)
        assert self.waits(bucket, clock) == pytest.approx(0.25)
        clock.now += 0.25
        assert self.waits(bucket, clock) == 0
        clock.now += 100
        for _ in range(4):
            bucket.take(9, clock.now)
        assert self.waits(bucket, clock) == pytest.approx(0.25)

    def test_whoever_finds_one_in_it_may_overdraw_it(self, clock):
        bucket = Bucket("rows", 10.0, "x")
        bucket.take(50, clock.now)
        assert self.waits(bucket, clock) == pytest.approx(4.1)

    def test_less_than_one_a_second(self, clock):
        bucket = Bucket("requests", 0.1, "x")
        assert self.waits(bucket, clock) == 0
        bucket.take(1, clock.now)
        assert self.waits(bucket, clock) == pytest.approx(10)


class TestPaces:
    def test_a_meter_goes_on_when_its_token_is_checked_again(self, clock):
        paces, rate = Paces({}), Rate(requests_s=2)
        for _ in range(2):
            paces.of("id", "ci", rate, "acme").take(1)
        with pytest.raises(RateLimited, match="the token 'ci' has sent its requests"):
            paces.of("id", "ci", rate, "acme").take(1)
        paces.of("id", "ci", Rate(requests_s=3), "acme").take(1)
        paces.forget("id")
        paces.of("id", "ci", rate, "acme").take(1)

    def test_nothing_limits_most(self):
        assert Paces({"acme": Rate(requests_s=1)}).of("id", "ci", Rate(), "default") is None

    def test_a_refused_request_counts_on_no_meter(self, clock):
        paces = Paces({"acme": Rate(requests_s=100)})
        slow, other = paces.of("a", "a", Rate(requests_s=1), "acme"), paces.of("b", "b", Rate(), "acme")
        slow.take(1)
        for _ in range(99):
            with pytest.raises(RateLimited):
                slow.take(1)
        for _ in range(99):
            other.take(1)
        with pytest.raises(RateLimited, match="the tenant 'acme'"):
            other.take(1)


def test_a_token_over_http(clock):
    with Web(host_of(Grant("slow", INFER, id="1", rate=Rate(requests_s=2))).app) as client:
        assert [infer(client, "slow").status_code for _ in range(3)] == [200, 200, 429]
        answer = infer(client, "slow")
        assert refused(answer, 429, "'slow'", code="rate_limited")["limited"] == "requests"
        assert answer.headers["retry-after"] == "1"
        assert infer(client, "root").status_code == 200
        clock.now += 0.5
        assert [infer(client, "slow").status_code for _ in range(2)] == [200, 429]


def test_rows(clock):
    with Web(host_of(Grant("wide", INFER, id="1", rate=Rate(rows_s=4))).app) as client:
        assert [infer(client, "wide", rows).status_code for rows in (3, 9, 1)] == [200, 200, 429]
        clock.now += 2.25
        assert infer(client, "wide").status_code == 200


def test_a_tenant_is_all_its_tokens(clock):
    host = host_of(Grant("a", INFER, "acme", id="1"), Grant("b", INFER, "acme", id="2"), acme=Rate(requests_s=2))
    with Web(host.app) as client:
        assert [infer(client, token).status_code for token in ("a", "b", "a", "caller")] == [200, 200, 429, 200]


def test_anonymous_callers_are_a_tenant(clock):
    with Web(host_of(anonymous=Rate(requests_s=1)).app) as client:
        assert [infer(client, None).status_code for _ in range(2)] == [200, 429]


def test_the_protocol_face(clock):
    """What is answered without a task counts like everything else, and once."""
    host = host_of(Grant("slow", INFER, id="1", rate=Rate(requests_s=4)))
    face = wire.Face(host.app, DataPlaneProtocol)
    token = b"Authorization: Bearer slow"
    sent = [request(JSON, token=token), *(request(BINARY, LENGTH, token=token) for _ in range(5))]
    answers, _ = wire.run(face.talk(sent))
    assert [answer[9:12] for answer in answers] == [b"200"] * 4 + [b"429"] * 2
    assert b"retry-after: 1" in answers[-1]


def test_a_class_above_the_ceiling_is_lowered_to_it():
    host = host_of(Grant("low", INFER, id="1", ceiling=BATCH), Grant("mid", INFER, id="2", ceiling=STANDARD))
    model = host.models.get("identity")
    with Web(host.app) as client:
        for token, wanted in (("low", 1), ("low", 0), ("mid", 1), ("mid", 3), ("root", 1)):
            assert infer(client, token, parameters={"priority": wanted}).status_code == 200
        assert [r.service_class.name for r in model.requests] == ["batch", "batch", "standard", "batch", "realtime"]
        counted = client.get("/metrics", headers=as_("root")).text
    assert 'class="realtime",code="200",model="identity",version="1"} 1.0' in counted


class TestAccessFile:
    def test_rates(self):
        found = parse_access({"tenants": {"acme": {"requests_s": 2, "rows_s": 0.5}, "labs": {}}})
        assert found.tenants == {"acme": Rate(2.0, 0.5), "labs": Rate()}

    @pytest.mark.parametrize(
        "document",
        [
            {"tenant": {}},
            {"tenants": {"acme": {"requests": 2}}},
            {"tenants": {"acme": {"requests_s": 0}}},
            {"tenants": {"acme": {"rows_s": True}}},
            {"tenants": {"acme": {"rows_s": float("nan")}}},
            {"tenants": {"acme": 5}},
            {"certificates": {"robot": {}}},
            {"certificates": {"robot": {"scopes": ["root"]}}},
            {"certificates": {"robot": {"scopes": ["infer"], "ceiling": "urgent"}}},
            {"oidc": {"issuer": "i", "audience": "a", "jwks": "j", "scopes": {"x": []}}},
            {"oidc": {"issuer": "i", "audience": "a", "scopes": {}}},
            {"oidc": {"issuer": "i", "audience": "a", "jwks": "j", "scopes": {}, "algorithms": ["none"]}},
        ],
    )
    def test_faults_are_named(self, document):
        with pytest.raises(SettingsInvalid, match=r"^access\.(tenants?|certificates|oidc)\b"):
            parse_access(document)

    def test_the_guides_own(self):
        text = GUIDE.read_text(encoding="utf-8").partition("`SANDSEAL_ACCESS` names a TOML file")[2]
        found = parse_access(tomllib.loads(text.partition("```toml\n")[2].partition("```")[0]))
        assert found.tenants == {"acme": Rate(200, 5000)}
        assert found.certificates["spiffe://acme/robot"].models == "acme.*"
        assert found.oidc is not None
        assert found.oidc.scopes["models:push"] == (Scope.PUBLISH, Scope.INFER)
