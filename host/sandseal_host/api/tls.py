"""TLS: the files that the host's port is served with, and the names in a client's certificate."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandseal_host.errors import SettingsInvalid
from sandseal_host.settings import Settings

Names = tuple[str, ...]
"""Of a verified client certificate: its common name, then its DNS and URI alternatives; none without one."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files, which could be read when the host started.

    Args:
        cert: the host's certificate and its chain.
        key: its private key, without a password.
        client_ca: who issues clients' certificates; with one, no client comes in without.
    """

    cert: Path
    key: Path
    client_ca: Path | None


def tls_files(settings: Settings) -> TlsFiles | None:
    """The files that the settings name; None for plain HTTP.

    Raises:
        SettingsInvalid: some are missing, or cannot be used.
    """
    cert, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if cert is None or key is None:
        if cert or key or client_ca:
            raise SettingsInvalid("TLS needs both", hint="set SANDSEAL_TLS_CERT and SANDSEAL_TLS_KEY")
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
        context.load_cert_chain(cert, key, password=_no_password)
    except OSError as error:  # SSLError is one
        hint = "SANDSEAL_TLS_CERT, _KEY and _CLIENT_CA name PEM files, the key without a password"
        raise SettingsInvalid(f"the TLS files cannot be used: {error}", hint=hint) from None
    return TlsFiles(cert, key, client_ca)


def certificate_names(peer: Mapping[str, Any] | None) -> Names:
    """The names of a certificate as the standard library shows it (`SSLSocket.getpeercert`)."""
    if not peer:
        return ()
    subject = [value for part in peer.get("subject", ()) for kind, value in part if kind == "commonName"]
    others = [value for kind, value in peer.get("subjectAltName", ()) if kind in ("DNS", "URI")]
    return (*subject, *others)


def _no_password() -> str:
    raise ssl.SSLError("the private key has a password")
