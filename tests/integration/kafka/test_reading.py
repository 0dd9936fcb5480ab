"""An owner reads a topic and finishes its entries."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from baton.consumer import AssignmentSource, Consumer, Entry
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.consumer_side import KafkaConsumerSide
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.group_offsets import Commit
from baton.queues.protocol import IN_USE, PartitionUnavailable, QueueUnreachable
from tests.integration.kafka.conftest import GROUP, MakeQueue, Queue
from tests.integration.kafka.reading import committed_messages, committed_values, read, read_some, refusal_of
from tests.kafka_broker import ORDERED
from tests.waiting import HOUR, PATIENCE, eventually, until


async def test_a_message_is_read_as_it_was_sent(queue: Queue) -> None:
    queue.send("value", key="key", headers={"one": b"1", "two": b"2", "alone": None})
    queue.send(None, key="deleted")
    queue.send("keyless", key=None)
    queue.send("")
    entries = await asyncio.to_thread(read, await queue.granted("a", 1), 0, 1, 4)
    assert [(entry.key, entry.value) for entry in entries] == [
        (b"key", b"value"),
        (b"deleted", None),
        (None, b"keyless"),
        (b"k", b""),
    ]
    assert entries[0].headers == {"one": b"1", "two": b"2", "alone": None} and entries[0].timestamp > 1_700_000_000_000
    assert (entries[0].queue, [entry.offset for entry in entries]) == ("orders", ["0", "1", "2", "3"])


class NoText(str):
    """A header's name that is not valid UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff" + super().encode(encoding, errors)


async def test_an_undecodable_header_name_crashes_no_process(make: MakeQueue, caplog: pytest.LogCaptureFixture) -> None:
    queue = make(redeliveries=1)
    await queue.ensured()
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    before = 100  # Python has specialised its calls by then
    queue.send(*map(str, range(before)))
    records: Any = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, 10_000)
    records.append(0, None, b"k", b"odd", [("one", b"1"), (NoText("two"), b"2"), ("three", b"3")])
    client = KafkaClient(queue.address, queue.group, "test")
    answer = await client.to_broker(1, ProduceRequest(None, -1, 5000, [(queue.topic, [(0, bytes(records.build()))])]))
    await client.close()
    assert [one[:2] for one in answer.topics[0][1]] == [(0, 0)]
    queue.send("behind", headers={"one": b"1"})
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, before + 2)
    assert [(entry.value, entry.headers) for entry in entries[before:]] == [(b"odd", {}), (b"behind", {"one": b"1"})]
    assert f"{queue.topic}/0: the message at offset {before} comes without its headers" in caplog.text
    await asyncio.to_thread(reader.set_aside, 0, Epoch(1), str(before), "it fails")
    [[letter]] = await asyncio.to_thread(committed_messages, queue.broker, f"{queue.topic}.dead-letters")
    assert (letter.key(), letter.value(), dict(letter.headers() or ())["baton-offset"]) == (b"k", b"odd", b"%d" % before)


