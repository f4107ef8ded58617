"""The files that TLS is served with."""

import pytest

from sandseal_host.api.tls import certificate_names, tls_files
from sandseal_host.errors import SettingsInvalid
from sandseal_host.settings import read_settings
from support.certificates import Authority


def test_files(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.issue_loopback()
    assert tls_files(read_settings()) is None
    found = tls_files(read_settings(tls_cert=cert, tls_key=key, tls_client_ca=authority.pem))
    assert found is not None
    assert (found.cert, found.key, found.client_ca) == (cert, key, authority.pem)
    missing = tmp_path / "missing"
    for wrong in (
        {"tls_cert": cert},
        {"tls_client_ca": authority.pem},
        {"tls_cert": cert, "tls_key": cert},
        {"tls_cert": missing, "tls_key": key},
        {"tls_cert": cert, "tls_key": authority.issue("other")[1]},
        {"tls_cert": cert, "tls_key": key, "tls_client_ca": key},
    ):
        with pytest.raises(SettingsInvalid) as refused:
            tls_files(read_settings(**wrong))
        assert "SANDSEAL_TLS_CERT" in str(refused.value.hint)


def test_names():
    subject = ((("organizationName", "acme"),), (("commonName", "robot"),))
    others = (("DNS", "robot.acme"), ("IP Address", "127.0.0.1"), ("URI", "spiffe://acme/robot"))
    assert certificate_names({"subject": subject, "subjectAltName": others}) == (
        "robot", "robot.acme", "spiffe://acme/robot",
    )  # fmt: skip
    assert certificate_names({}) == certificate_names(None) == ()
