"""Under load, while partitions change hands and former owners go on: every entry is finished exactly
once and in order, and former owners are refused."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.redis import RedisReader
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.promise

PARTITIONS = 6
MEMBERS = 4
MESSAGES = 6000
HANDOFFS = 150
DEADLINE = 0.03


@dataclass
class Member:
    """Works on its partitions, and on those that it has lost."""

    uid: str
    reader: RedisReader
    granted: dict[int, Epoch] = field(default_factory=dict)
    lost: list[tuple[int, Epoch, list[str]]] = field(default_factory=list)
    """Lost partitions, their epochs, and the offsets that were in hand."""
    finished: dict[int, list[tuple[Epoch, bytes]]] = field(default_factory=dict)
    """Values whose acknowledgement was accepted."""
    seen: list[tuple[int, bytes, Epoch, bool]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)

    def run(self, over: threading.Event, chance: random.Random) -> None:
        while not over.is_set():
            for partition, epoch in list(self.granted.items()):
                self.work(partition, epoch, chance)
            if self.lost:
                self.haunt(*chance.choice(self.lost))

    def work(self, partition: int, epoch: Epoch, chance: random.Random) -> None:
        offsets: list[str] = []
        try:
            entries = self.reader.read(partition, epoch, chance.choice((1, 5, 20)))
            self.seen += [(partition, entry.value, epoch, entry.redelivered) for entry in entries]
            for entry in entries:
                offsets = [entry.offset]
                self.reader.ack(partition, epoch, offsets)
                self.finished.setdefault(partition, []).append((epoch, entry.value))
                if chance.random() < 0.02:
                    time.sleep(DEADLINE * 2)  # pause past the deadline
        except PartitionPaused:
            pass
        except StaleOwner:
            self.lose(partition, epoch, offsets)

    def lose(self, partition: int, epoch: Epoch, offsets: list[str]) -> None:
        self.lost.append((partition, epoch, offsets or ["1-0"]))
        if self.granted.get(partition) == epoch:
            del self.granted[partition]

    def haunt(self, partition: int, epoch: Epoch, offsets: list[str]) -> None:
        attempts: dict[str, Callable[[], object]] = {
            "read": lambda: self.reader.read(partition, epoch, 5),
            "ack": lambda: self.reader.ack(partition, epoch, offsets),
        }
        for what, attempt in attempts.items():
            try:
                attempt()
                self.accepted.append(f"{what} {partition}@{epoch}")
            except StaleOwner:
                self.refused[what] += 1


async def hand_around(queue: Queue, members: list[Member], chance: random.Random) -> None:
    """As the operator does: pause, wait for what is outstanding or the deadline, grant; and repeat old steps now and then."""
    epochs = dict.fromkeys(range(PARTITIONS), Epoch(1))
    for partition in range(PARTITIONS):
        await grant(queue, members[partition % MEMBERS], partition, epochs[partition])
    for _ in range(HANDOFFS):
        partition = chance.randrange(PARTITIONS)
        await queue.operator.pause(partition, epochs[partition])
        deadline = time.monotonic() + DEADLINE
        while await queue.operator.outstanding(partition) and time.monotonic() < deadline:  # noqa: ASYNC110 - it is Redis that knows
            await asyncio.sleep(0.002)
        old, epochs[partition] = epochs[partition], Epoch(epochs[partition] + 1)
        await grant(queue, chance.choice(members), partition, epochs[partition])
        if chance.random() < 0.3:
            assert await queue.operator.pause(partition, old) == 0
            record = await queue.operator.grant(partition, Uid("a controller that was deposed"), old)
            assert record.epoch == epochs[partition]


async def grant(queue: Queue, member: Member, partition: int, epoch: Epoch) -> None:
    assert await queue.operator.grant(partition, Uid(member.uid), epoch) == (member.uid, epoch, False)
    member.granted[partition] = epoch


ATTEMPTS = ("read", "ack")


def refusals(members: list[Member]) -> Counter[str]:
    return sum((member.refused for member in members), Counter())


async def test_former_owners_are_refused_under_load(server: RedisServer) -> None:
    queue = await make_queue(server.url, PARTITIONS)
    chance = random.Random(20)
    members = [Member(f"member-{number}", queue.reader(f"member-{number}")) for number in range(MEMBERS)]
    keys = [queue.key(partition, nth) for partition in range(PARTITIONS) for nth in range(5)]
    over = threading.Event()
    threads = [threading.Thread(target=member.run, args=(over, random.Random(index))) for index, member in enumerate(members)]

    def produce() -> None:
        for begin in range(0, MESSAGES, 50):
            queue.producer.send_many((keys[n % len(keys)], b"%s:%d" % (keys[n % len(keys)], n)) for n in range(begin, begin + 50))
            time.sleep(0.01)

    threads.append(threading.Thread(target=produce))
    for thread in threads:
        thread.start()
    try:
        await hand_around(queue, members, chance)
        threads[-1].join(PATIENCE)

        async def drained() -> bool:
            return not any((await queue.operator.check()).lag.values())

        await eventually(drained, "everything is finished with", shown=queue.operator.check)
        until(lambda: min(refusals(members)[what] for what in ATTEMPTS) > 100, "they have tried everything a hundred times")
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)

    assert [attempt for member in members for attempt in member.accepted] == []
    refused = refusals(members)
    assert sum((await queue.stale_refused()).values()) >= sum(refused.values())
    each_exactly_once_and_in_order(members)
    only_what_is_marked_was_seen_before(members)
    await queue.close()


def each_exactly_once_and_in_order(members: list[Member]) -> None:
    last: dict[bytes, int] = {}
    count = 0
    for partition in range(PARTITIONS):
        finished = [item for member in members for item in member.finished.get(partition, [])]
        for _, value in sorted(finished, key=lambda item: item[0]):  # stable, so it keeps the order within an epoch
            key, number = value.split(b":")
            assert last.get(key, -1) < int(number)
            last[key] = int(number)
            count += 1
    assert count == MESSAGES


def only_what_is_marked_was_seen_before(members: list[Member]) -> None:
    first: dict[tuple[int, bytes], Epoch] = {}
    for partition, value, epoch, redelivered in sorted((s for member in members for s in member.seen), key=lambda s: s[2]):
        if (partition, value) in first:
            assert redelivered, (value, epoch, first[partition, value])
        first.setdefault((partition, value), epoch)