async def test_a_failure_whose_answer_was_lost_is_counted_once(make: MakeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make(redeliveries=1)
    await queue.ensured()
    queue.send("1")
    reader = await queue.granted("a", 1)
    await asyncio.to_thread(read, reader, 0, 1, 1)
    commit = reader._offsets.commit_several

    async def lossy(wanted: Mapping[int, Commit], within: float | None = None) -> Mapping[int, QueueUnreachable]:
        assert not await commit(wanted, within)
        return dict.fromkeys(wanted, QueueUnreachable("its answer is lost"))

    with monkeypatch.context() as lost:
        lost.setattr(reader._offsets, "commit_several", lossy)
        with pytest.raises(QueueUnreachable, match="its answer is lost"):
            await asyncio.to_thread(reader.retry, 0, Epoch(1), "0", "it fails")
    await asyncio.to_thread(reader.verify, 0, Epoch(1))
    assert await asyncio.to_thread(reader.retry, 0, Epoch(1), "0", "it fails"), "it is the same failure"
    record = await queue.record()
    assert record.tries == {0: 1}
    for _ in range(2):
        with pytest.raises(QueueUnreachable, match="for dead letters: create it"):
            await asyncio.to_thread(reader.retry, 0, Epoch(1), "0", "it fails again")
    record = await queue.record()
    assert record.tries == {0: 2}, "it is the second failure, until it is a dead letter"


async def test_lost_answers_while_taking_up_a_partition_count_as_no_attempt(
    make: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make(redeliveries=1)
    await queue.ensured()
    queue.send("1", "2")
    reader = await queue.granted("a", 1)
    lost = 0

    def lossy(real: Callable[..., Any]) -> Callable[..., Any]:
        async def told(*arguments: Any) -> Any:
            nonlocal lost
            answer = await real(*arguments)
            if lost < 3:
                lost += 1
                raise QueueUnreachable("its answer is lost")
            return answer

        return told

    for name in ("commit_several", "renewed"):
        monkeypatch.setattr(reader._offsets, name, lossy(getattr(reader._offsets, name)))
    for _ in range(3):
        with pytest.raises(QueueUnreachable, match="its answer is lost"):
            await asyncio.to_thread(reader.read, 0, Epoch(1))
    entries = await asyncio.to_thread(read, reader, 0, 1, 2)
    assert [(entry.value, entry.redelivered) for entry in entries] == [(b"1", False), (b"2", False)]
    record = await queue.record()
    assert not (record.tries or record.ends)


async def test_large_messages_are_read_within_a_bound_on_bytes(make: MakeQueue) -> None:
    queue = make(max_message_bytes="8000000")
    queue.producer = Producer({**ORDERED, "bootstrap.servers": queue.broker.servers, "message.max.bytes": 8_000_000})
    large = "x" * 5_000_000
    _, (first, second, third) = await queue.at_hand("small", large, "small")
    assert (len(first.value), len(second.value), len(third.value)) == (5, 5_000_000, 5)
    again = await queue.granted("b", 2)
    bounded = await asyncio.to_thread(until, lambda: again.read(0, Epoch(2), 10, most_bytes=1000))
    assert [len(entry.value) for entry in bounded] == [5]


async def test_the_committed_offset_skips_no_unfinished_entry(queue: Queue) -> None:
    reader, entries = await queue.at_hand(*map(str, range(6)))
    for number, offset in ((2, 0), (1, 0), (0, 3), (5, 3), (3, 4), (4, 6)):
        await asyncio.to_thread(reader.ack, 0, Epoch(1), [entries[number].offset])
        assert await queue.committed() == offset


async def test_lag_counts_uncommitted_entries_of_the_given_partitions(queue: Queue) -> None:
    queue.send(*map(str, range(6)))
    queue.send("one", "two", partition=1)
    reader = await queue.granted("a", 1)
    with pytest.raises(QueueUnreachable, match="nothing was read yet of the queue orders"):
        await asyncio.to_thread(reader.lag, [0])
    entries = await asyncio.to_thread(read, reader, 0, 1, 6)
    assert await asyncio.to_thread(reader.lag, [0, 1, 2]) == 8
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries[:2]])
    assert await asyncio.to_thread(reader.lag, [0, 1, 2]) == 6
    assert await asyncio.to_thread(reader.lag, [1]) == 2
    assert await asyncio.to_thread(reader.lag, []) == 0
    assert (await queue.operator.check()).lag == {0: 4, 1: 2, 2: 0, 3: 0}


async def test_acks_made_soon_are_committed_within_moments_and_before_a_release(
    queue: Queue,
) -> None:
    for partition in (0, 1):
        queue.send("1", "2", "3", partition=partition)
        reader = await queue.granted("a", 1, partition)
    read_of = {number: await asyncio.to_thread(read, reader, number, 1, 3) for number in (0, 1)}
    for number, entries in read_of.items():
        await asyncio.to_thread(reader.ack, number, Epoch(1), [entries[0].offset], soon=True)

    async def committed() -> bool:
        return [await queue.committed(number) for number in (0, 1)] == [1, 1]

    await eventually(committed, "both are committed")
    for number, entries in read_of.items():
        await asyncio.to_thread(reader.ack, number, Epoch(1), [entries[1].offset], soon=True)
        await asyncio.to_thread(reader.release, {number: Epoch(1)}, PATIENCE)
        assert await queue.committed(number) == 2
        assert await queue.operator.pause(number, Epoch(1)) == IN_USE, "one was not finished"


