"""Large entries behind small ones: a script has the server copy no more than a few of them beyond what it answers."""

import re
from collections.abc import Callable

import pytest
import redis
from tests.integration.redis.conftest import Queue

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisReader

pytestmark = pytest.mark.integration

ONE = Epoch(1)
LARGE = 100_000
MOST = 32
"""Entries that a script looks at together."""


def asked_for(queue: Queue, read: Callable[[], object]) -> list[int]:
    """How many entries scripts have asked for at once, meanwhile."""
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


async def test_what_a_script_looks_at_follows_from_the_size_of_entries(queue: Queue) -> None:
    values = ["small"] * 60 + ["x" * LARGE] * 60
    queue.send(*values)
    owner = await queue.granted("a", ONE)
    found: list[Entry] = []
    counts = asked_for(queue, lambda: found.extend(all_of(owner)))
    assert [entry.value for entry in found] == [value.encode() for value in values]
    assert not any(entry.redelivered for entry in found)
    assert max(counts) == MOST
    again = queue.reader("a")  # the same after a restart, of what is pending
    found.clear()
    counts = asked_for(queue, lambda: found.extend(all_of(again)))
    assert [entry.value for entry in found] == [value.encode() for value in values]
    assert all(entry.redelivered for entry in found)
    assert max(counts) == MOST


async def test_so_it_does_in_a_plan(queue: Queue) -> None:
    values = ["small"] * 60 + ["x" * LARGE] * 60
    queue.send(*values)
    owner = await queue.granted("a", ONE)
    plan = owner.plan(0, ONE, 1000)
    assert plan is not None
    found: list[Entry] = []
    counts = asked_for(queue, lambda: found.extend(owner.read_plan(0, ONE, plan)))
    assert [entry.value for entry in found] == [value.encode() for value in values]
    assert max(counts) == MOST


async def test_after_a_read_that_failed_it_asks_for_one_entry(queue: Queue) -> None:
    queue.send(*map(str, range(10)))
    owner = await queue.granted("a", ONE)
    client, owner._client = owner._client, Away()
    with pytest.raises(QueueUnreachable):
        owner.read(0, ONE, 100)
    owner._client = client
    assert [len(owner.read(0, ONE, 100)) for _ in range(4)] == [1, 2, 4, 3]


class Away(redis.Redis):
    """A server that never answers."""

    def execute_command(self, *_: object, **__: object) -> object:
        raise TimeoutError("no answer")
