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
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def out(queue: Queue) -> str:
    """A topic for outputs, of three partitions."""
    name = f"out-of-{queue.topic}"
    queue.broker.make_topic(name, 3)
    return name


def finish(reader: KafkaReader, entries: Sequence[Entry], *outputs: Output, soon: bool = False) -> None:
    offsets = [entry.offset for entry in entries]
    reader.ack(entries[0].partition, entries[0].epoch, offsets, soon=soon, together=[FinishedTogether(offsets, outputs)])


async def test_outputs_are_there_when_the_offset_has_gone_over_their_entries_and_in_order(queue: Queue, out: str) -> None:
    queue.send("a", "b", "c")
    reader = await queue.granted("a", 1)
    first, second, third = await asyncio.to_thread(read, reader, 0, 1, 3)
    await asyncio.to_thread(finish, reader, [second], Output(out, b"2", partition=1))
    assert (await queue.committed(), committed_values(queue.broker, out)) == (0, [[], [], []]), "the first is not finished"
    await asyncio.to_thread(finish, reader, [first, third], Output(out, b"1", partition=1), Output(out, None, b"k", {"h": b"x"}))
    assert await queue.committed() == 3
    found = committed_values(queue.broker, out)
    assert found[1] == [b"2", b"1"] and [None] in found


async def test_headers_are_sent_on_as_they_came(queue: Queue, out: str) -> None:
    headers = {"h": b"1", "empty": b"", "alone": None}
    queue.send("a", headers=headers)
    reader = await queue.granted("a", 1)
    (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
    sent = Output.of(out, entry.value, entry.key, entry.headers, 0)
    await asyncio.to_thread(finish, reader, [entry], sent)
    (found,) = (await asyncio.to_thread(committed_messages, queue.broker, out))[0]
    assert dict(found.headers() or ()) == headers


async def test_several_commits_under_one_token_and_large_ones(queue: Queue, out: str) -> None:
    queue.send(*map(str, range(4)))
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 4)
    for entry in entries:
        outputs = [Output(out, f"{entry.offset}-{n}".encode() + b"." * 300_000, partition=n % 3) for n in range(12)]
        await asyncio.to_thread(finish, reader, [entry], *outputs)
    found = committed_values(queue.broker, out)
    for number, values in enumerate(found):
        wanted = [f"{offset}-{n}" for offset in range(4) for n in range(number, 12, 3)]
        assert [(value or b"").rstrip(b".").decode() for value in values] == wanted


