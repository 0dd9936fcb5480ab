"""A private key in the one form that Kafka's Java client reads, PKCS #8. Pure.

OpenSSL, and so Python and librdkafka, read others, which some certificate authorities write by default.
"""

import base64
import re
import textwrap

_KEY = re.compile(r"-----BEGIN ((?:RSA |EC )?)PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END")
_VERSION = bytes.fromhex("020100")
_RSA = bytes.fromhex("300d06092a864886f70d0101010500")
"""The algorithm rsaEncryption, which has no parameters."""
_EC = bytes.fromhex("06072a8648ce3d0201")
"""The algorithm id-ecPublicKey, whose parameter is the curve."""
_SEQUENCE, _OCTETS, _CURVE = 0x30, 0x04, 0xA0


def pkcs8(pem: str) -> str:
    """The key of a PEM text, which may have certificates, too. A text without a key in PKCS #1, SEC 1 or PKCS #8 is left as it
    is: Java says what it thinks of it."""
    found = _KEY.search(pem)
    if found is None:
        return pem
    try:
        der = base64.b64decode("".join(found[2].split()))
        if found[1] == "RSA ":
            der = _wrapped(_RSA, der)
        elif found[1] == "EC ":
            der = _wrapped(_element(_SEQUENCE, _EC + _curve(der)), der)
    except (ValueError, IndexError):
        return pem
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def _wrapped(algorithm: bytes, key: bytes) -> bytes:
    return _element(_SEQUENCE, _VERSION + algorithm + _element(_OCTETS, key))


def _curve(key: bytes) -> bytes:
    """SEC 1: version, number, [0] curve, [1] public key. Raises ValueError where it names no curve."""
    _, fields, _ = _read(key, 0)
    at = 0
    while at < len(fields):
        tag, content, at = _read(fields, at)
        if tag == _CURVE:
            return content
    raise ValueError("no curve")


def _read(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag and content of the element there, and where the next one begins."""
    tag, length, begin = der[at], der[at + 1], at + 2
    if length & 0x80:
        more = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + more]), begin + more
    return tag, der[begin : begin + length], begin + length


def _element(tag: int, content: bytes) -> bytes:
    """In DER the length has as few bytes as it can."""
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 + len(size))) + size + content
