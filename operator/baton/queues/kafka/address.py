"""Where a Kafka cluster is and how it is spoken to, as a URL (pods) or in parts (the operator)."""

import base64
import os
import re
import ssl
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from baton.model.wording import quoted
from baton.queues.protocol import QueueUnreachable

# -- KafkaAddress

SCHEMES = ("kafka", "kafkas")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
EXAMPLE = "kafka://broker.shop:9092 or kafkas://user:password@broker.shop:9093/?ca=/etc/kafka/ca.pem"
_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}")
_OURS = re.compile(
    r"bootstrap\.servers|metadata\.broker\.list|group\..*|security\..*|sasl\..*|ssl\..*|enable\.auto\..*|auto\..*|isolation\.level"
    r"|enable\.partition\.eof|transactional\.id|partition\.assignment\.strategy|plugin\..*|.*_cb|consume\.callback.*"
)
"""Settings of the client that are not the user's to make: on them stands what Baton promises, or the URL has them elsewhere."""
_LARGEST = 1 << 20
_FILES = ("ca", "cert", "key")
"""Options that name files with PEM."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A cluster, and a user of it."""

    servers: tuple[str, ...]
    """host:port"""
    user: str | None = None
    password: str = field(default="", repr=False)
    mechanism: str = MECHANISMS[0]
    tls: bool = False
    ca: str = field(default="", repr=False)
    """Certificates that are trusted, PEM; empty: those that the system trusts."""
    certificate: str = field(default="", repr=False)
    """What is shown to the brokers, PEM, with the certificates that lead to their CA; empty: none is."""
    key: str = field(default="", repr=False)
    """Its key."""
    group: str | None = None
    """The group id, where it is not the one that follows from the ConsumerGroup's name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More settings of the consuming client, by librdkafka's names."""
    login: str = "the user, the password or the mechanism in BATON_KAFKA_URL, or in the Secret that it comes from"
    """Where they stand, for messages."""

    @property
    def place(self) -> str:
        """For messages."""
        return f"Kafka at {','.join(self.servers[:3])}"

    @property
    def who(self) -> str:
        """For messages."""
        if self.user is not None:
            return f"user {self.user}"
        return "the user of the client certificate" if self.certificate else "everybody (there is no user)"

    @property
    def refused(self) -> str:
        """What a cluster does that does not know the user, with the cure."""
        return f"refuses the user {self.user} by {self.mechanism}: correct {self.login}"

    @property
    def protocol(self) -> str:
        """As Kafka's clients name it."""
        return {(False, False): "PLAINTEXT", (False, True): "SSL", (True, False): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}[
            self.user is not None, self.tls
        ]

    def for_librdkafka(self) -> dict[str, Any]:
        """Settings of a client of confluent-kafka."""
        made: dict[str, Any] = {"bootstrap.servers": ",".join(self.servers), "security.protocol": self.protocol}
        if self.user is not None:
            made |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.tls and self.ca:
            made["ssl.ca.pem"] = self.ca
        if self.tls and self.certificate:
            made |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key}
        return made

    def for_aiokafka(self) -> dict[str, Any]:
        """Arguments of a connection of aiokafka. Raises QueueUnreachable where the certificates are none."""
        made: dict[str, Any] = {"security_protocol": self.protocol}
        if self.user is not None:
            made |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": self.user, "sasl_plain_password": self.password}
        if self.tls:
            made["ssl_context"] = self._tls_context()
        return made

    def _tls_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self.ca or None)
        except (ssl.SSLError, ValueError):
            raise QueueUnreachable(f"{self.place}: what is to be trusted is no certificate: give certificates as PEM") from None
        try:
            if self.certificate:
                show(context, self.certificate, self.key)
        except (ssl.SSLError, ValueError, OSError):
            raise QueueUnreachable(
                f"{self.place}: the client certificate and its key do not belong together, or are none: give both as PEM, the "
                "key without a password"
            ) from None
        return context


def servers(text: str) -> tuple[str, ...]:
    """host:port, separated by commas. Raises ValueError."""
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    for one in found:
        if _SERVER.fullmatch(one) is None:
            raise ValueError(f"{quoted(one)} is no host:port")
    if not found:
        raise ValueError("there is no host:port")
    return found


