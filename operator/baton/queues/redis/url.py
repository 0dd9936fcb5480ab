"""Parses a Redis URL: the server, the user, and the options. Its secret parts are never shown.

Texts from a URL, its server or the library are untrusted: they may contain a password, and are only shown through `hidden`.
"""

import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from re import ASCII, fullmatch
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from baton.model.names import DEV_QUEUE_VARIABLE
from baton.queues.protocol import QueueUnreachable


def dev_queue() -> str | None:
    """The queue of the `baton dev` that runs this process; None: not under `baton dev`."""
    return os.environ.get(DEV_QUEUE_VARIABLE) or None


MOST_HOSTS = 16
"""Sentinels or cluster nodes in one URL."""

_HOST_FORM = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_HOSTS = f"{_HOST_FORM}(,{_HOST_FORM}){{0,{MOST_HOSTS - 1}}}"
_DATABASE = "(/[0-9]{0,9})?"

FORMS = {
    "": f"{_HOST_FORM}{_DATABASE}",
    "+sentinel": f"{_HOSTS}/[A-Za-z0-9._-]{{1,100}}{_DATABASE}",
    "+cluster": f"{_HOSTS}(/0?)?",
}
"""By the part of the scheme after redis or rediss (TLS): a regular expression of the URL after the ://, without options. A
cluster has only database 0."""

SCHEMES = tuple(tls + kind for kind in FORMS for tls in ("redis", "rediss"))
SOCKET = "unix"
"""Scheme of a Unix socket, for processes on the server's machine that built the URL themselves."""
EXAMPLES = {
    "": "redis://redis.shop:6379/0, or rediss:// for TLS",
    "+sentinel": "redis+sentinel://host1:26379,host2:26379/name-of-the-primary/0",
    "+cluster": "redis+cluster://host1:6379,host2:6379",
}


DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
MOST_SHOWN = 200
"""Characters of an untrusted text that are shown."""

_TRACE = 6
"""A text that has this many consecutive characters of a password counts as containing it."""
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_HOST = r"[A-Za-z0-9._:%-]{1,253}"
_SERVICE = r"[A-Za-z0-9._-]{1,100}"
_FORM = "Write it as redis://[user:password@]host:6379/0, or rediss:// for TLS"
_FORMS = {
    kind: f"Write it as {EXAMPLES[kind].replace('://', '://[user:password@]')}, or rediss{kind}:// for TLS"
    for kind in ("+sentinel", "+cluster")
}


def _number(text: str) -> int:
    if not fullmatch(r"[0-9]{1,9}", text, ASCII):
        raise ValueError("write a number such as 0")
    return int(text)


