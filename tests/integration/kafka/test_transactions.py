"""Outputs are sent in the transaction that finishes entries: visible together with the group's offset, and sent by the owner
only."""

import asyncio
from collections.abc import Sequence

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.reader import KafkaReader
from baton.queues.output import EACH, MOST_IN_TRANSACTION, FinishedTogether, Output
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import committed_messages, committed_values, read
from tests.kafka_broker import KafkaBroker
from tests.waiting import PATIENCE, eventually, until


@pytest.fixture
def out(queue: Queue) -> str:
    """A topic for outputs, of three partitions."""
    name = f"out-of-{queue.topic}"
    queue.broker.make_topic(name, 3)
    return name


def finish(reader: KafkaReader, entries: Sequence[Entry], *outputs: Output, soon: bool = False) -> None:
    offsets = [entry.offset for entry in entries]
    reader.ack(entries[0].partition, entries[0].epoch, offsets, soon=soon, together=[FinishedTogether(offsets, outputs)])


async def test_outputs_are_visible_with_the_committed_offset_and_in_order(queue: Queue, out: str) -> None:
    reader, (first, second, third) = await queue.at_hand("a", "b", "c")
    await asyncio.to_thread(finish, reader, [second], Output(out, b"2", partition=1))
    assert (await queue.committed(), committed_values(queue.broker, out)) == (0, [[], [], []]), "the first is not finished"
    await asyncio.to_thread(finish, reader, [first, third], Output(out, b"1", partition=1), Output(out, None, b"k", {"h": b"x"}))
    assert await queue.committed() == 3
    found = committed_values(queue.broker, out)
    assert found[1] == [b"2", b"1"] and [None] in found


async def test_headers_are_forwarded_unchanged(queue: Queue, out: str) -> None:
    headers = {"h": b"1", "empty": b"", "alone": None}
    reader, (entry,) = await queue.at_hand("a", headers=headers)
    sent = Output.of(out, entry.value, entry.key, entry.headers, 0)
    await asyncio.to_thread(finish, reader, [entry], sent)
    (found,) = (await asyncio.to_thread(committed_messages, queue.broker, out))[0]
    assert dict(found.headers() or ()) == headers


async def test_several_large_commits_under_one_token_succeed(queue: Queue, out: str) -> None:
    reader, entries = await queue.at_hand(*map(str, range(4)))
    for entry in entries:
        outputs = [Output(out, f"{entry.offset}-{n}".encode() + b"." * 300_000, partition=n % 3) for n in range(12)]
        await asyncio.to_thread(finish, reader, [entry], *outputs)
    found = committed_values(queue.broker, out)
    for number, values in enumerate(found):
        wanted = [f"{offset}-{n}" for offset in range(4) for n in range(number, 12, 3)]
        assert [(value or b"").rstrip(b".").decode() for value in values] == wanted


