"""The address of a Kafka cluster, with user and TLS: from a URL (pods) or in parts (the operator)."""

import base64
import os
import re
import ssl
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from baton.model.wording import quoted
from baton.queues.protocol import QueueUnreachable

# -- KafkaAddress

SCHEMES = ("kafka", "kafkas")
EXAMPLE = "kafka://broker.shop:9092 or kafkas://user:password@broker.shop:9093/?ca=/etc/kafka/ca.pem"
_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}")
_OURS = re.compile(
    r"bootstrap\.servers|metadata\.broker\.list|group\..*|security\..*|sasl\..*|ssl\..*|enable\.auto\..*|auto\..*|isolation\.level"
    r"|enable\.partition\.eof|transactional\.id|partition\.assignment\.strategy|plugin\..*|.*_cb|consume\.callback.*"
)
"""Settings of the client that users may not set: Baton's promises depend on them, or they are elsewhere in the URL."""
_LARGEST = 1 << 20
_FILES = ("ca", "cert", "key")
"""Options that name PEM files."""


class Mechanism(StrEnum):
    """The SASL mechanism."""

    SCRAM_SHA_512 = "SCRAM-SHA-512"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A cluster, and a user of it."""

    servers: tuple[str, ...]
    """host:port"""
    user: str | None = None
    password: str = field(default="", repr=False)
    mechanism: str = Mechanism.SCRAM_SHA_512.value
    tls: bool = False
    ca: str = field(default="", repr=False)
    """Trusted certificates, PEM; empty: the system's."""
    certificate: str = field(default="", repr=False)
    """The client certificate and its chain, PEM; empty: none."""
    key: str = field(default="", repr=False)
    """The client certificate's key, PEM."""
    group: str | None = None
    """The group id, if it does not follow from the ConsumerGroup's name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More settings of the consuming client, with librdkafka's names."""
    login: str = "the user, the password or the mechanism in BATON_KAFKA_URL, or in the Secret that it comes from"
    """The source of user, password and mechanism, for messages."""

    @property
    def place(self) -> str:
        """The cluster's name in messages."""
        return f"Kafka at {','.join(self.servers[:3])}"

    @property
    def who(self) -> str:
        """The user's name in messages."""
        if self.user is not None:
            return f"user {self.user}"
        return "the user of the client certificate" if self.certificate else "everybody (there is no user)"

    @property
    def refused(self) -> str:
        """The message for a cluster that refuses the user, with the cure."""
        return f"refuses the user {self.user} by {self.mechanism}: correct {self.login}"

    @property
    def protocol(self) -> str:
        """The security protocol's name in Kafka."""
        return {(False, False): "PLAINTEXT", (False, True): "SSL", (True, False): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}[
            self.user is not None, self.tls
        ]

    def for_librdkafka(self) -> dict[str, Any]:
        """Return settings for a client of confluent-kafka."""
        made: dict[str, Any] = {"bootstrap.servers": ",".join(self.servers), "security.protocol": self.protocol}
        if self.user is not None:
            made |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.tls and self.ca:
            made["ssl.ca.pem"] = self.ca
        if self.tls and self.certificate:
            made |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key}
        return made

    def for_aiokafka(self) -> dict[str, Any]:
        """Return arguments for a connection of aiokafka. Raises QueueUnreachable for malformed certificates."""
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
            raise QueueUnreachable(f"{self.place}: the CA is not a certificate: give certificates as PEM") from None
        try:
            if self.certificate:
                show(context, self.certificate, self.key)
        except (ssl.SSLError, ValueError, OSError):
            raise QueueUnreachable(
                f"{self.place}: the client certificate and its key do not match, or are malformed: give both as PEM, the key "
                "without a password"
            ) from None
        return context


def servers(text: str) -> tuple[str, ...]:
    """Return the servers in a comma-separated list of host:port. Raises ValueError."""
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    for one in found:
        if _SERVER.fullmatch(one) is None:
            raise ValueError(f"{quoted(one)} is not host:port")
    if not found:
        raise ValueError("there is no host:port")
    return found