def _seconds(text: str) -> float:
    if not fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text, ASCII) or not float(text):
        raise ValueError("write seconds such as 2.5")
    return float(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _requirement(text: str) -> str:
    if text not in ("required", "optional", "none"):
        raise ValueError("write required, optional or none")
    return text


def _word(text: str) -> str:
    if not text or _CONTROL.search(text):
        raise ValueError("write it without spaces")
    return text


class Option(NamedTuple):
    """An option of a URL (`?db=1&ssl_ca_certs=/etc/ca.pem`)."""

    read: Callable[[str], object]
    """Parses its value. Raises ValueError with the cure."""
    form: str
    """A regular expression of its value in a spec."""


_NUMBER, _SECONDS = Option(_number, "[0-9]{1,9}"), Option(_seconds, "[0-9.]{1,8}")
_SWITCH, _WORD = Option(_switch, "(true|false)"), Option(_word, "[^&]+")
OPTIONS: Mapping[str, Option] = {
    "db": _NUMBER,
    "client_name": _WORD,
    "health_check_interval": _NUMBER,
    "sentinel_auth": _SWITCH,
    "socket_connect_timeout": _SECONDS,
    "socket_keepalive": _SWITCH,
    "socket_timeout": _SECONDS,
    "ssl_ca_certs": _WORD,
    "ssl_ca_data": Option(str, "[^&]*"),
    "ssl_ca_path": _WORD,
    "ssl_cert_reqs": Option(_requirement, "(required|optional|none)"),
    "ssl_certfile": _WORD,
    "ssl_check_hostname": _SWITCH,
    "ssl_ciphers": _WORD,
    "ssl_keyfile": _WORD,
}
"""Options by their names in redis-py. Baton sets redis-py's other options itself."""

SECRET_OPTIONS = ("password", "username", "ssl_password")
"""Options that are refused because they would put a secret into the query of the URL."""

FILE_OPTIONS = ("username_file", "password_file")
"""Files to read user and password from, at each connection. Only allowed in a process' own URL, as their contents are sent to the
server that the URL names."""

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Sentinels, or nodes of a Redis Cluster, that know the current address of the server."""

    hosts: tuple[Address, ...]
    service: str = ""
    """The primary's name at the Sentinels."""
    password: bool = False
    """Whether Sentinels require the user and password of the servers, too."""

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.hosts)


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A parsed URL. Its repr has no password."""

    place: str
    """For people: `Redis at host:port`."""
    scheme: str
    """redis, rediss or unix"""
    options: Mapping[str, object]
    """Arguments of the library's connections: host, port (or path; neither with Sentinels or a cluster), and the URL's
    options."""
    sentinels: Nodes | None = None
    cluster: Nodes | None = None
    """Without Sentinels and cluster the URL itself has the server's address."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of user and password, by option."""
    asker: str = "This process"
    """The connecting side, for messages."""
    stands_in: str = "the URL"
    """Where the URL is written, for messages."""
    _traces: set[str] = field(default_factory=set, repr=False)
    """Short pieces of all secrets."""

    def conceal(self, password: str) -> None:
        """Treat another password as secret from now on."""
        self._traces.update(_traces(password, ""))

    def hidden(self, foreign: object) -> str:
        """Return an untrusted text in one line, truncated. A text with a part of the password is replaced."""
        text = _CONTROL.sub(" ", str(foreign)[: 4 * MOST_SHOWN]).strip()
        if any(trace in text for trace in self._traces):
            return "its text is left out because it contains a part of the password"
        return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def read(url: str, *, asker: str = "This process", stands_in: str = "the URL", own: bool = False) -> RedisUrl:
    """Parse a URL. `asker` and `stands_in`: as in RedisUrl. `own`: the URL is from the process' own configuration, not from a
    spec.

    Raises QueueUnreachable, with a sentence that quotes only an option's name from the URL, and TypeError unless `url` is a str.
    """
    if not isinstance(url, str):
        raise TypeError(
            f"the URL is of type {type(url).__name__}: give a text such as redis://redis.shop:6379/0 (is its variable set?)"
        )
    sentinels = cluster = None
    try:
        parts = urlsplit(url)
        scheme, _, kind = parts.scheme.partition("+")
        if parts.scheme not in (*SCHEMES, SOCKET):
            raise ValueError
        if kind == "sentinel":
            sentinels = _nodes(parts, SENTINEL_PORT, service=parts.path.removeprefix("/").partition("/")[0])
        elif kind == "cluster":
            cluster = _nodes(parts, DEFAULT_PORT)
        port = DEFAULT_PORT if kind else parts.port or DEFAULT_PORT
    except ValueError:
        raise _no_url(url) from None
    if cluster:
        place, where = f"Redis Cluster at {cluster}", _options(parts, **_database(parts.path))
        if where.pop("db", 0):
            form = _FORMS["+cluster"]
            raise QueueUnreachable(f"The queue's URL names another database than 0, and a Redis Cluster has no other. {form}.")
    elif sentinels:
        place = f"Redis {sentinels.service} of the Sentinels at {sentinels}"
        where = _options(parts, **_database(parts.path.removeprefix(f"/{sentinels.service}")))
        sentinels = replace(sentinels, password=where.pop("sentinel_auth", False))
    elif scheme == SOCKET and parts.path:
        place, where = (
            f"Redis at {_CONTROL.sub(' ', unquote(parts.path))[:MOST_SHOWN]}",
            _options(parts, path=unquote(parts.path)),
        )
    elif scheme != SOCKET and can_be_resolved(parts.hostname or ""):
        place = f"Redis at {parts.hostname}:{port}"
        where = _options(parts, host=parts.hostname, port=port, **_database(parts.path))
    else:
        raise _no_url(url)
    files = {name: where.pop(name) for name in FILE_OPTIONS if name in where}
    if files and (not own or parts.password or (parts.username and "username_file" in files)):
        why = "give user and password once" if own else f"write user and password before the host{_in_secret()}"
        raise QueueUnreachable(
            f"The queue's URL has the option {next(iter(files))}, which is for consumers and producers: {why}."
        )
    password = unquote(parts.password) if parts.password else None
    return RedisUrl(
        place,
        scheme,
        where,
        sentinels,
        cluster,
        user=unquote(parts.username) if parts.username else None,
        password=password,
        files=files,
        asker=asker,
        stands_in=stands_in,
        _traces=_traces(password, url),
    )


