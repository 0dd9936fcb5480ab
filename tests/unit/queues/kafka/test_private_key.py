"""Client keys in the forms that OpenSSL reads, for a client in Java that reads one."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from baton.queues.kafka.address import pkcs8

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
    ],
    ids=lambda key: str(key.key_size),
)
def test_a_key_in_any_form_is_the_same_key_in_pkcs_8(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    for form in (PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8):
        text = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
        made = pkcs8(CERTIFICATE + text)
        assert made.startswith("-----BEGIN PRIVATE KEY-----\n") and "CERTIFICATE" not in made
        read = load_pem_private_key(made.encode(), None)
        assert isinstance(read, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
        assert read.private_numbers() == key.private_numbers()


@pytest.mark.parametrize(
    "text",
    [
        "",
        CERTIFICATE,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n",
    ],
)
def test_what_has_no_such_key_is_left_as_it_is(text: str) -> None:
    assert pkcs8(text) == text