def read(url: str) -> KafkaAddress:
    """Return the address in a pod's URL. Raises QueueUnreachable with what is wrong, and never the password."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or parts.path not in ("", "/") or parts.fragment:
        raise QueueUnreachable(f"The address is not a URL of Kafka: write {EXAMPLE}")
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if credentials and not (user and colon):
        raise QueueUnreachable("The address has a user without a password, or a password without a user: write user:password@")
    try:
        found = servers(hosts)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise QueueUnreachable(f"The address is not a URL of Kafka ({error}): write {EXAMPLE}") from None
    tls = parts.scheme == "kafkas"
    _refuse_idle(options, user=bool(user), tls=tls)
    mechanism = options.pop("mechanism", Mechanism.SCRAM_SHA_512.value)
    if mechanism not in tuple(Mechanism):
        raise QueueUnreachable(f"The address has an unknown mechanism: use one of {', '.join(Mechanism)}")
    if user and mechanism == Mechanism.PLAIN and not tls:
        raise QueueUnreachable(
            "The address has the mechanism PLAIN, which sends the password unencrypted, and no TLS: begin it with kafkas://, or "
            f"use {Mechanism.SCRAM_SHA_512}"
        )
    files = {name: options.pop(name, "") for name in _FILES}
    if bool(files["cert"]) != bool(files["key"]):
        raise QueueUnreachable("The address has a client certificate without its key, or a key alone: give both, cert and key")
    ca, certificate, key = (_pem(name, path) for name, path in files.items())
    group = options.pop("group", None)
    for name in options:
        if _OURS.fullmatch(name):
            raise QueueUnreachable(f"The address has the setting {quoted(name)}, which Baton sets itself: remove it")
    password = unquote(password)
    return KafkaAddress(found, unquote(user) or None, password, mechanism, tls, ca, certificate, key, group, options)


def _refuse_idle(options: Mapping[str, str], *, user: bool, tls: bool) -> None:
    """Refuse options that would have no effect, because their writer expects one."""
    for name in (*_FILES, "group"):
        if options.get(name) == "":
            raise QueueUnreachable(f"The address has {name}= without a value: give it one, or remove it")
    if "mechanism" in options and not user:
        raise QueueUnreachable("The address has mechanism=, but no user: write user:password@ before the host, or remove it")
    for name in _FILES:
        if name in options and not tls:
            raise QueueUnreachable(f"The address has {name}=, but no TLS: begin it with kafkas://, or remove it")


def _pem(option: str, path: str) -> str:
    """Return the file's content; without the option an empty text."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        raise QueueUnreachable(f"The address has the option {option}, but its file cannot be read: mount it") from None


# -- A client certificate for Python's TLS, which reads it from a file only.


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a client certificate and its key, both PEM. Raises ssl.SSLError, ValueError or OSError if they are malformed or do not
    match. The file is in memory if possible: a container's file system may be read-only, and should not have the key."""
    in_memory = hasattr(os, "memfd_create")
    made = os.fdopen(os.memfd_create("baton-certificate"), "wb") if in_memory else NamedTemporaryFile(prefix="baton-")  # noqa: SIM115
    with made as file:
        file.write(f"{certificate.rstrip()}\n{key}".encode())
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}" if in_memory else file.name
        context.load_cert_chain(path, password="")  # otherwise a terminal is asked for one


# -- A private key in the only form that Kafka's Java client reads, PKCS #8. Pure.
#
# OpenSSL, and so Python and librdkafka, read others, which some certificate authorities write by default.

_KEY = re.compile(r"-----BEGIN ((?:RSA |EC )?)PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END")
_VERSION = bytes.fromhex("020100")
_RSA = bytes.fromhex("300d06092a864886f70d0101010500")
"""The algorithm rsaEncryption, without parameters."""
_EC = bytes.fromhex("06072a8648ce3d0201")
"""The algorithm id-ecPublicKey; its parameter is the curve."""
_CURVES = [bytes.fromhex(curve) for curve in ("06082a8648ce3d030107", "06052b81040022", "06052b81040023")]
"""P-256, P-384 and P-521, the only ones that Java has."""
_SEQUENCE, _OCTETS = 0x30, 0x04


def pkcs8(pem: str) -> str:
    """Return the key of a PEM text, which may have certificates too, in PKCS #8. A text without a key in PKCS #1, SEC 1 or PKCS
    #8 is returned unchanged: Java reports what is wrong."""
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
    """Return a DER element; its length takes as few bytes as possible."""
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 + len(size))) + size + content


# -- The address for a client in another language.


def reader_address(address: KafkaAddress, topic: str, topic_id: str, group: str) -> Mapping[str, object]:
    """Return the address as JSON values, with the password and the certificates."""
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