async def test_the_largest_transactions_are_accepted(queue: Queue, out: str) -> None:
    reader, (first, second) = await queue.at_hand("a", "b")
    small = [Output(out, b"", partition=n % 3) for n in range(MOST_IN_TRANSACTION // EACH)]
    large = [Output(out, b"." * 500_000, partition=0)] * (MOST_IN_TRANSACTION // (500_000 + EACH))
    reader._background.close()  # so that nothing else commits
    finish(reader, [second], *large, soon=True)
    await asyncio.to_thread(finish, reader, [first], *small)
    assert await queue.committed() == 2
    assert sum(map(len, committed_values(queue.broker, out))) == len(small) + len(large)


async def test_outputs_acked_soon_are_committed_for_all_partitions_together(queue: Queue, out: str) -> None:
    for partition in (0, 1):
        queue.send("a", "b", partition=partition)
        await queue.operator.grant(partition, Uid("a"), Epoch(1))
    reader = queue.reader("a")
    for partition in (0, 1):
        for entry in await asyncio.to_thread(read, reader, partition, 1, 2):
            finish(reader, [entry], Output(out, f"{partition} {entry.offset}".encode()), soon=True)

    wanted = [[b"0 0", b"0 1"], [b"1 0", b"1 1"], []]
    await asyncio.to_thread(until, lambda: committed_values(queue.broker, out) == wanted, "outputs are committed")


async def test_a_former_owner_sends_nothing(queue: Queue, out: str) -> None:
    stale, entries = await queue.at_hand("a")
    rightful = await queue.granted("b", 2)
    again = await asyncio.to_thread(read, rightful, 0, 2, 1)
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(finish, stale, entries, Output(out, b"stale"))
    await asyncio.to_thread(finish, rightful, again, Output(out, b"rightful", partition=0))
    assert committed_values(queue.broker, out) == [[b"rightful"], [], []]


async def test_finished_outputs_are_sent_with_the_release(queue: Queue, out: str) -> None:
    reader, entries = await queue.at_hand("a", "b")
    reader._background.close()  # so that nothing else commits
    finish(reader, entries[:1], Output(out, b"done", partition=2), soon=True)
    await asyncio.to_thread(reader.release, {0: Epoch(1)}, PATIENCE)
    assert (await queue.committed(), committed_values(queue.broker, out)) == (1, [[], [], [b"done"]])


async def test_outputs_to_a_missing_topic_are_sent_once_it_exists(queue: Queue, out: str) -> None:
    reader, entries = await queue.at_hand("a")
    outputs = Output(out, b"one", partition=0), Output(f"{out}-later", b"two", partition=0)
    for _ in range(2):
        said = rf"outputs cannot be sent to the topic {out}-later: it is not there, or .* may not see it: create it$"
        with pytest.raises(QueueUnreachable, match=said):
            await asyncio.to_thread(finish, reader, entries, *outputs)
    queue.broker.make_topic(f"{out}-later", 1)
    await asyncio.to_thread(finish, reader, entries, *outputs)
    assert committed_values(queue.broker, out)[0] == [b"one"]
    assert committed_values(queue.broker, f"{out}-later") == [[b"two"]]


async def test_an_output_over_its_topics_limit_aborts_the_whole_transaction(queue: Queue, out: str) -> None:
    small = f"{out}-small"
    queue.broker.make_topic(small, 1, max_message_bytes="2000")
    reader, entries = await queue.at_hand("a", "b")
    outputs = Output(out, b"one", partition=0), Output(small, b"x" * 5000)
    for _ in range(2):
        with pytest.raises(QueueUnreachable, match=rf"topic {small}.*larger than it takes: raise its max.message.bytes"):
            await asyncio.to_thread(finish, reader, entries[:1], *outputs)
    assert await queue.committed() == 0
    queue.broker.configure_topic(small, "max.message.bytes", "10000")
    await asyncio.to_thread(finish, reader, entries[:1], *outputs)
    assert (await queue.committed(), committed_values(queue.broker, out)[0]) == (1, [b"one"])
    assert committed_values(queue.broker, small) == [[b"x" * 5000]]


@pytest.mark.parametrize(
    ("topic", "partition", "said"),
    [("no/name", None, "the topic no/name: no topic may have this name"), ("", 7, "there is no partition 7: it has 3")],
    ids=["name", "partition"],
)
async def test_an_output_to_an_invalid_topic_or_partition_is_rejected(
    queue: Queue, out: str, topic: str, partition: int | None, said: str
) -> None:
    reader, entries = await queue.at_hand("a")
    with pytest.raises(QueueUnreachable, match=said):
        await asyncio.to_thread(finish, reader, entries, Output(topic or out, b"x", partition=partition))


async def test_outputs_of_a_commit_in_doubt_are_sent_once(make: MakeQueue, broker: KafkaBroker) -> None:
    queue = make(partitions=1)
    out = f"out-of-{queue.topic}"
    broker.make_topic(out, 1)
    reader, (first, second, third) = await queue.at_hand("1", "2", "3")
    await asyncio.to_thread(finish, reader, [first], Output(out, b"1"))
    broker.freeze()
    try:
        with pytest.raises(QueueUnreachable, match=r"does not answer|did not answer"):
            await asyncio.to_thread(finish, reader, [second], Output(out, b"2"))
    finally:
        broker.thaw()

    async def taken() -> bool:
        try:
            await asyncio.to_thread(finish, reader, [second], Output(out, b"2"))
        except QueueUnreachable:
            return False
        return True

    await eventually(taken, "the broker takes the commit")
    await asyncio.to_thread(finish, reader, [third], Output(out, b"3"))
    assert (await queue.committed(), committed_values(broker, out)) == (3, [[b"1", b"2", b"3"]])
