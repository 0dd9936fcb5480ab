"""Kafka's records count the processes that ended at the committed offset."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entry import Entries
from baton.queues.kafka.reader import KafkaReader
from tests.crash_loop import PROGRAM, RETRIES, CrashLoop
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import committed_messages, read
from tests.waiting import PATIENCE, eventually, until

OTHERS = [str(number) for number in range(60)]
PARTITIONS = range(3)


async def loop(queue: Queue, directory: Path, program: str = PROGRAM) -> CrashLoop:
    for partition in PARTITIONS:
        await queue.operator.grant(partition, Uid("pod"), Epoch(1))
    owned = {QueueName("orders"): dict.fromkeys(PARTITIONS, Epoch(1))}
    (directory / "pod").write_text(MemberEntry("shop/orders", MemberId("pod"), Uid("pod"), 1, True, owned, {}).to_json())
    arguments = ("pod", str(directory), f"kafka://{queue.broker.servers}", queue.group)
    return CrashLoop(directory, Path(__file__).with_name("guide_program.py"), arguments, program)


async def test_a_crashing_entry_is_named_and_other_partitions_continue(queue: Queue, tmp_path: Path) -> None:
    queue.send("before", "before, too", "poison", "behind")
    for partition in PARTITIONS[1:]:
        queue.send(*OTHERS, partition=partition)
    crashes = await loop(queue, tmp_path)
    for _ in range(12):  # each gives the others twice the time
        await asyncio.to_thread(crashes.run)
        reached = [await queue.committed(partition) for partition in PARTITIONS]
        if ("orders/0 2", 2) in crashes.told() and reached == [2, len(OTHERS), len(OTHERS)]:
            break
    for partition in PARTITIONS[1:]:
        assert crashes.done(partition) == OTHERS, "all of them, in order"
    assert "behind" not in crashes.done(0), "nothing overtakes it in its partition"
    assert reached == [2, len(OTHERS), len(OTHERS)], "what comes before it is committed one by one"
    assert ("orders/0 2", 2) in crashes.told()
    told = (await queue.operator.check()).unfinished
    assert told[0][0] == "2" and told[0][1] > 2 and list(told) == [0]


@pytest.mark.parametrize("redeliveries", [0, 2])
async def test_entries_read_but_not_started_are_not_blamed_for_a_crash(make: MakeQueue, redeliveries: int) -> None:
    queue = make(redeliveries=redeliveries)
    await queue.at_hand("poison", "behind", uid="pod")

    async def restarted() -> tuple[KafkaReader, Mapping[str, int]]:
        """The process before was killed."""
        reader = queue.reader("pod")
        entries = Entries.of(await asyncio.to_thread(until, lambda: reader.read(0, Epoch(1))))
        assert (entries.offsets, entries.redelivered) == (["0"], 1), "alone"
        assert not reader.read(0, Epoch(1)), "nothing overtakes it"
        return reader, entries.times

    for _ in range(3):
        reader, times = await restarted()
        assert times == {"0": 1}
    assert not (await queue.operator.check()).unfinished
    for _ in range(2):  # its answer may have been lost
        assert await asyncio.to_thread(reader.begin_again, 0, Epoch(1), "0", 1)
    reader, times = await restarted()
    assert times == {"0": 2}
    assert (await queue.operator.check()).unfinished == {0: ("0", 2)}
    assert await asyncio.to_thread(reader.begin_again, 0, Epoch(1), "0", 2)
    assert not reader.read(0, Epoch(1)), "what is behind it comes when it is finished"
    await asyncio.to_thread(reader.ack, 0, Epoch(1), ["0"])
    assert await queue.committed() == 1
    (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
    assert (entry.value, entry.redelivered) == (b"behind", True)


async def test_attempts_stay_counted_after_a_restart_without_a_redelivery_limit(queue: Queue, tmp_path: Path) -> None:
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    queue.send("bad", "last")
    crashes = await loop(queue, tmp_path, RETRIES)
    for _ in range(3):
        await asyncio.to_thread(crashes.run)
    assert (crashes.attempts("bad"), crashes.attempts("last")) == ([0, 1, 2, 3], [0])
    ((letter,),) = await asyncio.to_thread(committed_messages, queue.broker, f"{queue.topic}.dead-letters")
    assert dict(letter.headers() or ())["baton-why"] == b"after 4 attempts: ValueError: no"


@pytest.mark.parametrize("redeliveries", [0, 9])
async def test_a_failed_attempt_does_not_count_as_a_crash(make: MakeQueue, redeliveries: int) -> None:
    queue = make(redeliveries=redeliveries)
    await queue.at_hand("0", "1")  # and it ends
    reader = await queue.granted("b", 2)
    await asyncio.to_thread(read, reader, 0, 2, 1)
    record = await queue.record()
    assert (record.tries, record.ends) == ({}, {0: 1})
    reader.survived(0, Epoch(1), "0")  # under another epoch: it changes nothing
    reader.survived(0, Epoch(2), "1")
    woken = threading.Event()
    reader.wait_for(frozenset({0}), woken.set)
    if redeliveries:
        assert not (reader.ready(0, Epoch(2)) or woken.is_set()), "the others wait"
    reader.survived(0, Epoch(2), "0")

    async def told() -> bool:
        record = (await queue.seen()).record
        return record is not None and (record.tries, record.ends) == ({0: 1}, {})

    await eventually(told, "a commit in the background tells it")
    assert await asyncio.to_thread(woken.wait, PATIENCE)
    await asyncio.to_thread(until, lambda: reader.ready(0, Epoch(2)), "the others no longer wait")
    assert not await asyncio.to_thread(reader.release, {0: Epoch(2)}, 5.0)
    assert await told(), "and the last commit"


@pytest.mark.parametrize("redeliveries", [0, 9])
async def test_the_next_owner_knows_the_attempts_at_each_entry(make: MakeQueue, redeliveries: int) -> None:
    queue = make(redeliveries=redeliveries)
    queue.send("0", "1", "2")
    giver = await queue.granted("a", 1)
    await asyncio.to_thread(read, giver, 0, 1, 3)
    for offset in ("0", "2", "2"):
        assert await asyncio.to_thread(giver.retry, 0, Epoch(1), offset, "no")

    async def told() -> bool:
        record = (await queue.seen()).record
        return record is not None and record.tries == {0: 1, 2: 2}

    await eventually(told, "without a limit a commit in the background tells it")
    await asyncio.to_thread(giver.ack, 0, Epoch(1), ["1"])
    assert not await asyncio.to_thread(giver.release, {0: Epoch(1)}, 5.0)
    receiver = await queue.granted("b", 2)
    found: dict[str, int] = {}
    done = set[str]()
    while "2" not in done:  # the first comes alone, and with a limit the others do, too
        entries = Entries.of(await asyncio.to_thread(until, lambda: receiver.read(0, Epoch(2))))
        found |= entries.attempts
        for offset, times in entries.times.items():
            assert await asyncio.to_thread(receiver.begin_again, 0, Epoch(2), offset, times)
        await asyncio.to_thread(receiver.ack, 0, Epoch(2), entries.offsets)
        done.update(entries.offsets)
    assert found == {"0": 2, "2": 2}, "the attempt that was under way counts for the first"
