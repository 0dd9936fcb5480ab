"""The number of partitions changes up and down while producers with old tables send, partitions change hands, former owners come
back, the operator ends between any two requests, old requests arrive again, and the server forgets what it has just answered.

One thread takes all the steps, in a random order that a seed gives: each request is one step at the server.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisQueue, RedisReader, scripts
from baton.queues.redis.batches import ScriptRun
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.resizer import Resizer
from baton.queues.redis.routing import RoutingTable, slot_of
from baton.queues.redis.transport import Connections, Transport
from baton.queues.redis.url_files import TlsFiles
from tests.integration.redis.conftest import GROUP
from tests.integration.redis.test_resizing import accepted_once
from tests.redis_command import command, history_of, table_of
from tests.redis_server import RedisServer

pytestmark = pytest.mark.promise

COUNTS = (13, 8, 12)
KEYS = [b"key-%d" % number for number in range(60)]
PRODUCERS = 4
MEMBERS = 4
FORGETS = dict.fromkeys((scripts.RESIZE, scripts.SEAL, scripts.OPEN, scripts.PUBLISH, scripts.DRAINED, scripts.RESIZED), 0.08)
"""How often the server forgets that it has carried out such a request."""


class Crash(Exception):  # noqa: N818 - what happens
    """The operator ends here."""


@dataclass
class Record:
    """Records each entry's life, and checks the order."""

    sent: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    seen: dict[bytes, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """By key, the partition in which each number was handed out."""
    done: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))
    offsets: dict[tuple[int, str], bytes] = field(default_factory=dict)

    def number(self, key: bytes) -> bytes:
        self.sent[key] += 1
        return b"%s:%d" % (key, self.sent[key])

    def handed_out(self, entry: Entry) -> None:
        key, number = entry.value.rsplit(b":", 1)
        n, seen, done = int(number), self.seen[key], self.done[key]
        assert self.offsets.setdefault((entry.partition, entry.offset), entry.value) == entry.value
        assert n not in done, f"{entry.value!r} was done before"
        if n in seen:
            assert entry.redelivered and seen[n] == entry.partition
            return
        assert n == len(seen) + 1, f"{entry.value!r} came before {len(seen) + 1}"
        assert all(m in done for m, where in seen.items() if where != entry.partition), f"{entry.value!r} did not wait"
        seen[n] = entry.partition

    def finished(self, entry: Entry) -> None:
        key, number = entry.value.rsplit(b":", 1)
        assert int(number) not in self.done[key]
        self.done[key].add(int(number))

    @property
    def whole(self) -> bool:
        return all(self.done[key] == set(range(1, count + 1)) for key, count in self.sent.items())