async def test_a_late_ack_made_soon_is_rejected_after_a_grant_to_another(queue: Queue) -> None:
    reader, entries = await queue.at_hand("1", "2", "3")
    await queue.granted("b", 2)

    def refused() -> bool:
        try:
            reader.ack(0, Epoch(1), [entries[0].offset], soon=True)
        except StaleOwner:
            return True
        return False

    await asyncio.to_thread(until, refused, "it is refused")
    await asyncio.to_thread(reader.release, {0: Epoch(1)}, PATIENCE)
    assert await queue.committed() == 0


async def test_entries_are_marked_redelivered_unless_the_last_owner_had_released(queue: Queue) -> None:
    first, entries = await queue.at_hand("1", "2", "3")
    await asyncio.to_thread(first.ack, 0, Epoch(1), [entries[0].offset])
    second = await queue.granted("b", 2)
    queue.send("4")
    entries = await asyncio.to_thread(read, second, 0, 2, 3)
    assert [(entry.value, entry.redelivered) for entry in entries] == [(b"2", True), (b"3", True), (b"4", True)]
    await asyncio.to_thread(second.ack, 0, Epoch(2), [entry.offset for entry in entries])
    await asyncio.to_thread(until, lambda: not second.read(0, Epoch(2)) and second._positions[0].caught_up)
    assert await queue.operator.pause(0, Epoch(2)) == IN_USE
    await asyncio.to_thread(second.release, {0: Epoch(2)}, PATIENCE)
    await queue.released()
    _, (entry,) = await queue.at_hand("5", uid="c", epoch=3)
    assert (entry.value, entry.redelivered) == (b"5", False)


async def test_entries_read_by_an_owner_unaware_of_its_successor_come_marked(queue: Queue) -> None:
    """The broker refuses no reader: a pod may go on after Kubernetes has forgotten it."""
    former, (first,) = await queue.at_hand("1")
    await asyncio.to_thread(former.ack, 0, Epoch(1), [first.offset])
    former._positions[0].sure_at += HOUR  # else it asks again where this takes longer than SURE_FOR
    successor = await queue.granted("b", 2)
    queue.send("2")
    (late,) = await asyncio.to_thread(read, former, 0, 1, 1)
    (again,) = await asyncio.to_thread(read, successor, 0, 2, 1)
    assert (late.value, again.value, again.redelivered) == (b"2", b"2", True)


async def test_a_restarted_process_continues_at_the_groups_offset(queue: Queue) -> None:
    reader, entries = await queue.at_hand("1", "2", "3")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries])
    await asyncio.to_thread(reader.release, {0: Epoch(1)}, PATIENCE)
    again = queue.reader("a")
    queue.send("4")
    (entry,) = await asyncio.to_thread(read, again, 0, 1, 1)
    await asyncio.to_thread(again.ack, 0, Epoch(1), [entry.offset])
    assert (entry.value, await queue.committed()) == (b"4", 4)
    assert await queue.operator.pause(0, Epoch(1)) == IN_USE


async def test_a_process_that_has_not_read_yet_is_sure_of_nothing(queue: Queue) -> None:
    queue.send("1")
    reader = await queue.granted("a", 1)
    assert (reader.read(0, Epoch(1), new=False), reader.sure_at(0)) == ([], 0.0)
    await asyncio.to_thread(read, reader, 0, 1, 1)
    assert reader.sure_at(0) == reader._positions[0].sure_at


async def test_only_the_owner_at_the_epoch_reads(queue: Queue) -> None:
    await queue.operator.grant(0, Uid("a"), Epoch(3))
    for uid, epoch, partition in (("b", 3, 0), ("a", 2, 0), ("a", 3, 1)):
        with pytest.raises(StaleOwner):
            await asyncio.to_thread(queue.reader(uid).read, partition, Epoch(epoch))
    with pytest.raises(PartitionUnavailable, match="from before it was granted"):
        await asyncio.to_thread(queue.reader("a").read, 0, Epoch(4))


