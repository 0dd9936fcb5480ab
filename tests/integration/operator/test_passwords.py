"""A password is shown nowhere, whatever its server does with it."""

import json
import os
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from baton.kube.api import core_path
from baton.kube.objects import groups_path, queues_path
from tests.integration.operator.world import Operator, World
from tests.redis_server import RedisServer
from tests.self_signed import self_signed
from tests.waiting import eventually

PASSWORD = "Fp7-quokka/4ever"
IN_URL = "Fp7-quokka%2F4ever"
TRACES = ("quokka", "4ever", "Rnc3LXF1b2trYS80ZXZlcg", "UA3LXF1b2trYS80ZXZlcg")
"""Parts of it, and of it in base64."""


class Parrot(socketserver.StreamRequestHandler):
    """Answers each command with an error that repeats it, as Redis does with unknown commands."""

    def handle(self) -> None:
        while (line := self.rfile.readline()) and line.startswith(b"*"):
            words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
            said = b" ".join(words)
            self.wfile.write(b"-ERR unknown command, with args beginning with: '" + said + b"' redis://:" + said + b"@you\r\n")


class Deaf(socketserver.StreamRequestHandler):
    """Takes connections, and what is sent; and says nothing."""

    def handle(self) -> None:
        while self.rfile.read(1):
            pass


@contextmanager
def serving(handler: type[socketserver.StreamRequestHandler], certificate: Path | None = None) -> Iterator[int]:
    """The port of a server."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, str]]]:
    """By queue: a URL with the password that leads to trouble, and what is said of that."""
    with ExitStack() as stack:
        plain = stack.enter_context(RedisServer(password=PASSWORD))
        other = stack.enter_context(RedisServer(password="another"))
        replica = stack.enter_context(RedisServer(replica_of=plain))
        with redis.Redis.from_url(replica.url) as raw:
            raw.config_set("requirepass", PASSWORD)
        with redis.Redis(port=plain.port, password=PASSWORD) as raw:
            raw.execute_command("ACL", "SETUSER", "reader", "on", f">{PASSWORD}", "~*", "+info", "+ping", "+select", "+client")
        parrot, deaf = (stack.enter_context(serving(handler)) for handler in (Parrot, Deaf))
        tls = tmp_path_factory.mktemp("tls")
        strange = stack.enter_context(serving(Parrot, self_signed(tls)))
        os.mkfifo(tls / "pipe")

        def at(port: int, scheme: str = "redis", user: str = "", rest: str = "") -> str:
            return f"{scheme}://{user}:{IN_URL}@127.0.0.1:{port}{rest}"

        no_file = "names no file that the operator may read"
        yield {
            "unreachable": (at(1), "does not answer"),
            "no-such-host": (f"redis://:{IN_URL}@[fe80::1%25nowhere]", "The operator cannot resolve 'fe80::1%25nowhere'"),
            "wrong-password": (at(other.port), "refused the user or password"),
            "wrong-user": (at(plain.port, user=PASSWORD.replace("/", "%2F")), "refused the user or password"),
            "no-permission": (at(plain.port, user="reader"), "does not permit its user what"),
            "read-only": (at(replica.port), "is a read-only replica"),
            "no-database": (at(plain.port, rest="/4711"), "has no database 4711"),
            "plain-not-tls": (at(plain.port, "rediss"), "If it does not speak TLS, begin its URL with redis://"),
            "untrusted": (at(strange, "rediss"), "do not agree on TLS"),
            "no-ca-file": (at(plain.port, "rediss", rest="?ssl_ca_certs=/nowhere/ca.pem"), no_file),
            "endless-ca-file": (at(strange, "rediss", rest=f"?ssl_ca_certs={tls}/pipe"), no_file),
            "endless-certificate": (at(strange, "rediss", rest="?ssl_certfile=/dev/zero"), no_file),
            "bad-option": (at(plain.port, rest="/?db=x"), "option db: write a number such as 0"),
            "unknown-option": (at(plain.port, rest="/?ssl=on"), "has the unknown option ssl"),
            "password-option": (f"redis://127.0.0.1/?password={IN_URL}", "has the option password"),
            "not-encoded": (f"redis://:{PASSWORD}@127.0.0.1:{plain.port}", "in the password as %2F"),
            "no-url": (f"amqp://:{IN_URL}@127.0.0.1", "has no Redis URL under"),
            "parrot": (at(parrot), "its text is left out because it contains a part of the password"),
            "deaf": (at(deaf), "does not answer"),
        }


async def test_no_password_is_shown_whatever_its_server_does(
    empty: World, start: Callable[..., Operator], urls: dict[str, tuple[str, str]]
) -> None:
    operator = await start(empty, "discreet", "--log-level", "debug").leads()
    for name, (url, _) in urls.items():
        await empty.secret(name, url)
        await empty.queue(name, {"type": "Redis", "redis": {"urlSecretRef": {"name": name}}}, 2)
        await empty.group(name)
        await empty.pod(f"{name}-a", name)
    for name, (_, said) in urls.items():
        await empty.told(name, "QueueUnreachable", says=said)

        async def event(name: str = name) -> bool:
            return any(one["regarding"]["name"] == name for one in await empty.events("QueueUnreachable"))

        await eventually(event, f"{name} has an event")
    shown: dict[str, Any] = {
        "metrics": operator.get("/metrics")[1],
        "health": operator.get("/healthz")[1],
        "groups": await empty.api.get(groups_path(empty.namespace)),
        "queues": await empty.api.get(queues_path(empty.namespace)),
        "events": await empty.api.get(core_path(empty.namespace, "events")),
        "ledgers": await empty.api.get(core_path(empty.namespace, "configmaps")),
    }
    operator.stop()
    shown["log"] = operator.log.read_text()
    assert "a queue cannot be used" in shown["log"]
    for where, what in shown.items():
        text = what if isinstance(what, str) else json.dumps(what)
        assert not [trace for trace in (PASSWORD, IN_URL, *TRACES) if trace in text], f"the {where} show a password"
