"""Where a Redis is and who connects to it, for a client of another language: the options of a URL by other names."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.queues.redis.connection import CONNECTION_OPTIONS
from baton.queues.redis.credentials import Credentials
from baton.queues.redis.url import Address, RedisUrl


def server_address(url: RedisUrl) -> Mapping[str, object]:
    """Fit for JSON. It has the password; the files that the URL names for it are read now. Raises CredentialFileError."""
    options: Mapping[str, Any] = {**CONNECTION_OPTIONS, **url.options}
    user = password = None
    if url.user is not None or url.password is not None or url.files:
        *named, password = Credentials(url).get_credentials()
        user = named[0] if named else None
    mode = "single"
    hosts: Sequence[Address] = ()
    if url.sentinels is not None:
        mode, hosts = "sentinel", url.sentinels.hosts
    elif url.cluster is not None:
        mode, hosts = "cluster", url.cluster.hosts
    elif "host" in options:
        hosts = ((options["host"], options["port"]),)
    asks = url.sentinels is not None and url.sentinels.password
    return {
        "mode": mode,
        "nodes": [_node(host) for host in hosts],
        "service": url.sentinels.service if url.sentinels is not None else None,
        "db": options.get("db", 0),
        "user": user,
        "password": password,
        "sentinelUser": user if asks else None,
        "sentinelPassword": password if asks else None,
        "tls": _tls(options) if url.scheme.startswith("rediss") else None,
        "unix": options.get("path"),
        "timeoutSeconds": options["socket_timeout"],
        "connectSeconds": options["socket_connect_timeout"],
        "clientName": options.get("client_name"),
    }


def _node(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(options: Mapping[str, Any]) -> Mapping[str, object]:
    verify = options.get("ssl_cert_reqs", "required") != "none"
    return {
        "ca": options.get("ssl_ca_certs"),
        "caData": options.get("ssl_ca_data"),
        "caFolder": options.get("ssl_ca_path"),
        "cert": options.get("ssl_certfile"),
        "key": options.get("ssl_keyfile"),
        "verify": verify,
        "verifyHost": verify and bool(options.get("ssl_check_hostname", True)),
    }
