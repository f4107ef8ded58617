"""Which host commands talk to."""

import pytest

from sandseal_sdk.errors import NotLoggedIn
from sandseal_sdk.hosts import contexts
from sandseal_sdk.hosts.contexts import Context, current_context, save_context

VARIABLES = ["SANDSEAL_URL", "SANDSEAL_TOKEN", "SANDSEAL_CA", "SANDSEAL_CLIENT_CERT", "SANDSEAL_CLIENT_KEY"]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No context but those of the test."""
    monkeypatch.setattr(contexts.typer, "get_app_dir", lambda _: str(tmp_path))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_kept_for_their_owner_alone():
    context = Context("https://host", None, "/ca.pem", "/robot.crt", "/robot.key")
    path = save_context("edge", context)
    save_context("default", Context("http://host", "secret"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert current_context("edge") == context
    assert str(context.tls.certificate) == "/robot.crt"
    assert current_context() == Context("http://host", "secret")


def test_those_of_earlier_versions():
    save_context("default", Context("http://host", "secret")).write_text('{"default": {"url": "u", "token": null}}')
    assert current_context() == Context("u")


def test_nobody_is_known():
    with pytest.raises(NotLoggedIn, match="'other'"):
        current_context("other")


def test_the_environment_wins(monkeypatch):
    save_context("default", Context("https://host", "secret", "/ca.pem"))
    monkeypatch.setenv("SANDSEAL_CA", "/other.pem")
    assert current_context() == Context("https://host", "secret", "/other.pem")
    monkeypatch.setenv("SANDSEAL_URL", "https://other")
    assert current_context() == Context("https://other", None, "/other.pem")