@dataclass
class Producer:
    """Like RedisProducer, but it sends only when its turn comes, and loses answers."""

    raw: redis.Redis
    queue: str
    name: str
    chance: random.Random
    waiting: list[tuple[int, int, bytes, bytes, bytes]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    table: RoutingTable | None = None
    moved: int = 0
    away: int = 0
    """The number of turns that it skips."""

    def take(self, record: Record, keys: Sequence[bytes]) -> None:
        for _ in range(self.chance.randrange(4)):
            key = self.chance.choice(keys)
            self.sequences[slot_of(key)] += 1
            self.waiting.append((slot_of(key), self.sequences[slot_of(key)], key, record.number(key), b""))

    def send(self) -> None:
        self.away -= 1
        if self.away > 0:
            return
        if self.table is None:
            self.table = table_of(self.raw, self.queue)
        if not self.waiting:
            return
        partition = self.table.partitions[self.chance.choice(self.waiting)[0]]
        batch = [entry for entry in self.waiting if self.table.partitions[entry[0]] == partition][: self.chance.randint(1, 8)]
        arguments = [self.name, *(part for entry in batch for part in entry)]
        answer = scripts.ADD.run(self.raw, partition_keys(self.queue, partition), arguments)
        moved = [] if isinstance(answer, int) else [place for place, code in enumerate(answer[0]) if code in b"mw"]
        if self.chance.random() < 0.1:
            moved = list(range(len(batch)))  # the answer is lost
            self.away = self.chance.choice((0, 5, 50))
        added = {entry for position, entry in enumerate(batch) if position not in moved}
        self.waiting = [entry for entry in self.waiting if entry not in added]
        self.moved += len(moved)
        if moved and self.chance.random() < 0.5:
            self.table = None


@dataclass
class Member:
    """Works on entries, and on partitions that it has lost."""

    uid: str
    reader: RedisReader
    chance: random.Random
    held: dict[tuple[int, Epoch], list[Entry]] = field(default_factory=dict)
    lost: list[tuple[int, Epoch, list[Entry]]] = field(default_factory=list)
    refused: int = 0

    def work(self, partition: int, epoch: Epoch, record: Record) -> None:
        with suppress(PartitionPaused):
            self._work(partition, epoch, record)

    def lose(self, partition: int, epoch: Epoch) -> None:
        self.lost.append((partition, epoch, self.held.pop((partition, epoch), [])))

    def _work(self, partition: int, epoch: Epoch, record: Record) -> None:
        held = self.held.setdefault((partition, epoch), [])
        if held and self.chance.random() < 0.7:
            count = self.chance.randint(1, len(held))
            self.reader.ack(partition, epoch, [entry.offset for entry in held[:count]])
            for entry in held[:count]:
                record.finished(entry)
            del held[:count]
        elif len(held) < 20:
            for entry in self.reader.read(partition, epoch, self.chance.randint(1, 10)):
                record.handed_out(entry)
                held.append(entry)

    def haunt(self) -> None:
        if not self.lost:
            return
        partition, epoch, held = self.chance.choice(self.lost)
        offsets = [entry.offset for entry in held] or ["1-0"]
        for attempt in (
            lambda: self.reader.read(partition, epoch, 5),
            lambda: self.reader.ack(partition, epoch, offsets),
        ):
            with pytest.raises(StaleOwner):
                attempt()
            self.refused += 1


class World:
    """One queue with its producers and members."""

    def __init__(self, server: RedisServer, queue: str, chance: random.Random) -> None:
        self.chance = chance
        self.raw = server.client()
        self.server = server
        self.queue = queue
        self.record = Record()
        self.producers = [Producer(self.raw, queue, f"producer-{n}", chance) for n in range(PRODUCERS)]
        self.members = [Member(f"member-{n}", RedisReader(server.url, queue, f"member-{n}"), chance) for n in range(MEMBERS)]
        self.owners: dict[int, tuple[Member, Epoch]] = {}
        self.epochs: dict[int, int] = defaultdict(int)
        """The epochs of the ledger, tombstones included."""
        self.requests: list[ScriptRun] = []
        """All requests of operators that change something."""
        self.faults = True
        self.crashes = self.forgotten = 0
        keys = [list(KEYS[n::PRODUCERS]) for n in range(PRODUCERS)]
        self.keys = keys

    def steps(self) -> None:
        """Take some steps of everyone but the operator."""
        for _ in range(self.chance.randint(0, 8)):
            index = self.chance.randrange(PRODUCERS)
            match self.chance.randrange(12):
                case 0 | 1 | 2:
                    self.producers[index].take(self.record, self.keys[index])
                    self.producers[index].send()
                case 3:
                    self.producers[index].send()
                case 4:
                    self.members[self.chance.randrange(MEMBERS)].haunt()
                case 5 if self.chance.random() < 0.3:
                    self.hand_over()
                case 6 if self.requests:
                    request = self.chance.choice(self.requests)
                    request.script.run(self.raw, request.keys, request.arguments)
                case _:
                    self.work()

    def work(self) -> None:
        if self.owners:
            partition = self.chance.choice(list(self.owners))
            member, epoch = self.owners[partition]
            member.work(partition, epoch, self.record)

    def hand_over(self, partition: int | None = None) -> None:
        """Grant a partition to another member, perhaps without a pause, while the old owner holds entries."""
        partition = self.chance.choice(list(self.owners)) if partition is None else partition
        keys = partition_keys(self.queue, partition)
        if self.chance.random() < 0.5:
            scripts.PAUSE.run(self.raw, keys, [self.epochs[partition], ""])
        self.epochs[partition] += 1
        member, epoch = self.chance.choice(self.members), Epoch(self.epochs[partition])
        assert scripts.GRANT.run(self.raw, keys, [member.uid, epoch])[:2] == [member.uid.encode(), epoch]
        if partition in self.owners:
            self.owners[partition][0].lose(partition, self.owners[partition][1])
        self.owners[partition] = (member, epoch)

    def open(self, count: int) -> None:
        for partition in range(count):
            if partition not in self.owners:
                self.hand_over(partition)

    def forget(self, keys: dict[bytes, bytes]) -> None:
        """Replace the data by these keys, as if a replica that has no more took over."""
        with self.raw.pipeline() as pipe:
            pipe.flushall()
            for key, value in keys.items():
                pipe.restore(key, 0, value)
            command(pipe, "DEBUG", "CHANGE-REPL-ID")
            pipe.execute()
        self.forgotten += 1

    def everything(self) -> dict[bytes, bytes]:
        listed = self.raw.keys()
        keys = [key for key in listed if isinstance(key, bytes)]
        with self.raw.pipeline() as pipe:
            for key in keys:
                pipe.dump(key)
            return dict(zip(keys, pipe.execute(), strict=True))

    def close(self) -> None:
        self.raw.close()
        for member in self.members:
            member.reader.close()


class Interleaved(Connections):
    """Between two requests others take steps, or the operator ends. Sometimes the server forgets what it has just answered."""

    def __init__(self, *arguments: Any, world: World) -> None:
        super().__init__(*arguments)
        self._world = world
        self.before: dict[bytes, bytes] | None = None

    async def round_trip(self, requests: Sequence[ScriptRun], others: Any = ()) -> list[Any]:
        return [await self._one(request) for request in requests]

    async def _one(self, request: ScriptRun) -> Any:
        world = self._world
        world.steps()
        self._perhaps_end()
        before = world.everything() if world.faults and world.chance.random() < FORGETS.get(request.script, 0.01) else None
        answer = request.script.run(world.raw, request.keys, request.arguments)
        if request.script is not scripts.CLAIM and request.script is not scripts.READY:
            world.requests.append(request)
        if before is not None:
            world.forget(before)
        self._perhaps_end()
        return answer

    def _perhaps_end(self) -> None:
        if self._world.faults and self._world.chance.random() < 0.02:
            self._world.crashes += 1
            raise Crash


class LosesChanges(Interleaved):
    """The server forgets that a change was begun."""

    async def _one(self, request: ScriptRun) -> Any:
        before = self._world.everything()
        answer = request.script.run(self._world.raw, request.keys, request.arguments)
        if request.script is scripts.RESIZE:
            self._world.forget(before)
        return answer


class LosesBeforeCreating(Interleaved):
    """The server forgets everything since `before` when partitions are to be created."""

    async def _one(self, request: ScriptRun) -> Any:
        if request.script is scripts.CREATE and self.before is not None:
            self._world.forget(self.before)
            self.before = None
        return request.script.run(self._world.raw, request.keys, request.arguments)


class Operator(RedisQueue):
    def __init__(self, world: World, connections_of: type[Interleaved] = Interleaved) -> None:
        super().__init__(world.server.url, world.queue, GROUP)
        files = TlsFiles(None, "shop")
        self.connections = connections_of(self._url, queue_key(world.queue), files, world=world)
        self._transport = Transport(self._url, world.queue, self._announcing, files, self.connections)
        self._resizer = Resizer(self._transport, world.queue)


@pytest.fixture(scope="module")
def debugged() -> Iterator[RedisServer]:
    with RedisServer(append_only=False, debug=True) as server:
        yield server


async def change(world: World, count: int) -> None:
    """Repeat the change until it is complete, with a new operator after each crash."""
    operator = Operator(world)
    while True:
        try:
            resizing = await operator.ensure(count)
            found = (await operator.check()).partitions
        except (Crash, QueueUnreachable) as failure:
            ended = isinstance(failure if isinstance(failure, Crash) else failure.__context__, Crash)
            assert ended or "failed over" in str(failure), failure
            await operator.close()
            operator = Operator(world)
            continue
        assert found is not None
        world.open(found)
        if resizing is None and found == count:  # otherwise the server has forgotten the end of the change
            break
        world.steps()
    await operator.close()
    for partition in [partition for partition in world.owners if partition >= count]:
        await withdrawn(world, partition)


async def withdrawn(world: World, partition: int) -> None:
    """Withdraw an empty partition."""
    member, epoch = world.owners.pop(partition)
    member.lose(partition, epoch)
    world.epochs[partition] += 1
    epoch = Epoch(world.epochs[partition])
    operator = RedisQueue(world.server.url, world.queue, GROUP)
    assert (await operator.check()).lag[partition] == 0
    assert await operator.grant(partition, None, epoch) == (None, epoch, False)
    await operator.close()


@pytest.mark.parametrize("seed", range(3))
async def test_every_key_keeps_its_order_and_nothing_is_lost(debugged: RedisServer, seed: int) -> None:
    world = World(debugged, f"shop/changing-{seed}", random.Random(seed))
    operator = RedisQueue(debugged.url, world.queue, GROUP)
    await operator.ensure(12)
    world.open(12)
    for count in COUNTS * 2:
        for _ in range(30):
            world.steps()
        await change(world, count)
    world.faults = False
    for _ in range(20_000):
        for producer in world.producers:
            producer.send()
        world.work()
        if world.record.whole:
            break
    assert world.record.whole
    assert sum(member.refused for member in world.members) > 100
    assert sum(producer.moved for producer in world.producers) > 20
    assert world.crashes > 5 and world.forgotten > 2
    assert set((await operator.check()).lag.values()) == {0}
    assert not world.raw.keys("*stage*")
    await operator.close()
    world.close()


async def test_steps_begun_before_a_failover_have_no_effect_after_it(debugged: RedisServer) -> None:
    """The new primary may have lost the records that they follow from."""
    world = World(debugged, "shop/failed-over", random.Random(0))
    operator = RedisQueue(debugged.url, world.queue, GROUP)
    await operator.ensure(2)
    queue, giver, taker = [queue_key(world.queue)], *(partition_keys(world.queue, partition) for partition in range(2))
    text = RoutingTable.even(2, 3).to_text()
    steps = [
        ScriptRun(scripts.RECALL, queue, [1, RoutingTable.even(1, 2).to_text(), 2, 2]),
        ScriptRun(scripts.CREATE, giver, [10, 0, 1, 0, 1]),
        ScriptRun(scripts.READY, queue, [10, 0]),
        ScriptRun(scripts.RESIZE, queue, [GROUP.uid, 1, 3, 3, text]),
        ScriptRun(scripts.SEAL, giver, [2, 0]),
        ScriptRun(scripts.REMEMBER, taker, ["0:producer", "1 1000"]),
        ScriptRun(scripts.OPEN, taker, [2, 0, 0]),
        ScriptRun(scripts.PUBLISH, queue, [2]),
        ScriptRun(scripts.DRAINED, giver, [2]),
        ScriptRun(scripts.UNBLOCK, taker, [2, 0, 0]),
        ScriptRun(scripts.RESIZED, queue, [2]),
    ]
    before = history_of(world.raw)
    command(world.raw, "DEBUG", "CHANGE-REPL-ID")
    now = history_of(world.raw)
    world.raw.hdel(queue_key(world.queue), "ready")
    for script, keys, arguments, *_ in steps:
        everything = world.everything()
        assert script.run(world.raw, keys, [before, *arguments]) == 0
        assert world.everything() == everything
        assert script.run(world.raw, keys, [now, *arguments]) == 1
    assert (table_of(world.raw, world.queue).to_text(), world.raw.hget(taker.slots, "0")) == (text, b"2")
    await operator.close()
    world.close()


async def test_a_change_lost_in_a_failover_seals_no_slot(debugged: RedisServer) -> None:
    """The former primary had recorded the change and answered; the new one never had it."""
    world = World(debugged, "shop/never-changed", random.Random(0))
    operator = Operator(world, LosesChanges)
    await operator.ensure(2)
    assert await operator.ensure(3) is not None
    assert world.forgotten == 1
    assert await operator.ensure(2) is None
    accepted_once(world.raw, world.queue, 2)
    await operator.close()
    world.close()


async def test_slots_of_a_lost_change_are_not_created_at_their_new_partition(debugged: RedisServer) -> None:
    """An operator starts, reads the records of a change, and creates missing keys at a primary that never had the change."""
    world = World(debugged, "shop/lost-before-creating", random.Random(0))
    operator = Operator(world, LosesBeforeCreating)
    await operator.ensure(2)
    before = world.everything()
    while await operator.ensure(3) is not None:
        pass
    starting = Operator(world, LosesBeforeCreating)
    starting.connections.before = before
    with pytest.raises(QueueUnreachable, match="failed over"):
        await starting.ensure(None)
    assert await starting.ensure(None) is None
    accepted_once(world.raw, world.queue, 3)
    for each in (operator, starting):
        await each.close()
    world.close()