def read(url: str) -> KafkaAddress:
    """Of a pod. Raises QueueUnreachable, which says what is wrong, and never the password."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or parts.path not in ("", "/") or parts.fragment:
        raise QueueUnreachable(f"The address is no URL of a Kafka: write {EXAMPLE}")
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if credentials and not (user and colon):
        raise QueueUnreachable("The address has a user without a password, or a password without a user: write user:password@")
    try:
        found = servers(hosts)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise QueueUnreachable(f"The address is no URL of a Kafka ({error}): write {EXAMPLE}") from None
    tls = parts.scheme == "kafkas"
    _refuse_idle(options, user=bool(user), tls=tls)
    mechanism = options.pop("mechanism", MECHANISMS[0])
    if mechanism not in MECHANISMS:
        raise QueueUnreachable(f"The address has a mechanism that there is not: take one of {', '.join(MECHANISMS)}")
    if user and mechanism == "PLAIN" and not tls:
        raise QueueUnreachable(
            "The address has the mechanism PLAIN, which sends the password as it is, and no TLS: begin it with kafkas://, or "
            f"take {MECHANISMS[0]}"
        )
    files = {name: options.pop(name, "") for name in _FILES}
    if bool(files["cert"]) != bool(files["key"]):
        raise QueueUnreachable("The address has a client certificate without its key, or a key alone: give both, cert and key")
    ca, certificate, key = (_pem(name, path) for name, path in files.items())
    group = options.pop("group", None)
    for name in options:
        if _OURS.fullmatch(name):
            raise QueueUnreachable(f"The address has the setting {quoted(name)}, which Baton makes itself: take it out")
    password = unquote(password)
    return KafkaAddress(found, unquote(user) or None, password, mechanism, tls, ca, certificate, key, group, options)


def _refuse_idle(options: Mapping[str, str], *, user: bool, tls: bool) -> None:
    """Refuse options that would have no effect, because their writer expects one."""
    for name in (*_FILES, "group"):
        if options.get(name) == "":
            raise QueueUnreachable(f"The address has {name}= without a value: give it one, or take it out")
    if "mechanism" in options and not user:
        raise QueueUnreachable("The address has mechanism=, and no user: write user:password@ before the host, or take it out")
    for name in _FILES:
        if name in options and not tls:
            raise QueueUnreachable(f"The address has {name}=, and no TLS: begin it with kafkas://, or take it out")


def _pem(option: str, path: str) -> str:
    """What the file says; empty: there is no such option."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        raise QueueUnreachable(f"The address has the option {option}, which names no file that can be read: mount it") from None


# -- A certificate that a client shows, for Python's TLS, which reads it from a file only.


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Both are PEM. Raises ssl.SSLError, ValueError or OSError where they are none, or do not belong together. The file is in
    memory where there is such a thing: a container's file system may be read-only, and the key should not be in it."""
    in_memory = hasattr(os, "memfd_create")
    made = os.fdopen(os.memfd_create("baton-certificate"), "wb") if in_memory else NamedTemporaryFile(prefix="baton-")  # noqa: SIM115
    with made as file:
        file.write(f"{certificate.rstrip()}\n{key}".encode())
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}" if in_memory else file.name
        context.load_cert_chain(path, password="")  # else a terminal would be asked for one


# -- A private key in the one form that Kafka's Java client reads, PKCS #8. Pure.
#
# OpenSSL, and so Python and librdkafka, read others, which some certificate authorities write by default.

_KEY = re.compile(r"-----BEGIN ((?:RSA |EC )?)PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END")
_VERSION = bytes.fromhex("020100")
_RSA = bytes.fromhex("300d06092a864886f70d0101010500")
"""The algorithm rsaEncryption, which has no parameters."""
_EC = bytes.fromhex("06072a8648ce3d0201")
"""The algorithm id-ecPublicKey, whose parameter is the curve."""
_CURVES = [bytes.fromhex(curve) for curve in ("06082a8648ce3d030107", "06052b81040022", "06052b81040023")]
"""P-256, P-384 and P-521: Java has no others."""
_SEQUENCE, _OCTETS = 0x30, 0x04


def pkcs8(pem: str) -> str:
    """The key of a PEM text, which may have certificates, too. A text without a key in PKCS #1, SEC 1 or PKCS #8 is left as it
    is: Java says what it thinks of it."""
    found = _KEY.search(pem)
    if found is None:
        return pem
    try:
        der = base64.b64decode("".join(found[2].split()))
        if found[1]:
            algorithm = _RSA if found[1] == "RSA " else _element(_SEQUENCE, _EC + next(one for one in _CURVES if one in der))
            der = _element(_SEQUENCE, _VERSION + algorithm + _element(_OCTETS, der))
    except (ValueError, StopIteration):
        return pem
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def _element(tag: int, content: bytes) -> bytes:
    """In DER the length has as few bytes as it can."""
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 + len(size))) + size + content


# -- Where a topic is and who connects to it, for a client of another language.


def reader_address(address: KafkaAddress, topic: str, topic_id: str, group: str) -> Mapping[str, object]:
    """Fit for JSON. It has the password, and the texts of certificates."""
    return {
        "topic": topic,
        "topicId": topic_id,
        "group": group,
        "servers": ",".join(address.servers),
        "protocol": address.protocol,
        "user": address.user,
        "password": address.password,
        "mechanism": address.mechanism,
        "ca": address.ca,
        "certificate": address.certificate,
        "key": pkcs8(address.key),
    }
