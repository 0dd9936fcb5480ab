"""A server lost its last writes, or keys were deleted: no offset is used twice, and work goes on."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.redis.keys import PartitionKeys, partition_keys
from tests.integration.redis.conftest import Queue, caught_up, make_queue, own_queue, replicated_queue
from tests.integration.redis.pods import acknowledged, lag, operating
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)


class Snapshot:
    """A copy of a server's disk, to roll the server back to."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._server, self._copy = server, folder
        shutil.copytree(server.directory / "appendonlydir", folder)

    def roll_back(self) -> None:
        """Roll back, as in a crash that loses unsynced writes."""
        self._server.kill()
        shutil.rmtree(self._server.directory / "appendonlydir")
        shutil.copytree(self._copy, self._server.directory / "appendonlydir")
        self._server.start()


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


async def test_after_a_rollback_offsets_are_unique_and_uncertain_entries_marked(tmp_path: Path) -> None:
    async with own_queue(fsync="always") as (server, queue):
        queue.send(*numbers(0, 100))
        owner = await queue.granted("a", ONE)
        snapshot = Snapshot(server, tmp_path / "copy")
        first = owner.read(0, ONE, 50)
        queue.send(*numbers(100, 150))
        lost = owner.read(0, ONE, 100)
        snapshot.roll_back()
        owner.ack(0, ONE, [entry.offset for entry in (*first, *lost)])
        queue.send(*numbers(200, 250))
        heir = await queue.granted("b", TWO)
        again = heir.read(0, TWO, 1000)
        assert [int(entry.value) for entry in again] == [*range(100), *range(200, 250)], (
            "no acknowledgement of what was forgotten"
        )
        assert all(entry.redelivered == (int(entry.value) < 200) for entry in again)
        assert not {entry.offset for entry in again[100:]} & {entry.offset for entry in (*first, *lost)}
        heir.ack(0, TWO, [entry.offset for entry in again])
        assert await lag(queue) == 0


async def test_repeated_rollbacks_give_different_offsets_each_time(tmp_path: Path) -> None:
    """Each crash also loses the entries since the last one."""
    async with own_queue(fsync="always") as (server, queue):
        offsets: list[str] = []
        for crash in range(6):
            if crash in (1, 4):
                snapshot = Snapshot(server, tmp_path / str(crash))
            elif crash:
                snapshot.roll_back()
            queue.send(*numbers(0, 10))
            offsets += [entry.offset for entry in (await queue.granted("a", Epoch(crash + 1))).read(0, Epoch(crash + 1))[-10:]]
        assert len(set(offsets)) == len(offsets) == 60


async def test_a_promoted_replica_uses_different_offsets() -> None:
    """It may lack the last writes."""
    async with replicated_queue() as (primary, replica, queue):
        queue.send("a", "b")
        caught_up(primary)
        with replica.client() as raw:
            raw.replicaof("NO", "ONE")
        queue.send("c")
        promoted = await make_queue(replica.url, name=queue.name)
        promoted.send("d")
        readers = [await one.granted("a", ONE) for one in (queue, promoted)]
        offsets = [{entry.offset: entry.value for entry in reader.read(0, ONE)} for reader in readers]
        assert [set(found.values()) for found in offsets] == [{b"a", b"b", b"c"}, {b"a", b"b", b"d"}]
        assert len({**offsets[0], **offsets[1]}) == 4
        await promoted.close()


@pytest.fixture
def keys(queue: Queue) -> PartitionKeys:
    return partition_keys(queue.name, 0)


