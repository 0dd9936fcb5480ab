"""Large entries behind small ones: a script makes the server copy only a few entries more than it returns."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisReader
from baton.queues.redis.dead_letters import RedisDeadLetters
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.sending import MOST_BYTES as MOST_BYTES_OF_AN_ENTRY
from tests.integration.redis.conftest import Queue
from tests.waiting import PATIENCE

ONE = Epoch(1)
LARGE = 100_000
MOST = 32
"""Small entries that a script reads together."""
MOST_BYTES = MOST * 2**16
"""Bytes of large entries that a script reads together."""


def asked_for(queue: Queue, read: Callable[[], object]) -> list[int]:
    """Return the counts that scripts requested during `read`."""
    counts: list[int] = []
    with queue.raw() as raw, raw.monitor() as monitor:
        read()
        raw.echo("read")
        for command in monitor.listen():
            if command["command"].startswith("ECHO"):
                return counts
            partly = re.match(r"(XREADGROUP|XRANGE) .*COUNT (\d+)", command["command"], re.IGNORECASE)
            if partly and command["client_type"] == "lua":
                counts.append(int(partly[2]))
    raise AssertionError


def all_of(reader: RedisReader) -> list[Entry]:
    found: list[Entry] = []
    while entries := reader.read(0, ONE, 1000, most_bytes=3 * LARGE):
        found += entries
    return found


async def test_the_entries_a_script_reads_depend_on_their_size(queue: Queue) -> None:
    values = ["small"] * 60 + ["x" * LARGE] * 60
    queue.send(*values)
    owner = await queue.granted("a", ONE)
    found: list[Entry] = []
    counts = asked_for(queue, lambda: found.extend(all_of(owner)))
    assert [entry.value for entry in found] == [value.encode() for value in values]
    assert not any(entry.redelivered for entry in found)
    assert 1 < max(counts) <= MOST_BYTES / LARGE, "also of the small ones before them"
    again = queue.reader("a")  # after a restart: the same for pending entries
    found.clear()
    counts = asked_for(queue, lambda: found.extend(all_of(again)))
    assert [entry.value for entry in found] == [value.encode() for value in values]
    assert all(entry.redelivered for entry in found)
    assert 1 < max(counts) <= MOST_BYTES / LARGE
    again.ack(0, ONE, [entry.offset for entry in found])
    queue.send(*["small"] * 60)
    assert max(asked_for(queue, lambda: found.extend(all_of(again)))) == MOST, "no large one is there any more"


async def test_scripts_read_few_large_foreign_entries_at_once(queue: Queue, raw: redis.Redis) -> None:
    """A producer continues after them once several scripts have set them aside."""
    queue.send("a")
    stream = partition_keys(queue.name, 0).stream
    for number in range(60):
        raw.xadd(stream, {"some": "x" * LARGE}, id=f"{8 * 10**15 + number}-0")
    assert max(asked_for(queue, lambda: queue.send("b"))) <= MOST_BYTES / LARGE
    owner = await queue.granted("a", ONE)
    assert [entry.value for entry in owner.read(0, ONE)] == [b"a", b"b"]


async def test_few_large_dead_letters_are_listed_at_once(queue: Queue) -> None:
    queue.send(*["x" * LARGE] * 60)
    owner = await queue.granted("a", ONE)
    entries = all_of(owner)
    for entry in entries:
        owner.set_aside(0, ONE, entry.offset, "hopeless")
    with RedisDeadLetters(queue.url, queue.name) as letters:
        pages = list(letters.every(0))
    assert [one.offset for page in pages for one in page] == [entry.offset for entry in entries]
    assert max(map(len, pages)) <= MOST_BYTES / LARGE


async def test_a_dead_letter_has_the_beginning_of_a_large_foreign_entry(queue: Queue, raw: redis.Redis) -> None:
    """Converting all of it to JSON took the server 20 ms per megabyte, so 300 MB never succeeded."""
    queue.send("a")
    keys = partition_keys(queue.name, 0)
    size = 8_000_000
    raw.xadd(keys.stream, {"some": "x" * size, **{f"field-{number}": "small" for number in range(1000)}})
    queue.send("b")
    owner = await queue.granted("a", ONE)
    assert [entry.value for entry in owner.read(0, ONE)] == [b"a", b"b"]
    (letter,) = queue.letters()
    some, beginning, *_ = json.loads(letter[b"value"])
    assert (some, beginning) == ("some", "x" * 1000)
    assert len(letter[b"value"]) < 10_000
    assert re.search(rb"it had 80\d{5} bytes", letter[b"why"])


async def test_an_entry_has_a_maximum_size(queue: Queue) -> None:
    value = b"x" * (MOST_BYTES_OF_AN_ENTRY - len(queue.key(0)))
    queue.producer.send(queue.key(0), value)
    for send in (queue.producer.send, queue.producer.produce):
        with pytest.raises(ValueError, match="an entry has at most 67,108,864 bytes of key, value and headers, not 67,108,865"):
            send(queue.key(0), value + b"x")
    async with AsyncRedisProducer(queue.url, queue.name) as producer:
        with pytest.raises(ValueError, match="store larger data elsewhere"):
            await producer.send(queue.key(0), value, headers={"a": b"b"})
    patient = replace(queue, url=f"{queue.url}?socket_timeout={PATIENCE:g}")
    (entry,) = (await patient.granted("a", ONE)).read(0, ONE)
    assert entry.value == value


async def test_a_failed_read_is_followed_by_a_read_of_one_entry(queue: Queue) -> None:
    queue.send(*map(str, range(10)))
    owner = await queue.granted("a", ONE)
    with pytest.MonkeyPatch.context() as away:
        away.setattr(owner._client, "evalsha", never_answered)
        with pytest.raises(QueueUnreachable):
            owner.read(0, ONE, 100)
    assert [len(owner.read(0, ONE, 100)) for _ in range(4)] == [1, 2, 4, 3]


def never_answered(*_: object) -> NoReturn:
    raise TimeoutError("no answer")