async def test_an_entry_that_fails_too_often_is_a_dead_letter_unchanged(make: MakeQueue) -> None:
    queue = make(redeliveries=1)
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    queue.send("poison", key="p", headers={"h": b"1"})
    reader, (poison, good) = await queue.at_hand("good", count=2)
    assert await asyncio.to_thread(reader.retry, 0, Epoch(1), poison.offset, "it failed")
    assert not await asyncio.to_thread(reader.retry, 0, Epoch(1), poison.offset, "it failed again")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [good.offset])
    assert await queue.committed() == 2
    [[letter]] = await asyncio.to_thread(committed_messages, queue.broker, f"{queue.topic}.dead-letters")
    assert (letter.key(), letter.value()) == (b"p", b"poison")
    headers = dict(letter.headers() or ())
    assert headers["h"] == b"1" and headers["baton-why"] == b"it failed again"
    assert (headers["baton-topic"], headers["baton-offset"]) == (queue.topic.encode(), b"0")
    seen = await queue.operator.check()
    assert (seen.dead_letters, seen.stale_refused) == (None, None), "consumers count them, and the queue does not"


async def test_without_a_dead_letter_topic_the_entry_stays_and_the_cure_is_named(queue: Queue) -> None:
    reader, (entry,) = await queue.at_hand("poison")
    with pytest.raises(QueueUnreachable, match=r"there is no topic .*\.dead-letters for dead letters: create it"):
        await asyncio.to_thread(reader.set_aside, 0, Epoch(1), entry.offset, "hopeless")
    assert await queue.committed() == 0


