"""As on Redis: what Kafka knows is at which committed offset processes ended, and how often."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entries import Entries
from baton.queues.kafka.reader import KafkaReader
from tests.crash_loop import CrashLoop
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.waiting import until

OTHERS = [str(number) for number in range(60)]
PARTITIONS = range(3)


async def test_other_partitions_go_on_and_the_log_names_the_offset_at_which_processes_end(queue: Queue, tmp_path: Path) -> None:
    queue.send("before", "before, too", "poison", "behind")
    for partition in PARTITIONS[1:]:
        queue.send(*OTHERS, partition=partition)
    for partition in PARTITIONS:
        await queue.operator.grant(partition, Uid("pod"), Epoch(1))
    owned = {QueueName("orders"): dict.fromkeys(PARTITIONS, Epoch(1))}
    (tmp_path / "pod").write_text(MemberEntry("shop/orders", MemberId("pod"), Uid("pod"), 1, True, owned, {}).to_json())
    arguments = ("pod", str(tmp_path), f"kafka://{queue.broker.servers}", queue.group)
    crashes = CrashLoop(tmp_path, Path(__file__).with_name("guide_program.py"), arguments)

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
async def test_what_was_read_and_not_begun_is_not_what_a_process_has_ended_by(make: MakeQueue, redeliveries: int) -> None:
    queue = make(redeliveries=redeliveries)
    queue.send("poison", "behind")
    await asyncio.to_thread(read, await queue.granted("pod", 1), 0, 1, 2)

    async def restarted() -> tuple[KafkaReader, Mapping[str, int]]:
        """The one before was killed."""
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