async def test_a_deleted_stream_is_created_again_and_the_fence_holds(
    queue: Queue, keys: PartitionKeys, caplog: pytest.LogCaptureFixture, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    former = await queue.granted("former", ONE)
    (entry, *_) = former.read(0, ONE, 2)
    owner = await queue.granted("owner", TWO)
    raw.delete(keys.stream)
    with pytest.raises(StaleOwner):
        former.ack(0, ONE, [entry.offset])
    assert owner.read(0, TWO) == []
    assert await queue.operator.outstanding(0) == 0
    queue.send("d", "e")
    assert await lag(queue) == 2
    assert f"3 entries of {queue.name}/0 vanished unfinished" in caplog.text
    caplog.clear()
    assert await lag(queue) == 2
    assert caplog.text == "", "it is said once"
    found = owner.read(0, TWO)
    assert [entry.value for entry in found] == [b"d", b"e"]
    assert entry.offset not in [entry.offset for entry in found]
    owner.ack(0, TWO, [entry.offset for entry in found])
    assert await lag(queue) == 0


@pytest.mark.parametrize("read", [0, 50], ids=["unread", "handed out"])
async def test_entries_removed_by_hand_are_reported_and_not_counted_as_lag(
    queue: Queue, keys: PartitionKeys, caplog: pytest.LogCaptureFixture, read: int, raw: Any
) -> None:
    queue.send(*numbers(0, 400))
    owner = await queue.granted("owner", ONE)
    first = owner.read(0, ONE, 40)
    owner.ack(0, ONE, [entry.offset for entry in first])
    held = [entry.offset for entry in owner.read(0, ONE, read)] if read else []
    raw.xtrim(keys.stream, maxlen=10, approximate=False)
    told = (await queue.operator.offsets())[0]
    assert (await lag(queue), told.lag, owner.lag([0])) == (10, 10, 10)
    assert f"350 entries of {queue.name}/0 vanished unfinished" in caplog.text
    warnings = (await queue.operator.check()).warnings
    assert any(f"350 entries of {queue.name} vanished unfinished from 1 partition (0)" in one for one in warnings)
    raw.xdel(keys.stream, *(entry for entry, _ in raw.xrange(keys.stream, count=4)))
    assert await lag(queue) == 6
    queue.send(*numbers(400, 500))
    assert await lag(queue) == 106
    found = owner.read(0, ONE, 1000)
    assert [int(entry.value) for entry in found] == [*range(394, 500)]
    owner.ack(0, ONE, [*held, *(entry.offset for entry in found)])
    assert await lag(queue) == 0
    queue.send("a", "b", "c")
    assert (await lag(queue), (await queue.operator.offsets())[0].lag) == (3, 3)
    counted = int(raw.hget(keys.progress, "lost") or 0)
    assert counted == 354 - read, "what was handed out and acknowledged was done"
    owner.read(0, ONE, 2)
    raw.delete(keys.stream)
    assert await lag(queue) == 0
    assert owner.read(0, ONE) == []
    queue.send("d")
    assert await lag(queue) == 1
    assert f"3 entries of {queue.name}/0 vanished" in caplog.text


async def test_evicted_entries_are_counted_and_not_as_lag(caplog: pytest.LogCaptureFixture) -> None:
    async with own_queue(1, append_only=False) as (_, queue):
        keys = partition_keys(queue.name, 0)
        queue.send(*("x" * 10_000 for _ in range(300)))
        owner = await queue.granted("owner", ONE)
        (first,) = owner.read(0, ONE, 1)
        owner.ack(0, ONE, [first.offset])
        with queue.raw() as raw:
            until(lambda: raw.object("idletime", keys.stream) >= 2, "its stream is the key that was used least recently")
            raw.touch(*(key for key in raw.scan_iter() if key.decode() != keys.stream))
            raw.config_set("maxmemory-policy", "allkeys-lru")
            raw.config_set("maxmemory-samples", 64)
            raw.config_set("maxmemory", raw.info("memory")["used_memory"] - 500_000)
            until(lambda: not raw.exists(keys.stream), "it is evicted")
            assert raw.info("stats")["evicted_keys"] == 1
        seen = await queue.operator.check()
        assert (seen.lag, seen.vanished, owner.lag([0])) == ({0: 0}, 299, 0)
        assert f"299 entries of {queue.name}/0 vanished unfinished" in caplog.text
        queue.send("after")
        assert await lag(queue) == 1
        assert [entry.value for entry in owner.read(0, ONE)] == [b"after"]
        assert (await queue.operator.check()).vanished == 299


async def test_entries_missing_from_a_restored_backup_are_not_lag(queue: Queue, keys: PartitionKeys, raw: Any) -> None:
    queue.send(*numbers(0, 20))
    stream = raw.dump(keys.stream)
    queue.send(*numbers(20, 50))
    raw.restore(keys.stream, 0, stream, replace=True)
    assert await lag(queue) == 20
    assert any("30 entries" in one for one in (await queue.operator.check()).warnings)


async def test_every_request_recovers_from_a_deleted_stream(queue: Queue, keys: PartitionKeys, raw: redis.Redis) -> None:
    owner = await queue.granted("owner", ONE)
    asks: tuple[Callable[[], object], ...] = (
        lambda: queue.send("x"),
        lambda: owner.read(0, ONE, new=False),
        lambda: owner.ack(0, ONE, ["1-0"]),
        lambda: owner.retry(0, ONE, "1-0", "failed"),
    )
    for number, ask in enumerate(asks):
        queue.send("lost", "lost")
        assert len(owner.read(0, ONE)) == 2
        raw.delete(keys.stream)
        ask()
        queue.send(f"kept-{number}")
        found = owner.read(0, ONE)
        assert found[-1].value == b"kept-%d" % number
        owner.ack(0, ONE, [entry.offset for entry in found])
        assert await lag(queue) == 0
    raw.delete(keys.stream)
    assert await queue.operator.pause(0, ONE) == 0


async def test_entries_come_again_marked_if_their_group_was_destroyed(
    queue: Queue, keys: PartitionKeys, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("owner", ONE)
    owner.ack(0, ONE, [owner.read(0, ONE, 2)[0].offset])
    raw.xgroup_destroy(keys.stream, "baton")
    heir = await queue.granted("heir", TWO)
    found = heir.read(0, TWO)
    assert [(entry.value, entry.redelivered) for entry in found] == [(b"b", True), (b"c", True)]
    heir.ack(0, TWO, [entry.offset for entry in found])
    assert await lag(queue) == 0


@pytest.mark.parametrize("what", [*PartitionKeys._fields, "everything"])
async def test_work_goes_on_after_the_operator_restored_deleted_keys(
    queue: Queue, tmp_path: Path, what: str, raw: redis.Redis
) -> None:
    async with operating(queue, tmp_path) as operator:
        pod = await operator.owner(0, 1)
        queue.send("before")
        until(lambda: len(pod.log) == 1)
        await acknowledged(queue)
        if what == "everything":
            raw.delete(*partition_keys(queue.name, 0), *partition_keys(queue.name, 1), f"pq:{{{queue.name}}}:queue")
        else:
            raw.delete(getattr(partition_keys(queue.name, 0), what))
        for _ in range(2):  # as in two checks
            await queue.operator.ensure(2)
            records = (await queue.operator.check()).owners
        if records.get(0) != ("a", 1, False):
            await queue.operator.grant(0, Uid("a"), THREE)
            await queue.operator.grant(1, Uid("a"), THREE)
            pod.ledger({0: 3, 1: 3})
        queue.send("after")
        until(lambda: pod.values() == [b"before", b"after"])
        with pytest.raises(StaleOwner):
            queue.reader("somebody").read(0, THREE)
        until(lambda: queue.raw().xlen(partition_keys(queue.name, 0).stream) == 0)
        assert await lag(queue) == 0


async def test_a_deleted_owner_record_gets_the_specs_limits_again(queue: Queue, keys: PartitionKeys, raw: redis.Redis) -> None:
    """Otherwise an entry that always fails would never be set aside."""
    await queue.limited(7, redeliveries=3)
    await queue.granted("a", ONE)
    raw.delete(keys.owner)
    await queue.operator.check()
    await queue.operator.grant(0, Uid("a"), TWO)
    await queue.operator.ensure(queue.partitions)
    assert raw.hmget(keys.owner, "uid", "maxDeliveredUnacked", "maxRedeliveries") == [b"a", b"7", b"3"]


async def test_entries_ahead_of_the_clock_survive_a_deleted_record() -> None:
    """Two restarts in quick succession put the numbers ahead."""
    async with own_queue(debug=True) as (_, queue):
        owner = await queue.granted("a", ONE)
        with queue.raw() as raw:
            for value in numbers(0, 3):
                queue.send(value)
                raw.execute_command("DEBUG", "CHANGE-REPL-ID")
            raw.delete(partition_keys(queue.name, 0).progress)
            queue.send("3")
            assert raw.exists(partition_keys(queue.name, 0).dead) == 0
        assert [entry.value for entry in owner.read(0, ONE)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("time", ["", "soon", "1 2 3", "-1", "9" * 5000])
async def test_an_imitated_entry_without_a_valid_time_becomes_a_dead_letter(time: str) -> None:
    async with own_queue(debug=True) as (_, queue):
        owner = await queue.granted("a", ONE)
        keys = partition_keys(queue.name, 0)
        queue.send("0")
        with queue.raw() as raw:
            (top, _), *_ = raw.xrevrange(keys.stream, count=1)
            raw.xadd(keys.stream, {"k": "key", "v": "imitation", "t": time}, id=f"{int(top.partition(b'-')[0]) + 5}-0")
            raw.execute_command("DEBUG", "CHANGE-REPL-ID")
            queue.send("1")
            assert [entry.value for entry in owner.read(0, ONE)] == [b"0", b"1"]
            assert raw.xlen(keys.dead) == 1


async def test_sending_wakes_the_owner_after_its_record_was_deleted(queue: Queue, raw: redis.Redis) -> None:
    owner = await queue.granted("a", THREE)
    queue.send("1")
    owner.ack(0, THREE, [entry.offset for entry in owner.read(0, THREE)])
    owner.read(0, THREE)
    woken: list[set[int]] = []
    waiting = threading.Thread(target=lambda: woken.append(owner.wait([0], PATIENCE)))
    raw.delete(partition_keys(queue.name, 0).owner)
    waiting.start()
    until(lambda: raw.info("clients")["blocked_clients"])
    queue.send("2")
    waiting.join(PATIENCE)
    assert woken == [{0}]
    queue.send("3")
    assert await queue.operator.grant(0, Uid("a"), THREE) == ("a", 3, False)
    assert [entry.value for entry in owner.read(0, THREE)] == [b"2", b"3"]