async def test_a_dead_letter_too_large_for_its_topic_waits_until_the_limit_is_raised(
    make: MakeQueue,
) -> None:
    queue = make(max_message_bytes="3000000")
    letters = f"{queue.topic}.dead-letters"
    queue.broker.make_topic(letters, 1, max_message_bytes="2000")
    queue.producer = Producer({**ORDERED, "bootstrap.servers": queue.broker.servers, "message.max.bytes": 3_000_000})
    queue.send("x" * 2_000_000)
    reader = await queue.granted("a", 1)
    (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
    said = rf"a dead letter is larger than the topic {letters} takes: raise its max.message.bytes"
    with pytest.raises(QueueUnreachable, match=said):
        await asyncio.to_thread(reader.set_aside, 0, Epoch(1), entry.offset, "hopeless")
    assert await queue.committed() == 0
    queue.broker.configure_topic(letters, "max.message.bytes", "3000000")
    await asyncio.to_thread(reader.set_aside, 0, Epoch(1), entry.offset, "hopeless")
    assert await queue.committed() == 1


@pytest.mark.parametrize("latest", [False, True])
async def test_a_new_group_starts_where_the_spec_says_and_new_partitions_at_zero(make: MakeQueue, latest: bool) -> None:
    queue = make(partitions=2, latest=latest)
    queue.send("before")
    await queue.operator.ensure(None)
    reader = await queue.granted("a", 1)
    queue.send("after")
    entries = await asyncio.to_thread(read, reader, 0, 1, 1 if latest else 2)
    assert [entry.value for entry in entries] == ([b"after"] if latest else [b"before", b"after"])
    admin = queue.broker.admin()
    admin.create_partitions([NewPartitions(queue.topic, 3)])[queue.topic].result(PATIENCE)

    async def grown() -> bool:
        return (await queue.operator.check()).partitions == 3

    await eventually(grown, "the new partition is seen")
    queue.producer = Producer({**ORDERED, "bootstrap.servers": queue.broker.servers})  # one that knows the partition
    queue.send("new", partition=2)
    restarted = queue.another(latest=latest)
    await restarted.ensure(None)
    await restarted.check()
    await restarted.grant(2, Uid("a"), Epoch(1))
    (entry,) = await asyncio.to_thread(read, reader, 2, 1, 1)
    assert entry.value == b"new"


async def test_an_offset_deleted_by_retention_is_reported_and_not_skipped(queue: Queue) -> None:
    queue.send(*map(str, range(5)))
    reader = await queue.granted("a", 1)
    queue.delete_before(3)
    assert "baton offsets reset" in await asyncio.to_thread(until, lambda: refusal_of(reader), "the jump is told")


async def test_an_offset_past_the_end_of_the_log_is_reported_until_it_is_set(make: MakeQueue) -> None:
    queue = make(1)
    queue.send(*map(str, range(10)))

    await asyncio.to_thread(queue.commit_plainly, 15)
    reader = await queue.granted("a", 1)
    (said,) = (await queue.operator.check()).warnings
    assert "the log ends before the offset of the group" in said and "(partition 0 at 10, not 15)" in said
    refusal = await asyncio.to_thread(until, lambda: refusal_of(reader), "the owner is told, too")
    assert "the log was cut off before it" in refusal
    queue.send(*map(str, range(10, 20)))
    assert (await queue.operator.check()).warnings == (said,), "what was sent since is left out"
    await asyncio.to_thread(queue.commit_plainly, 10)
    assert (await queue.operator.check()).warnings == ()
    again = await queue.granted("a", 2)
    assert (await asyncio.to_thread(read, again, 0, 2, 1))[0].value == b"10"


async def test_corrupt_messages_are_reported_and_never_delivered_or_skipped(queue: Queue) -> None:
    for value in ("first", "second", "third"):
        queue.send(value)  # a batch each
    log = queue.broker.data / f"{queue.topic}-0" / f"{0:020}.log"
    at = log.read_bytes().index(b"second")

    def write(text: bytes) -> None:
        with log.open("r+b") as file:
            file.seek(at)
            file.write(text)

    write(b"secomd")
    reader = await queue.granted("a", 1)
    assert [entry.value for entry in await asyncio.to_thread(read, reader, 0, 1, 1)] == [b"first"]
    corrupt = f"{queue.topic}/0 has messages that are corrupt (MessageSet at offset 1"
    await asyncio.to_thread(until, lambda: corrupt in refusal_of(reader), "it is told")
    write(b"second")
    found: list[bytes | None] = []

    def mended() -> bool:
        with suppress(QueueUnreachable):  # it was fetched once more before it was mended, and that is told, too
            found.extend(entry.value for entry in reader.read(0, Epoch(1)))
        return len(found) == 2

    await asyncio.to_thread(until, mended, "it is read")
    assert found == [b"second", b"third"]


async def test_an_offset_in_an_open_transaction_is_not_past_the_log(make: MakeQueue) -> None:
    queue = make(1)
    producer = Producer({"bootstrap.servers": queue.broker.servers, "transactional.id": f"open-{queue.topic}"})
    await asyncio.to_thread(producer.init_transactions, PATIENCE)
    producer.begin_transaction()
    producer.produce(queue.topic, "1", partition=0)
    assert producer.flush(PATIENCE) == 0
    await asyncio.to_thread(queue.commit_plainly, 1)
    assert (await queue.operator.check()).warnings == ()
    await asyncio.to_thread(producer.abort_transaction)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_recreated_topic_is_read_from_its_beginning_even_with_latest(make: MakeQueue, restarted: bool) -> None:
    queue = make(1, latest=True)
    queue.send("before")
    await queue.operator.ensure(None)
    await queue.granted("a", 1)
    assert await queue.committed() == 1
    known = (await queue.operator.check()).incarnation
    await queue.remade()
    queue.send("new")
    if restarted:
        await queue.operator.close()
        queue.operator = queue.another(GROUP._replace(incarnation=known), latest=True)
        await queue.operator.ensure(None)
    reader = await queue.granted("b", 2)
    (entry,) = await asyncio.to_thread(read, reader, 0, 2, 1)
    assert entry.value == b"new"


async def test_entries_an_earlier_process_had_in_hand_come_marked(queue: Queue) -> None:
    reader, entries = await queue.at_hand("1", "2", "3")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entries[0].offset])
    again = queue.reader("a")
    entries = await asyncio.to_thread(read, again, 0, 1, 2)
    queue.send("4")
    entries += await asyncio.to_thread(read, again, 0, 1, 1)
    assert [(entry.value, entry.redelivered) for entry in entries] == [(b"2", True), (b"3", True), (b"4", False)]


