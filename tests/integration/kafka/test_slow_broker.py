"""A broker with slow answers, because it is overloaded or far away. Everything goes on, slowly, and slowness is not mistaken for
another problem."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Producer

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.kind import KIND
from baton.queues.kafka.reader import KafkaReader
from baton.queues.protocol import IN_USE, Ownership, QueueUnreachable
from tests.integration.kafka.conftest import GROUP
from tests.integration.kafka.reading import read_some
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.kafka_broker.jars import USERS
from tests.kafka_broker.slowed import slowed_broker
from tests.kafka_pod import shared
from tests.network import Link
from tests.waiting import PATIENCE, eventually, until

T = TypeVar("T")

LONG, TOO_LONG = 1.0, 6.0
"""Seconds for an answer."""
HANDOFF = 3.0
"""Seconds that an owner has for its release."""
PARTITIONS, EACH = 2, 50
"""Partitions, and messages of each."""


class Slow:
    """A topic whose broker is behind a slow link, and requires a password: that is three more answers to connect."""

    def __init__(self, broker: KafkaBroker, link: Link, topic: str, partitions: int) -> None:
        self._link = link
        self._addresses = {user: KafkaAddress((f"127.0.0.1:{link.port}",), user, USERS[user]) for user in ("operator", "pod")}
        self._group = f"shop.{topic}"
        self._topic = TopicToOpen(topic=topic, queue="orders")
        broker.make_topic(topic, partitions)
        producer = Producer({**ORDERED, "bootstrap.servers": broker.servers})
        for number in range(EACH * partitions):
            producer.produce(topic, str(number // partitions), partition=number % partitions)
        assert producer.flush(PATIENCE) == 0
        self._made: list[KafkaQueue | KafkaReader] = []

    def answers_after(self, seconds: float) -> None:
        self._link.delay(seconds / 2)

    def operator(self) -> KafkaQueue:
        made = KafkaQueue(self._addresses["operator"], self._group, self._topic, GROUP)
        self._made.append(made)
        return made

    def reader(self, uid: str) -> KafkaReader:
        address = self._addresses["pod"]
        made = KafkaReader(address, self._group, QueueName("orders"), Uid(uid), *shared(address, self._group))
        self._made.append(made)
        return made

    async def close(self) -> None:
        self._link.heal()
        for one in self._made:
            await (one.close() if isinstance(one, KafkaQueue) else asyncio.to_thread(one.close))


MakeSlow = Callable[..., Slow]


@pytest.fixture(scope="module")
def slowed() -> Iterator[tuple[KafkaBroker, Link]]:
    with slowed_broker() as made:
        yield made


@pytest.fixture
async def slow(slowed: tuple[KafkaBroker, Link]) -> AsyncIterator[MakeSlow]:
    """`slow(topic, partitions)`."""
    made: list[Slow] = []

    def one(topic: str, partitions: int = 1) -> Slow:
        made.append(Slow(*slowed, topic, partitions))
        return made[-1]

    yield one
    for each in made:
        await each.close()


async def in_time(question: Awaitable[T]) -> T:
    """Wait for the answer within the operator's time limit."""
    return await asyncio.wait_for(question, KIND.answers_within)


def read_all(reader: KafkaReader, partitions: range, epoch: int, each: int = EACH) -> dict[int, list[Entry]]:
    """Read so many entries of each, like a consumer that has just learned of them."""
    found: dict[int, list[Entry]] = {number: [] for number in partitions}
    for number in partitions:
        reader.ready(number, Epoch(epoch))  # they are taken up together

    def enough() -> bool:
        for number, entries in found.items():
            entries.extend(read_some(reader, number, epoch, each))
        return all(len(entries) == each for entries in found.values())

    until(enough, f"all of {partitions} is read", 3 * PATIENCE)
    return found


@pytest.mark.long
async def test_grants_commits_and_hand_offs_work_with_slow_answers(slow: MakeSlow) -> None:
    queue = slow("long", PARTITIONS)
    queue.answers_after(LONG)
    operator, giver, receiver = queue.operator(), queue.reader("a"), queue.reader("b")
    await in_time(operator.ensure(None))
    assert (await in_time(operator.check())).partitions == PARTITIONS
    await asyncio.gather(*(in_time(operator.grant(number, Uid("a"), Epoch(1))) for number in range(PARTITIONS)))
    read = await asyncio.to_thread(read_all, giver, range(PARTITIONS), 1)
    for number, entries in read.items():
        await asyncio.to_thread(giver.ack, number, Epoch(1), [entry.offset for entry in entries[:10]], soon=True)

    async def committed() -> bool:
        return set((await in_time(operator.check())).lag.values()) == {EACH - 10}

    await eventually(committed, "what is finished is committed")
    assert await in_time(operator.pause(0, Epoch(1), HANDOFF, Ownership(Uid("b"), Epoch(2)))) == IN_USE
    await asyncio.to_thread(giver.release, {0: Epoch(1)}, HANDOFF)
    for number in range(PARTITIONS):  # of 1 the giver is not told
        assert await in_time(operator.grant(number, Uid("b"), Epoch(2))) == ("b", 2, False)
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(giver.ack, 1, Epoch(1), [entry.offset for entry in read[1]])
    again = await asyncio.to_thread(read_all, receiver, range(PARTITIONS), 2, EACH - 10)
    for number, entries in again.items():
        assert [entry.value for entry in entries] == [entry.value for entry in read[number][10:]]
        assert all(entry.redelivered for entry in entries)


