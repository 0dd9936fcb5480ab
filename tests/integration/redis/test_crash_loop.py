"""An entry that repeatedly ends its process is named and does not block others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from tests.crash_loop import RETRIES, CrashLoop
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.pods import write_ledger
from tests.redis_server import RedisServer

OTHERS = [str(number) for number in range(60)]


async def loop(queue: Queue, directory: Path, **options: Any) -> CrashLoop:
    for partition in range(queue.partitions):
        await queue.operator.grant(partition, Uid("pod"), Epoch(1))
    write_ledger(directory, queue, Uid("pod"), dict.fromkeys(range(queue.partitions), 1))
    return CrashLoop(
        directory, Path(__file__).with_name("guide_program.py"), ("pod", str(directory), queue.url, queue.name), **options
    )


async def test_other_partitions_go_on_and_the_log_names_the_fatal_entry(server: RedisServer, tmp_path: Path) -> None:
    queue = await make_queue(server.url, partitions=3)
    queue.send("before", "poison", "behind")
    for partition in (1, 2):
        queue.send(*OTHERS, partition=partition)
    crashes = await loop(queue, tmp_path)
    for _ in range(4):
        await asyncio.to_thread(crashes.run)
    assert (crashes.done(1), crashes.done(2)) == (OTHERS, OTHERS), "all of them, in order"
    assert crashes.done(0) == ["before"], "nothing overtakes it in its partition"
    offsets = [entry.offset for entry in queue.reader("pod").read(0, Epoch(1))]
    name = queue.name.removeprefix("shop/")
    assert crashes.told() == [(f"{name}/0 {offsets[0]}", times) for times in (2, 3)]
    assert len(offsets) == 2
    await queue.close()


async def test_with_order_key_other_keys_of_the_partition_go_on(queue: Queue, tmp_path: Path) -> None:
    bad, keys = queue.key(0), [queue.key(0, nth) for nth in range(1, 11)]
    queue.producer.send_many([(bad, "poison"), (bad, "behind"), *((key, value) for value in OTHERS for key in keys)])
    crashes = await loop(queue, tmp_path, order="key", concurrency=4)
    for _ in range(4):
        await asyncio.to_thread(crashes.run)
    assert {value for value, count in crashes.counts(0).items() if count >= len(keys)} == set(OTHERS)
    assert "behind" not in crashes.done(0)
    left = queue.reader("pod").read(0, Epoch(1), 1000)
    assert [entry.value for entry in left] == [b"poison", b"behind"]
    name = queue.name.removeprefix("shop/")
    assert (f"{name}/0 {left[0].offset}", 3) in crashes.told()


@pytest.mark.parametrize("options", [{}, {"max_entries": 20}], ids=["entries", "batches"])
async def test_only_the_fatal_entry_becomes_a_dead_letter(
    server: RedisServer, tmp_path: Path, options: dict[str, object]
) -> None:
    """No other entry that the same processes held, although each of these has one attempt left."""
    queue = await make_queue(server.url, partitions=30)
    await queue.limited(redeliveries=1)
    for partition in range(30):
        queue.send("poison" if partition == 15 else "good", partition=partition)
    queue.send("poison", partition=15)
    crashes = await loop(queue, tmp_path, **options)
    before = queue.reader("pod")
    assert sum(len(before.read(partition, Epoch(1))) for partition in range(30)) == 31
    letters: list[bytes] = []
    while not letters:
        await asyncio.to_thread(crashes.run)
        letters = [letter[b"value"] for partition in range(30) for letter in queue.letters(partition)]
    assert letters == [b"poison"]
    assert [crashes.done(partition) for partition in range(30)] == [["good"]] * 15 + [[]] + [["good"]] * 14
    await queue.close()


@pytest.mark.parametrize(
    ("options", "last"),
    [({}, [0]), pytest.param({"order": "key", "concurrency": 2}, [1], id="last is read ahead")],
)
async def test_attempts_count_on_after_a_restart(queue: Queue, tmp_path: Path, options: dict[str, Any], last: list[int]) -> None:
    queue.send("bad", "last")
    crashes = await loop(queue, tmp_path, program=RETRIES, **options)
    for _ in range(3):
        await asyncio.to_thread(crashes.run)
    assert (crashes.attempts("bad"), crashes.attempts("last")) == ([0, 1, 2, 3], last)
    (letter,) = queue.letters()
    assert (letter[b"why"], letter[b"deliveries"]) == (b"after 4 attempts: ValueError: no", b"4")