async def test_a_release_with_unfinished_entries_records_how_far_it_had_read(queue: Queue) -> None:
    queue.send("1", "2", "3", "4")
    reader = await queue.granted("a", 1)
    await asyncio.to_thread(read, reader, 0, 1, 2)
    await asyncio.to_thread(reader.release, {0: Epoch(1)}, PATIENCE)
    entries = await asyncio.to_thread(read, await queue.granted("b", 2), 0, 2, 4)
    assert [entry.redelivered for entry in entries] == [True, True, False, False]


async def test_failures_are_counted_across_owners_and_processes(make: MakeQueue) -> None:
    queue = make(redeliveries=3)
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    reader, (poison,) = await queue.at_hand("poison", "good", count=1)
    assert await asyncio.to_thread(reader.retry, 0, Epoch(1), poison.offset, "failed")
    successor = await queue.granted("b", 2)  # it ended with the entry in hand: that is the second
    await asyncio.to_thread(read, successor, 0, 2, 1)
    assert await asyncio.to_thread(successor.retry, 0, Epoch(2), poison.offset, "failed")
    restarted = queue.reader("b")  # and that the fourth
    (entry,) = await asyncio.to_thread(read, restarted, 0, 2, 1)
    assert entry.value == b"good" and await queue.committed() == 1


async def test_hand_offs_of_an_entry_never_started_are_no_attempts(make: MakeQueue) -> None:
    queue = make(redeliveries=1)
    await queue.at_hand("good")  # and it ends: that is one
    for epoch in (2, 3, 4):
        reader = await queue.granted("a", epoch)
        await asyncio.to_thread(until, partial(reader.ready, 0, Epoch(epoch)))
        await asyncio.to_thread(reader.release, {0: Epoch(epoch)}, PATIENCE)
        await queue.released()
    for _ in range(3):  # as a container that starts again and again, and ends before it has read anything
        reader = queue.reader("a")
        await asyncio.to_thread(until, partial(reader.ready, 0, Epoch(4)))
    for epoch in (5, 6, 7):  # as a pod that does, and another is granted what it had
        reader = await queue.granted("a", epoch)
        await asyncio.to_thread(until, partial(reader.ready, 0, Epoch(epoch)))
    (entry,) = await asyncio.to_thread(read, reader, 0, 7, 1)
    assert (entry.value, entry.redelivered) == (b"good", True)
    record = await queue.record()
    assert record.ends == {0: 1}


def send_plainly(queue: Queue, *values: str) -> None:
    queue.send(*values)


def send_in_transactions(queue: Queue, *values: str) -> None:
    """Send each in a transaction, with an aborted one before it: so a marker follows each."""
    producer = Producer({"bootstrap.servers": queue.broker.servers, "transactional.id": f"of-{queue.topic}"})
    producer.init_transactions(PATIENCE)
    for value in values:
        for each, end in (("aborted", producer.abort_transaction), (value, producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(queue.topic, each, partition=0)
            assert producer.flush(PATIENCE) == 0
            end()


@pytest.mark.parametrize("send", [send_plainly, send_in_transactions])
async def test_only_the_crashing_entry_becomes_a_dead_letter(make: MakeQueue, send: Callable[..., None]) -> None:
    queue = make(redeliveries=2)
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    await asyncio.to_thread(send, queue, "1", "2", "3", "poison", "4")
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    handled: list[bytes] = []

    def work_until_the_end() -> None:
        """Work like a container that restarts again and again."""
        reader = queue.reader("a")

        def poisoned_or_done() -> bool:
            for entry in read_some(reader, 0, 1, 3):
                if entry.value == b"poison":
                    return True
                handled.append(entry.value)
                reader.ack(0, Epoch(1), [entry.offset], soon=True)
            return b"4" in handled

        until(poisoned_or_done)

    for _ in range(8):
        if b"4" not in handled:
            await asyncio.to_thread(work_until_the_end)
    assert await asyncio.to_thread(committed_values, queue.broker, f"{queue.topic}.dead-letters") == [[b"poison"]]
    assert set(handled) == {b"1", b"2", b"3", b"4"}


async def test_without_a_dead_letter_topic_a_crashing_entry_stays_and_the_cure_is_named(
    make: MakeQueue,
) -> None:
    queue = make(redeliveries=1)
    queue.send("poison", "good")
    for epoch in (1, 2):
        await asyncio.to_thread(read, await queue.granted("a", epoch), 0, epoch, 1)
    reader = await queue.granted("b", 3)
    with pytest.raises(QueueUnreachable, match="for dead letters: create it"):
        await asyncio.to_thread(until, lambda: reader.read(0, Epoch(3)))
    assert reader.ready(0, Epoch(3))
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)

    async def goes_on() -> bool:
        try:
            return [entry.value for entry in await asyncio.to_thread(reader.read, 0, Epoch(3))] == [b"good"]
        except QueueUnreachable:
            return False

    await eventually(goes_on, "the next entry is read")
    assert await queue.committed() == 1


async def test_a_pod_has_no_more_in_hand_than_max_delivered_unacked(make: MakeQueue) -> None:
    queue = make(unacknowledged=5)
    for partition in (0, 1):
        queue.send(*map(str, range(10)), partition=partition)
    reader = await queue.granted("a", 1)
    await queue.operator.grant(1, Uid("a"), Epoch(1))
    entries = await asyncio.to_thread(read, reader, 0, 1, 3)
    more = await asyncio.to_thread(read, reader, 1, 1, 2)
    assert not await asyncio.to_thread(reader.read, 0, Epoch(1)) and not reader.ready(0, Epoch(1))
    await asyncio.to_thread(reader.ack, 1, Epoch(1), [entry.offset for entry in more])
    assert len(await asyncio.to_thread(read, reader, 0, 1, 2)) == 2
    assert not await asyncio.to_thread(reader.read, 1, Epoch(1))
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries])
    assert len(await asyncio.to_thread(read, reader, 1, 1, 3)) == 3


