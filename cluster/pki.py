"""Certificates of a test's cluster: one authority, one certificate per program."""

import base64
import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_LIFE = datetime.timedelta(days=30)


class Authority:
    """Signs certificates into a folder: NAME.crt and NAME.key."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("baton-cluster", None)
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.sign(self._key, hashes.SHA256())
        self._write("ca", certificate, self._key)
        signer = ec.generate_private_key(ec.SECP256R1())
        (folder / "sa.key").write_bytes(_private(signer))
        public = signer.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (folder / "sa.pub").write_bytes(public)

    def issue(self, file: str, user: str, group: str | None = None, hosts: Iterable[str] = (), *, rsa_key: bool = False) -> None:
        """Issue a certificate for a user, who may also be a server at these host names and addresses.

        `rsa_key`: for Spark's Kubernetes client, which needs an additional library for other keys.
        """
        key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(user, group), key.public_key())
        names = [_host(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._write(file, builder.sign(self._key, hashes.SHA256()), key)

    def _builder(self, subject: x509.Name, key: _PublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _LIFE)
        )

    def _write(self, file: str, certificate: x509.Certificate, key: _PrivateKey) -> None:
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = self.folder / f"{file}.key"
        private.touch(0o600)
        private.write_bytes(_private(key))


def write_kubeconfig(path: Path, server: str, pki: Path, user: str) -> None:
    """Write a kubeconfig that contains the certificates, so that it can be copied."""

    def inline(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "baton", "cluster": {"server": server, "certificate-authority-data": inline("ca.crt")}}],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": inline(f"{user}.crt"), "client-key-data": inline(f"{user}.key")},
            }
        ],
        "contexts": [{"name": "baton", "context": {"cluster": "baton", "user": user}}],
        "current-context": "baton",
    }
    path.touch(0o600)
    path.write_text(yaml.safe_dump(config))


def _private(key: _PrivateKey) -> bytes:
    # SEC1 rather than PKCS8: all programs of Kubernetes accept it for the signing key of service accounts.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(user: str, group: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
