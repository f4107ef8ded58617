"""Which scopes admit to which route: the whole table, and no route outside of it."""

import pytest

from api.conftest import standard_host
from api.web import Web
from sandseal_host.api.grant import Grant
from sandseal_host.registry.tokens import Scope

EVERYBODY, ANY = {"nobody", *Scope}, {*Scope}
TABLE = """
GET    /v2/health/live, /v2/health/ready, /problems, /problems/{code}: everybody
GET    /v2, /v2/models, /v2/models/stats, /v1/models, /v1/models/{model}, /v1/log/keys: any
GET    /v2/models/{model}, /v2/models/{model}/versions/{version}: any
GET    /v2/models/{model}/ready, /v2/models/{model}/versions/{version}/ready: any
GET    /v2/models/{model}/config, /v2/models/{model}/versions/{version}/config: any
GET    /v2/models/{model}/stats, /v2/models/{model}/versions/{version}/stats: any
POST   /v2/repository/index: any
POST   /v2/models/{model}/infer, /v2/models/{model}/versions/{version}/infer, /v1/models/{model}/call: infer
POST   /v2/models/{model}/generate, /v2/models/{model}/versions/{version}/generate: infer
POST   /v2/models/{model}/generate_stream, /v2/models/{model}/versions/{version}/generate_stream: infer
POST   /v1/chat/completions, /v1/completions, /v1/embeddings: infer
POST   /v1/bundles, /v1/bundles/offers, /v1/bundles/{id}/finish, /v1/bundles/{id}/signatures: publish
DELETE /v1/bundles/offers/{id}: publish
HEAD   /v1/blobs/sha256/{digest}: publish
PUT    /v1/blobs/sha256/{digest}: publish
GET    /v1/bundles, /v1/bundles/{id}: publish operate audit
DELETE /v1/bundles/{id}: operate
POST   /v2/repository/models/{model}/load, /v2/repository/models/{model}/unload: operate
POST   /v1/tokens, /v1/models/{model}/recordings, /v2/logging: operate
POST   /v2/trace/setting, /v2/models/{model}/trace/setting: operate
GET    /v1/tokens, /v1/profiles, /v1/profiles/{number}: operate
DELETE /v1/tokens/{token}: operate
GET    /metrics, /v1/log/checkpoint, /v1/log/entries, /v1/log/proof, /v1/models/{model}/queue: operate audit
GET    /v2/logging, /v2/trace/setting, /v2/models/{model}/trace/setting: operate audit
GET    /v1/trust, /v1/revocations: operate trust audit
PUT    /v1/trust: trust
POST   /v1/revocations: trust
POST   /v1/trust/permits: publish trust
GET    /v1/trust/permits: publish operate trust audit
POST   /v1/trust/explain: publish operate trust audit
"""
NAMES = {"{bundle_id}": "{id}", "{token_id}": "{token}"}
FILLED = {"{digest}": "0" * 64, "{id}": "0" * 64, "{code}": "queue_full", "{model}": "mlp", "{version}": "1"}


def table() -> dict[tuple[str, str], set[str]]:
    """Who is admitted, by method and path."""
    found = {}
    for line in TABLE.strip().splitlines():
        left, _, right = line.rpartition(": ")
        method, _, paths = left.partition(" ")
        who = {"everybody": EVERYBODY, "any": ANY}.get(right, set(right.split()))
        found |= {(method, path.strip()): who for path in paths.split(",")}
    return found


def renamed(path: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        path = path.replace(name, other)
    return path


@pytest.fixture(scope="module")
def web():
    host = standard_host()
    host.tokens.grants |= {f"only {scope}": Grant(scope, frozenset({scope}), id=scope) for scope in Scope}
    with Web(host.app) as web:
        yield web


def test_no_route_is_left_out(web):
    methods = ("get", "head", "post", "put", "delete")
    paths = web.get("/openapi.json").json()["paths"]
    documented = {(m.upper(), renamed(path, NAMES)) for path, acts in paths.items() for m in methods if m in acts}
    assert documented == table().keys()


@pytest.mark.parametrize(("method", "path"), table())
def test_who_is_admitted(web, method, path):
    asked = renamed(path, FILLED | {"{token}": "none", "{number}": "1"})
    answers = {scope: web.request(method, asked, headers={"authorization": f"Bearer only {scope}"}) for scope in Scope}
    answers["nobody"] = web.request(method, asked)
    assert answers["nobody"].status_code != 403
    assert {who for who, answer in answers.items() if answer.status_code not in (401, 403)} == table()[method, path]