async def test_max_delivered_unacked_holds_while_a_grant_is_not_yet_at_the_queue(make: MakeQueue) -> None:
    queue = make(unacknowledged=3)
    queue.send(*map(str, range(10)))
    reader = await queue.granted("a", 1)
    await asyncio.to_thread(read, reader, 0, 1, 2)
    for _ in range(3):
        with pytest.raises(PartitionUnavailable):
            await asyncio.to_thread(reader.read, 0, Epoch(2))
    assert len(await asyncio.to_thread(read, reader, 0, 1, 1)) == 1
    assert not await asyncio.to_thread(reader.read, 0, Epoch(1))


async def test_an_empty_ack_commits_finished_entries_at_once(queue: Queue) -> None:
    reader, (first, second) = await queue.at_hand("0", "1")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [first.offset], soon=True)
    await eventually(queue.committed, "that is committed")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [second.offset], soon=True)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [])
    assert await queue.committed() == 2


async def test_transaction_markers_count_as_no_lag(queue: Queue) -> None:
    producer = Producer({"bootstrap.servers": queue.broker.servers, "transactional.id": f"of-{queue.topic}"})
    await asyncio.to_thread(producer.init_transactions, PATIENCE)
    for commits in (True, False, True):
        producer.begin_transaction()
        producer.produce(queue.topic, b"committed" if commits else b"aborted", partition=0)
        assert producer.flush(PATIENCE) == 0
        await asyncio.to_thread(producer.commit_transaction if commits else producer.abort_transaction)
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 2)
    assert [entry.value for entry in entries] == [b"committed", b"committed"]
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries])

    async def all_done() -> bool:
        assert not await asyncio.to_thread(reader.read, 0, Epoch(1))
        return (await queue.operator.check()).lag[0] == 0

    await eventually(all_done, "nothing is left to be done")
    assert await queue.committed() == 6


async def test_entries_deleted_unfinished_are_reported(queue: Queue) -> None:
    reader, entries = await queue.at_hand(*map(str, range(5)), count=2)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries])
    assert (await queue.operator.check()).warnings == ()
    queue.delete_before(4)
    (said,) = (await queue.operator.check()).warnings
    assert f"partitions 0 of {queue.topic} is gone: up to 2 entries were deleted" in said and "baton offsets reset" in said