async def test_the_largest_transactions_are_taken_one_after_the_other(queue: Queue, out: str) -> None:
    queue.send("a", "b")
    reader = await queue.granted("a", 1)
    first, second = await asyncio.to_thread(read, reader, 0, 1, 2)
    small = [Output(out, b"", partition=n % 3) for n in range(MOST_IN_TRANSACTION // EACH)]
    large = [Output(out, b"." * 500_000, partition=0)] * (MOST_IN_TRANSACTION // (500_000 + EACH))
    reader._background.close()  # so that nothing else commits
    finish(reader, [second], *large, soon=True)
    await asyncio.to_thread(finish, reader, [first], *small)
    assert await queue.committed() == 2
    assert sum(map(len, committed_values(queue.broker, out))) == len(small) + len(large)


async def test_what_nobody_waits_for_is_committed_in_a_moment_all_partitions_together(queue: Queue, out: str) -> None:
    for partition in (0, 1):
        queue.send("a", "b", partition=partition)
        await queue.operator.grant(partition, Uid("a"), Epoch(1))
    reader = queue.reader("a")
    for partition in (0, 1):
        for entry in await asyncio.to_thread(read, reader, partition, 1, 2):
            finish(reader, [entry], Output(out, f"{partition} {entry.offset}".encode()), soon=True)

    async def so() -> bool:
        return committed_values(queue.broker, out) == [[b"0 0", b"0 1"], [b"1 0", b"1 1"], []]

    await eventually(so, "outputs are committed")


async def test_a_former_owner_sends_nothing(queue: Queue, out: str) -> None:
    queue.send("a")
    stale = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, stale, 0, 1, 1)
    rightful = await queue.granted("b", 2)
    again = await asyncio.to_thread(read, rightful, 0, 2, 1)
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(finish, stale, entries, Output(out, b"stale"))
    await asyncio.to_thread(finish, rightful, again, Output(out, b"rightful", partition=0))
    assert committed_values(queue.broker, out) == [[b"rightful"], [], []]


async def test_what_was_finished_at_a_hand_off_is_sent_by_its_last_word(queue: Queue, out: str) -> None:
    queue.send("a", "b")
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 2)
    reader._background.close()  # so that nothing else commits
    finish(reader, entries[:1], Output(out, b"done", partition=2), soon=True)
    await asyncio.to_thread(reader.let_go, {0: Epoch(1)}, PATIENCE)
    assert (await queue.committed(), committed_values(queue.broker, out)) == (1, [[], [], [b"done"]])


async def test_a_topic_that_is_not_there_is_told_and_its_outputs_are_sent_once_when_it_is(queue: Queue, out: str) -> None:
    queue.send("a")
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 1)
    outputs = Output(out, b"one", partition=0), Output(f"{out}-later", b"two", partition=0)
    for _ in range(2):
        said = rf"outputs cannot be sent to the topic {out}-later: it is not there, or .* may not see it: create it$"
        with pytest.raises(QueueUnreachable, match=said):
            await asyncio.to_thread(finish, reader, entries, *outputs)
    queue.broker.make_topic(f"{out}-later", 1)
    await asyncio.to_thread(finish, reader, entries, *outputs)
    assert committed_values(queue.broker, out)[0] == [b"one"]
    assert committed_values(queue.broker, f"{out}-later") == [[b"two"]]


async def test_an_output_over_its_topics_limit_is_told_and_nothing_of_its_transaction_is_seen(queue: Queue, out: str) -> None:
    small = f"{out}-small"
    queue.broker.make_topic(small, 1, max_message_bytes="2000")
    queue.send("a", "b")
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 2)
    outputs = Output(out, b"one", partition=0), Output(small, b"x" * 5000)
    for _ in range(2):
        with pytest.raises(QueueUnreachable, match=rf"topic {small}.*larger than it takes: raise its max.message.bytes"):
            await asyncio.to_thread(finish, reader, entries[:1], *outputs)
    assert await queue.committed() == 0
    queue.broker.configure_topic(small, "max.message.bytes", "10000")
    await asyncio.to_thread(finish, reader, entries[:1], *outputs)
    assert (await queue.committed(), committed_values(queue.broker, out)[0]) == (1, [b"one"])
    assert committed_values(queue.broker, small) == [[b"x" * 5000]]


async def test_a_name_that_no_topic_may_have_is_told(queue: Queue) -> None:
    queue.send("a")
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 1)
    with pytest.raises(QueueUnreachable, match="the topic no/name: no topic may have this name"):
        await asyncio.to_thread(finish, reader, entries, Output("no/name", b"x"))


async def test_a_partition_that_is_not_there_is_told(queue: Queue, out: str) -> None:
    queue.send("a")
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 1)
    with pytest.raises(QueueUnreachable, match="there is no partition 7: it has 3"):
        await asyncio.to_thread(finish, reader, entries, Output(out, b"x", partition=7))


async def test_outputs_of_a_commit_that_is_in_doubt_are_sent_once(make: MakeQueue, broker: KafkaBroker) -> None:
    queue = make(partitions=1)
    out = f"out-of-{queue.topic}"
    broker.make_topic(out, 1)
    queue.send("1", "2", "3")
    reader = await queue.granted("a", 1)
    first, second, third = await asyncio.to_thread(read, reader, 0, 1, 3)
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
