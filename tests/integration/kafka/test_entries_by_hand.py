"""`baton send`, `baton peek` and `baton tail` on a topic."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from baton.cli.main import main
from baton.model.ids import Epoch
from tests.following import tailing
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.integration.kafka.test_security import Acls, acls, allow_work
from tests.kafka_broker import ORDERED
from tests.kafka_broker.jars import USERS
from tests.waiting import PATIENCE

__all__ = ["acls"]

ONE = Epoch(1)


def server(queue: Queue, user: str = "") -> list[str]:
    port = f"{user}:{USERS[user].replace(' ', '%20')}@127.0.0.1:{queue.broker.sasl_port}" if user else queue.broker.servers
    return ["orders", "--topic", queue.topic, "--kafka-url", f"kafka://{port}/?group={queue.group}"]


async def call(queue: Queue, command: str, *arguments: str, given: str | None = None, user: str = "") -> Result:
    words = [command, *server(queue, user), *arguments]
    return await asyncio.to_thread(lambda: CliRunner().invoke(main, words, input=given))


async def peeked(queue: Queue, *arguments: str, user: str = "") -> list[Any]:
    done = await call(queue, "peek", "-o", "json", "--partition", "0", *arguments, user=user)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


async def values(queue: Queue, *arguments: str, user: str = "") -> list[str]:
    return [one["value"] for one in await peeked(queue, *arguments, user=user)]


def members(queue: Queue) -> list[str]:
    """Members of the group in Kafka."""
    admin = queue.broker.admin()
    return [one.member_id for one in admin.describe_consumer_groups([queue.group])[queue.group].result(PATIENCE).members]


async def test_peek_shows_sent_entries_as_a_consumer_reads_them(queue: Queue) -> None:
    done = await call(queue, "send", "--partition", "0", "--key", "k", "--header", "trace=7", "paid")
    assert done.stdout == f"{queue.topic}: sent to partition 0 at offset 0\n"
    queue.send(None, headers={"bytes": b"\xff", "none": None})
    found = await peeked(queue)
    assert [(one["key"], one["value"], one["headers"]) for one in found] == [
        ("k", "paid", {"trace": "7"}),
        ("k", None, {"none": None}),
    ]
    assert found[1]["headersBase64"] == {"bytes": "/w=="}
    reader = await queue.granted("a", ONE)
    those = await asyncio.to_thread(read, reader, 0, 1, 2)
    assert [(entry.offset, entry.timestamp) for entry in those] == [(one["offset"], one["timestamp"]) for one in found]
    assert (await call(queue, "peek", "--partition", "0")).stdout.splitlines()[1].endswith("(deleted)")


async def test_peek_starts_at_the_groups_offset_and_changes_nothing(queue: Queue) -> None:
    queue.send("1", "2", "3")
    reader = await queue.granted("a", ONE)
    those = await asyncio.to_thread(read, reader, 0, 1, 3)
    await asyncio.to_thread(reader.ack, 0, ONE, [those[0].offset])
    before, joined = await queue.seen(), await asyncio.to_thread(members, queue)
    assert await values(queue) == ["2", "3"]
    assert await values(queue, "--offset", "0", "--limit", "2") == ["1", "2"]
    assert await values(queue, "--offset", "3") == []
    assert await queue.seen() == before
    assert await asyncio.to_thread(members, queue) == joined
    without = ["peek", *server(queue)[:-1], f"kafka://{queue.broker.servers}", "--partition", "0"]
    said = await asyncio.to_thread(CliRunner().invoke, main, without)
    assert said.exit_code == 1 and "no group is known" in said.stderr


async def test_peek_shows_committed_messages_only(queue: Queue) -> None:
    sender = Producer({**ORDERED, "bootstrap.servers": queue.broker.servers, "transactional.id": f"by-hand-{queue.topic}"})
    sender.init_transactions(PATIENCE)
    for value, end in (("no", sender.abort_transaction), ("yes", sender.commit_transaction)):
        sender.begin_transaction()
        sender.produce(queue.topic, value, "k", 0)
        assert sender.flush(PATIENCE) == 0
        await asyncio.to_thread(end, PATIENCE)
    assert await values(queue) == ["yes"]


async def test_tail_shows_new_entries_of_all_partitions(queue: Queue) -> None:
    queue.send("before")

    def follow() -> list[Any]:
        with tailing(*server(queue), "-o", "json") as lines:
            queue.send("1", partition=0)
            queue.send("2", partition=3)
            return [json.loads(lines.readline()) for _ in range(2)]

    found = await asyncio.to_thread(follow)
    assert sorted((one["partition"], one["value"]) for one in found) == [(0, "1"), (3, "2")]
    assert (
        await call(queue, "send", "--file", "-", given='{"key": "a", "value": "b"}\n')
    ).stdout == f"{queue.topic}: 1 entry sent\n"


@pytest.mark.parametrize(
    ("size", "said", "kept"),
    [(40_000_000, "2 entries sent, then: the message has", "12"), (2_000_000, "3 entries sent, then", "123")],
)
async def test_entries_sent_before_a_file_fails_are_counted(queue: Queue, size: int, said: str, kept: str) -> None:
    lines = "".join(json.dumps({"value": value}) + "\n" for value in ("1", "2", "x" * size, "3"))
    done = await call(queue, "send", "--file", "-", "--partition", "0", given=lines)
    assert done.exit_code == 1 and said in done.stderr, done.output
    assert await values(queue, "--offset", "0") == [*kept]
    done = await call(queue, "send", "--partition", str(2**31), "4")
    assert done.exit_code == 1 and "0 entries sent, then: a partition is a number from 0 to 2147483647" in done.stderr


async def test_the_guides_rights_allow_peeking_and_sending_needs_write(make: MakeQueue, acls: Acls) -> None:
    queue = make()
    queue.send("1")
    refused = await call(queue, "peek", "--partition", "0", user="pod")
    assert refused.exit_code == 1 and "allow it by an ACL" in refused.stderr, refused.output
    allow_work(acls, "pod", queue)
    assert await values(queue, user="pod") == ["1"]
    refused = await call(queue, "send", "2", user="pod")
    assert refused.exit_code == 1 and "may not WRITE" in refused.stderr, refused.output
    *words, url = server(queue, "pod")
    words = ["peek", *words, url.partition("?")[0], "--partition", "0", "--offset", "0"]
    assert (await asyncio.to_thread(CliRunner().invoke, main, words)).stdout.endswith("  k  1\n"), (
        "it has no right to other groups"
    )
    acls.allow("pod", ResourceType.TOPIC, queue.topic, AclOperation.WRITE)
    assert (await call(queue, "send", "--partition", "0", "2", user="pod")).exit_code == 0
    assert await values(queue, user="pod") == ["1", "2"]


async def test_a_missing_topic_is_reported_with_the_cure(queue: Queue) -> None:
    words = ["peek", "orders", "--kafka-url", f"kafka://{queue.broker.servers}", "--topic", "nothing", "--partition", "0"]
    done = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert done.exit_code == 1 and "create the topic" in done.stderr