async def test_a_partition_that_comes_back_is_read_from_where_it_was(queue: Queue) -> None:
    queue.send(*("." * 4_000 for _ in range(12_000)))
    fetcher = Fetcher(queue.address, queue.group, queue.topic)
    found: list[int | None] = []

    def read_to(count: int) -> bool:
        found.extend(message.offset() for message in fetcher.take(0, min(700, count - len(found)), 10**9, 10**9))
        return len(found) >= count

    for turn in range(5):
        fetcher.begin({0: len(found)})
        await asyncio.to_thread(until, lambda: fetcher._fetched[0].resting, "there is more than is fetched ahead")
        await asyncio.to_thread(until, lambda turn=turn: read_to(500 * (turn + 1)))
        fetcher.end(0)
    fetcher.begin({0: len(found)})
    await asyncio.to_thread(until, lambda: read_to(12_000))
    fetcher.close()
    assert found == list(range(12_000))


async def test_a_partition_can_be_released_while_it_is_being_taken_up(queue: Queue) -> None:
    await queue.operator.ensure(None)
    for number in (0, 1):
        await queue.operator.grant(number, Uid("a"), Epoch(1))
        queue.send("0", partition=number)
    reader, partitions = queue.reader("a"), (0, 1)
    asked = [reader.ready(number, Epoch(1)) for number in partitions]
    assert not any(asked), "they are taken up beside reading"
    await asyncio.to_thread(until, lambda: not reader.release({1: Epoch(1)}, PATIENCE), "it is released")
    assert await asyncio.to_thread(read, reader, 0, 1, 1)
    taken, left = [(await queue.seen(number)).record for number in partitions]
    assert taken is not None and taken.reader and left is not None
    assert left.reserved == 0 and left.released == bool(left.reader), "a process that began has released it"
    await queue.operator.grant(1, Uid("b"), Epoch(2))
    (entry,) = await asyncio.to_thread(read, queue.reader("b"), 1, 2, 1)
    assert not entry.redelivered


# -- A pod at maxDeliveredUnacked, and a log that is shorter than the group's offset for a while.


A = Uid("pod")


async def test_a_full_pod_logs_once_what_holds_it_and_continues_after_an_ack(
    make: MakeQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make(1, unacknowledged=3)
    queue.send("a", "b", "c", "d")
    await queue.operator.grant(0, A, Epoch(1))
    owned = {QueueName("orders"): {0: Epoch(1)}}
    (tmp_path / "pod").write_text(MemberEntry("shop/orders", MemberId("pod"), A, 1, True, owned, {}).to_json())
    side = KafkaConsumerSide(f"kafka://{queue.broker.servers}?group={queue.group}", "shop/orders", A)
    consumer = Consumer(side.reader, AssignmentSource(tmp_path, MemberId("pod"), A), A, transactions=True)
    kept: list[Entry] = []
    running = threading.Thread(target=lambda: consumer.run(kept.append, manual_ack=True), daemon=True)
    running.start()

    def told() -> list[str]:
        return [line for line in caplog.messages if "hands out no more to this pod" in line]

    try:
        (line,) = await asyncio.to_thread(until, told, "the log says it")
        assert "3 entries are not acknowledged, the oldest orders/0 entry 0, which its program has had for" in line
        kept[0].ack()
        await asyncio.to_thread(until, lambda: len(kept) == 4, "there is room for the next")
        assert len(told()) == 1
    finally:
        for entry in kept:
            entry.ack()
        consumer.stop()
        await asyncio.to_thread(running.join, PATIENCE)


async def test_an_owner_continues_once_the_log_reaches_its_offset_again(make: MakeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.queues.kafka.fetcher._REPEAT_AFTER", 0.5)
    queue = make(1)
    queue.send(*map(str, range(10)))

    await asyncio.to_thread(queue.commit_plainly, 15)
    reader = await queue.granted("a", 1)
    found: list[bytes | None] = []

    def read() -> bool:
        """Whether the reader was told that the log was cut off."""
        try:
            found.extend(entry.value for entry in reader.read(0, Epoch(1)))
        except QueueUnreachable as problem:
            return "the log was cut off before it" in str(problem)
        return False

    for _ in range(2):
        await asyncio.to_thread(until, read, "it is told, and again")
    queue.send(*map(str, range(10, 20)))

    def goes_on() -> bool:
        read()
        return len(found) == 5

    await asyncio.to_thread(until, goes_on, "it is read")
    assert found == [b"15", b"16", b"17", b"18", b"19"]
