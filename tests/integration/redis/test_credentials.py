"""User and password in files, as a mounted Secret has them: another one counts from the next connection on, without a restart."""

from pathlib import Path

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisAnnouncements, RedisProducer, RedisQueue, RedisReader
from tests.integration.redis.conftest import GROUP
from tests.redis_server import RedisServer

NAME = "shop/orders"
FIRST, SECOND = "Fp7-quokka", "numbat-8Xy"


def change(server: RedisServer, password: str) -> None:
    """At the server, which ends the connections of the user."""
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "shop", "on", "resetpass", f">{password}", "~*", "+@all")
        raw.execute_command("CLIENT", "KILL", "USER", "shop")


async def test_another_password_in_the_file_is_used_from_the_next_connection_on(tmp_path: Path) -> None:
    user, password = tmp_path / "username", tmp_path / "password"
    user.write_text("shop\n")
    password.write_text(FIRST + "\n")
    with RedisServer() as server:
        change(server, FIRST)
        operator = RedisQueue(server.url, NAME, GROUP)
        await operator.ensure(1)
        await operator.grant(0, Uid("a"), Epoch(1))
        url = f"{server.url}?username_file={user}&password_file={password}"
        with (
            RedisProducer(url, NAME, patience=0.3) as producer,
            RedisReader(url, NAME, "a") as reader,
        ):
            announcements = RedisAnnouncements(url, GROUP.group, Uid("a"))
            for number, word in enumerate((FIRST, SECOND)):
                change(server, word)
                if word != FIRST:
                    for ask in (
                        lambda: producer.send("key", "lost"),
                        lambda: reader.read(0, Epoch(1)),
                        lambda: reader.wait([0], 0.3),
                        lambda: announcements.wait(0.3),
                    ):
                        with pytest.raises(
                            QueueUnreachable, match=f"refused the user or password for .* in {user} and {password}"
                        ):
                            ask()
                    password.write_text(word)
                producer.send("key", f"{number}")
                assert [entry.value for entry in reader.read(0, Epoch(1))] == [b"%d" % number]
                assert list(announcements.look([Partition(QueueName("orders"), 0)]).values()) == [("a", 1, False, None)]
            announcements.close()
        await operator.close()


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"p" * 5000])
def test_a_file_without_a_password_is_named_with_its_option(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with (
        RedisServer(password=FIRST) as server,
        RedisProducer(f"redis://127.0.0.1:{server.port}/0?password_file={file}", NAME, patience=0.1) as producer,
        pytest.raises(QueueUnreachable, match="option password_file, which names no file with one: put one there"),
    ):
        producer.send("key", "value")
