"""Tokens: worth something exactly while they are issued and not expired; their secrets are kept nowhere."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.registry.tokens import Rate, Scope, Tokens
from support.catalogs import open_catalog


@pytest.fixture
def catalog(tmp_path):
    with open_catalog(tmp_path / "catalog.db") as catalog:
        yield catalog


@pytest.fixture
def tokens(catalog):
    return Tokens(catalog)


def test_an_issued_secret_is_checked_as_its_token(tokens):
    expires = datetime.now(UTC) + timedelta(hours=1)
    issued = tokens.issue("ci", [Scope.PUBLISH, Scope.INFER], tenant="acme", models="acme.*", expires=expires)
    assert issued.secret.startswith("sst_")
    assert len(issued.secret) == 4 + 43  # 32 bytes in base64 without padding
    assert tokens.check(issued.secret) == issued.token
    assert tokens.list() == (issued.token,)
    assert issued.token.scopes == {Scope.PUBLISH, Scope.INFER}
    assert (issued.token.tenant, issued.token.models, issued.token.expires) == ("acme", "acme.*", expires)


def test_limits_are_kept(tokens):
    rate = Rate(requests_s=2.5)
    token = tokens.issue("ci", [Scope.INFER], ceiling="batch", rate=rate).token
    assert (token.ceiling, token.rate) == ("batch", rate)
    assert tokens.list() == (token,)


@pytest.mark.parametrize(
    ("rate", "other", "within"),
    [
        (Rate(), Rate(), True),
        (Rate(1, 1), Rate(), True),
        (Rate(), Rate(rows_s=1), False),
        (Rate(2, 1), Rate(2, 1), True),
        (Rate(2, 2), Rate(2, 1), False),
    ],
)
def test_a_rate_within_another(rate, other, within):
    assert rate.within(other) is within


def test_what_nobody_issued_is_nothing(tokens):
    secret = tokens.issue("ci", [Scope.INFER]).secret
    for other in ("", "sst_", secret[:-1], secret + "A", secret.upper(), hashlib.sha256(secret.encode()).hexdigest()):
        assert tokens.check(other) is None


def test_an_expired_token_is_nothing_but_is_listed(tokens):
    issued = tokens.issue("old", [Scope.INFER], expires=datetime.now(UTC) - timedelta(seconds=1))
    assert tokens.check(issued.secret) is None
    assert tokens.list() == (issued.token,)


def test_a_revoked_token_is_nothing_at_once(tokens):
    one, two = tokens.issue("one", [Scope.INFER]), tokens.issue("two", [Scope.INFER])
    assert tokens.revoke(one.token.id)
    assert not tokens.revoke(one.token.id)
    assert tokens.check(one.secret) is None
    assert tokens.check(two.secret) == two.token


def test_no_secret_is_on_disk(tokens, catalog, tmp_path):
    secret = tokens.issue("ci", [Scope.INFER]).secret
    catalog.close()
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes()


def test_the_first_start_writes_an_operators_token_once(tokens, tmp_path):
    path = tmp_path / "operator.token"
    assert tokens.first_start(path) == path
    assert path.stat().st_mode & 0o777 == 0o600
    secret = path.read_text().strip()
    token = tokens.check(secret)
    assert token is not None
    assert token.scopes == set(Scope)
    assert tokens.first_start(path) is None
    assert path.read_text().strip() == secret


def test_a_reset_replaces_the_operators_token_and_no_other(tokens, tmp_path):
    path = tmp_path / "operator.token"
    other = tokens.issue("ci", [Scope.INFER])
    tokens.reset(path)
    lost = path.read_text().strip()
    path.chmod(0o644)
    assert tokens.reset(path) == path
    assert path.stat().st_mode & 0o777 == 0o600
    found = tokens.check(path.read_text().strip())
    assert found is not None
    assert found.scopes == set(Scope)
    assert tokens.check(lost) is None
    assert tokens.check(other.secret) == other.token


def test_a_file_that_cannot_be_written_leaves_the_tokens_as_they_are(tokens, tmp_path):
    tokens.reset(tmp_path / "operator.token")
    before = tokens.list()
    with pytest.raises(StoreError, match="cannot write"):
        tokens.reset(tmp_path / "missing" / "operator.token")
    assert tokens.list() == before


def test_another_process_resets_under_a_running_host(tokens, tmp_path):
    with open_catalog(tmp_path / "catalog.db") as other:
        path = Tokens(other).reset(tmp_path / "operator.token")
    assert tokens.check(path.read_text().strip()) is not None