def _in_secret() -> str:
    return "" if dev_queue() else ", in a Secret that spec.source.redis.urlSecretRef names"


def _nodes(parts: SplitResult, port: int, *, service: str | None = None) -> Nodes:
    """Raises ValueError."""
    hosts = [urlsplit(f"//{host}") for host in parts.netloc.rpartition("@")[2].split(",")]
    good = len(hosts) <= MOST_HOSTS and all(can_be_resolved(host.hostname or "") for host in hosts)
    if not good or (service is not None and not fullmatch(_SERVICE, service, ASCII)):
        raise ValueError
    return Nodes(tuple((host.hostname or "", host.port or port) for host in hosts), service or "")


def can_be_resolved(host: str) -> bool:
    """Whether a resolver accepts the host. It rejects names such as `redis..shop`, or with a part of more than 63 characters."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return fullmatch(_HOST, host, ASCII) is not None


def _database(path: str) -> dict[str, int]:
    if not fullmatch(r"(/[0-9]{0,9})?", path, ASCII):
        raise QueueUnreachable(f"The queue's URL does not end with the number of a database. {_FORM}.")
    return {"db": int(path[1:])} if path[1:] else {}


def _no_url(text: str) -> QueueUnreachable:
    credentials = " Write / ? # @ : in the password as %2F %3F %23 %40 %3A." if "@" in text else ""
    form = next((form for kind, form in _FORMS.items() if text.startswith((f"redis{kind}", f"rediss{kind}"))), _FORM)
    return QueueUnreachable(f"The queue's URL is not a Redis URL. {form}.{credentials}")


def _options(parts: SplitResult, **made: Any) -> dict[str, Any]:
    if parts.fragment or "@" in parts.query:
        raise _no_url(f"{parts.scheme}://@")
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in SECRET_OPTIONS:
            raise QueueUnreachable(
                f"The queue's URL has the option {name}: put user and password before the host, as in "
                f"redis://user:password@host:6379/0{_in_secret()}."
            )
        if name in FILE_OPTIONS:
            made[name] = value
            continue
        if name not in OPTIONS:
            shown = f" {name}" if fullmatch(r"[a-z_]{1,40}", name, ASCII) else ""
            raise QueueUnreachable(f"The queue's URL has the unknown option{shown}: use {', '.join(OPTIONS)}, or none.")
        if name.startswith("ssl_") and not parts.scheme.startswith("rediss"):
            raise QueueUnreachable(f"The queue's URL has the option {name}, which is for TLS: begin it with rediss://.")
        if name.startswith("sentinel_") and not parts.scheme.endswith("+sentinel"):
            raise QueueUnreachable(f"The queue's URL has the option {name}, which is for Sentinels. {_FORMS['+sentinel']}.")
        try:
            made[name] = OPTIONS[name].read(value)
        except ValueError as error:
            raise QueueUnreachable(f"The queue's URL cannot be used. option {name}: {error}.") from None
    return made


def _traces(password: str | None, url: str) -> set[str]:
    """Return all runs of a few characters of the password: in plain text, as encoded in the URL, and in base64."""
    if password is None:
        return set()
    userinfo = url.partition("://")[2].rpartition("@")[0]
    secrets = (password, quote(password, safe=""), userinfo.partition(":")[2], b64encode(password.encode()).decode())
    return {secret[start : start + _TRACE] for secret in secrets for start in range(max(1, len(secret) - _TRACE + 1))} - {""}
