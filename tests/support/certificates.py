"""Certificates of an authority that exists for one test."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Issues certificates into a folder.

    Args:
        folder: where PEM files go.
        name: of the authority; `NAME.pem` is its certificate.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = self._builder(name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *others: x509.GeneralName) -> tuple[Path, Path]:
        """The files of a certificate with this common name and these alternatives, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key)
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        cert_file, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert_file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return cert_file, key_file

    def issue_loopback(self) -> tuple[Path, Path]:
        """A host's certificate for the loopback interface."""
        return self.issue("host", x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1")))

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
        )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
