"""As on Redis: what Kafka knows is at which committed offset processes ended, and how often."""

import asyncio
from pathlib import Path

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from tests.crash_loop import CrashLoop
from tests.integration.kafka.conftest import Queue

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

    for _ in range(7):
        await asyncio.to_thread(crashes.run)
    for partition in PARTITIONS[1:]:
        assert crashes.done(partition) == OTHERS, "all of them, in order"
        assert await queue.committed(partition) == len(OTHERS)
    assert "behind" not in crashes.done(0), "nothing overtakes it in its partition"
    assert await queue.committed() == 2, "what comes before it is committed one by one"
    assert ("orders/0 2", 2) in crashes.told()
    told = (await queue.operator.check()).unfinished
    assert told[0][0] == "2" and told[0][1] > 2 and list(told) == [0]