async def test_a_release_repeated_until_a_slow_broker_takes_it_leaves_no_duplicates(slow: MakeSlow) -> None:
    queue = slow("untaken", PARTITIONS)
    operator, giver, receiver = queue.operator(), queue.reader("a"), queue.reader("b")
    await operator.ensure(None)
    for number in range(PARTITIONS):
        await operator.grant(number, Uid("a"), Epoch(1))
    read = await asyncio.to_thread(read_all, giver, range(1), 1)
    await asyncio.to_thread(giver.ack, 0, Epoch(1), [entry.offset for entry in read[0][:-1]])
    queue.answers_after(LONG)
    assert not giver.ready(1, Epoch(1)), "it is being taken up"
    await asyncio.to_thread(giver.ack, 0, Epoch(1), [read[0][-1].offset], soon=True)
    both = dict.fromkeys(range(PARTITIONS), Epoch(1))
    assert (await asyncio.to_thread(giver.release, both, LONG)).keys() == both.keys()
    await asyncio.to_thread(until, lambda: not giver.release(both, PATIENCE), "the broker has heard it")
    queue.answers_after(0.0)
    for number in range(PARTITIONS):
        assert not await operator.outstanding(number)
        assert await operator.grant(number, Uid("b"), Epoch(2)) == ("b", 2, False)
    assert not await asyncio.to_thread(receiver.read, 0, Epoch(2)), "all of it is committed"
    entries = (await asyncio.to_thread(read_all, receiver, range(1, 2), 2))[1]
    assert not any(entry.redelivered for entry in entries), "no owner has had them"


async def test_reading_offsets_does_not_abort_a_slow_commit(slow: MakeSlow) -> None:
    queue = slow("looks")
    operator, reader = queue.operator(), queue.reader("a")
    await operator.ensure(None)
    await operator.grant(0, Uid("a"), Epoch(1))
    entries = (await asyncio.to_thread(read_all, reader, range(1), 1))[0]
    before = (await operator._committed(await operator._described()))[0].record
    queue.answers_after(LONG)
    commits = asyncio.create_task(asyncio.to_thread(reader.ack, 0, Epoch(1), [entries[0].offset]))
    looks: list[asyncio.Task[object]] = []
    while not commits.done():  # some of them come while the commit is under way
        looks.append(asyncio.create_task(operator._transactions.committed((0,))))
        await asyncio.wait({commits}, timeout=LONG / 10)
    await asyncio.gather(commits, *looks)
    after = (await operator._committed(await operator._described()))[0]
    assert before is not None and after.record is not None
    assert (after.offset, after.record.token) == (1, before.token), "no look has aborted it"


async def test_answers_that_take_too_long_are_reported_as_such(slow: MakeSlow) -> None:
    queue = slow("too-long")
    queue.answers_after(TOO_LONG)
    said = "does not answer within 4 s: check whether .* one hangs or is overloaded"
    with pytest.raises(QueueUnreachable, match=said):
        await in_time(queue.operator().ensure(None))
    with pytest.raises(QueueUnreachable, match=said):
        await asyncio.to_thread(queue.reader("a").read, 0, Epoch(1))
    queue.answers_after(0.0)
    connected = queue.operator()
    await connected.ensure(None)
    queue.answers_after(TOO_LONG)
    with pytest.raises(QueueUnreachable, match="did not answer within 4 s: check whether it hangs or is overloaded"):
        await in_time(connected.check())


async def test_a_consumer_reads_on_while_another_partition_is_taken_up(slow: MakeSlow) -> None:
    topic = slow("taken-up-beside", PARTITIONS)
    operator, reader = topic.operator(), topic.reader("a")
    await operator.ensure(None)
    for number in range(PARTITIONS):
        await operator.grant(number, Uid("a"), Epoch(1))
    await asyncio.to_thread(read_all, reader, range(1), 1, 1)
    topic.answers_after(LONG)
    assert not reader.ready(1, Epoch(1))
    assert await asyncio.to_thread(reader.read, 0, Epoch(1), 1)
    assert not reader.ready(1, Epoch(1)), "it takes several answers"
    topic.answers_after(0)
    await asyncio.to_thread(until, lambda: reader.ready(1, Epoch(1)) and reader.read(1, Epoch(1), 1))
