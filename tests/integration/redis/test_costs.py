"""The cost of scripts, during which the server serves no other client, by the server's own statistics."""

from pathlib import Path
from typing import Any

import redis

from baton.model.ids import Epoch
from baton.queues.redis import RedisReader
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.pods import operating
from tests.redis_server import RedisServer
from tests.waiting import until

TIMES = 20


async def test_the_cost_of_an_entry_is_independent_of_a_former_owners_leftovers(queue: Queue) -> None:
    costs = []
    for partition, left in enumerate((10, 10_000)):
        queue.send(*map(str, range(left + 2 * TIMES)), partition=partition)
        former = await queue.granted("former", 1, partition)
        for _ in range(0, left, 1000):
            former.read(partition, Epoch(1), min(left, 1000))
        owner = await queue.granted("owner", 2, partition)
        costs.append(min(_cost_of_an_entry(queue, owner, partition) for _ in range(TIMES)))
        assert await queue.operator.outstanding(partition) == 0
    assert costs[1] < 10 * costs[0], "microseconds of the server's time for the same work"


def _cost_of_an_entry(queue: Queue, owner: RedisReader, partition: int) -> int:
    """Return the cost of reading and acknowledging an entry. Take the minimum of several, as the server may be delayed."""
    before = _spent(queue)
    entries = owner.read(partition, Epoch(2), 1)
    owner.ack(partition, Epoch(2), [entry.offset for entry in entries])
    return _spent(queue) - before


async def test_the_cost_of_an_entry_is_independent_of_the_partition_count(server: RedisServer, tmp_path: Path) -> None:
    costs = []
    for partitions in (1, 100):
        queue = await make_queue(server.url, partitions)
        async with operating(queue, tmp_path) as operator:
            pod = operator.pod(f"owner-of-{partitions}")
            await operator.grant(pod, *((number, 1) for number in range(partitions)))
            queue.send("first", partition=0)
            until(lambda pod=pod: len(pod.log) == 1)  # type: ignore[misc]
            with queue.raw() as raw:
                until(lambda raw=raw: _blocked(raw), "it waits for the next entry")  # type: ignore[misc]
                before = _commands(raw)
                queue.send("second", partition=0)
                until(lambda pod=pod: len(pod.log) == 2)  # type: ignore[misc]
                until(lambda raw=raw: _blocked(raw), "it waits for the next entry")  # type: ignore[misc]
                costs.append(_commands(raw) - before)
        await queue.close()
    assert costs[1] <= costs[0] + 50, "commands for one entry, with 100 partitions as with 1, but for waits that were begun again"


async def test_an_entry_crosses_the_network_to_its_consumer_once(queue: Queue, tmp_path: Path, raw: redis.Redis) -> None:
    """The wake-up does not carry the entry."""
    size = 1_000_000
    async with operating(queue, tmp_path) as operator:
        pod = await operator.owner(0, 1, uid="owner")
        queue.send("first")
        until(lambda: len(pod.log) == 1)
        until(lambda: _blocked(raw), "it waits for the next entry")
        before = _sent(raw)
        queue.send("x" * size)
        until(lambda: len(pod.log) == 2)
        assert size < _sent(raw) - before < 1.5 * size


async def test_a_check_takes_two_scripts_for_any_number_of_partitions(server: RedisServer) -> None:
    for partitions in (1, 20, 256):
        assert await _scripts_of_a_look(server, partitions) == 2


async def test_idle_partitions_with_a_backlog_add_one_script_to_a_check(server: RedisServer) -> None:
    """Or more scripts, so that each copies little."""
    for partitions, size, more in ((20, 1, 1), (256, 1, 4), (6, 2**20, 3)):
        assert await _scripts_of_a_look(server, partitions, "x" * size) == 2 + more


async def _scripts_of_a_look(server: RedisServer, partitions: int, *entries: str) -> int:
    """Return the number of scripts of a check, with these entries in each partition. Checks that it takes few round trips."""
    queue = await make_queue(server.url, partitions)
    for partition in range(partitions if entries else 0):
        queue.send(*entries, partition=partition)
    with queue.raw() as raw:
        for _ in range(2):  # the first round connects
            scripts, trips = _scripts(raw), _read(raw)
            await queue.operator.ensure(partitions)
            checked = await queue.operator.check()
            trips, scripts = _read(raw) - trips, _scripts(raw) - scripts
    await queue.close()
    assert trips - 1 <= scripts + 1, "without the look at it"
    assert checked.lag == {partition: len(entries) for partition in range(partitions)}
    assert (checked.oldest is None) == (not entries)
    return scripts


def _scripts(raw: redis.Redis) -> int:
    commands: Any = raw.info("commandstats")
    return int(commands["cmdstat_evalsha"]["calls"])


def _read(raw: redis.Redis) -> int:
    """Return how often the server has read from a connection."""
    stats: Any = raw.info("stats")
    return int(stats["total_reads_processed"])


def _sent(raw: redis.Redis) -> int:
    """Return the bytes that the server has sent."""
    stats: Any = raw.info("stats")
    return int(stats["total_net_output_bytes"])


def _blocked(raw: redis.Redis) -> bool:
    clients: Any = raw.info("clients")
    return bool(clients["blocked_clients"])


def _commands(raw: redis.Redis) -> int:
    """Return the number of commands that clients have sent, except INFO."""
    commands: Any = raw.info("commandstats")
    return sum(int(of["calls"]) for command, of in commands.items() if command != "cmdstat_info")


def _spent(queue: Queue) -> int:
    """Return the microseconds that the server has spent in scripts."""
    with queue.raw() as raw:
        commands: Any = raw.info("commandstats")
    return int(commands.get("cmdstat_evalsha", {}).get("usec", 0)) + int(commands.get("cmdstat_eval", {}).get("usec", 0))
