"""How a host proves who it is, and a client who it is: a private authority, a client certificate."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpcore

from sandseal_sdk.errors import TlsFilesInvalid


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for connections over https.

    Args:
        ca: who must have issued the host's certificate, instead of the public authorities.
        certificate: the client's own, with what leads to its authority.
        key: its private key; None where the certificate's file holds it too.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What connections are made with.

        Raises:
            TlsFilesInvalid: a file is missing, or not what it should be.
        """
        if self.key and not self.certificate:
            raise TlsFilesInvalid(f"the key {self.key} has no certificate")
        try:
            context = ssl.create_default_context(cafile=self.ca) if self.ca else httpcore.default_ssl_context()
            if self.certificate:
                # Without a password nobody is asked for one on a terminal.
                context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
            files = ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path)
            raise TlsFilesInvalid(f"cannot use {files}: {error}") from None
        return context
