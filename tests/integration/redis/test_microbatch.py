"""A micro-batch plans a range, reads it as often as it needs, and commits it."""

import pytest

from baton.model.ids import Epoch
from baton.queues.entry import Plan
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.redis import RedisReader, scripts
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue

pytestmark = pytest.mark.integration

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)


def planned(reader: RedisReader, epoch: Epoch, limit: int = 100) -> Plan:
    plan = reader.plan(0, epoch, limit)
    assert plan is not None
    return plan


def content(reader: RedisReader, epoch: Epoch, plan: Plan) -> list[tuple[bytes, bool]]:
    return [(entry.value, entry.redelivered) for entry in reader.read_plan(0, epoch, plan)]


async def test_a_plan_is_read_as_often_as_needed_and_never_extended(queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    plan = planned(owner, ONE, 2)
    assert (plan.count, plan.redelivered_to) == (2, 0)
    for _ in range(2):
        assert content(owner, ONE, plan) == [(b"a", False), (b"b", False)]
    owner.commit(0, ONE, plan)
    assert content(owner, ONE, planned(owner, ONE)) == [(b"c", False)]


async def test_there_is_no_plan_where_there_is_nothing_new(queue: Queue) -> None:
    owner = await queue.granted("a", ONE)
    assert owner.plan(0, ONE, 10) is None


async def test_the_same_owner_is_told_its_uncommitted_plan_again_marked(queue: Queue) -> None:
    """A driver that was killed keeps its place, and its batch."""
    queue.send("a", "b")
    plan = planned(await queue.granted("a", ONE), ONE)
    queue.send("c")
    restarted = queue.reader("a")
    again = planned(restarted, ONE)
    assert (again.start, again.end, again.count) == (plan.start, plan.end, plan.count)
    assert content(restarted, ONE, again) == [(b"a", True), (b"b", True)]


async def test_the_next_owner_gets_what_was_planned_marked_and_what_is_new_not(queue: Queue) -> None:
    queue.send("a", "b")
    planned(await queue.granted("a", ONE), ONE)
    queue.send("c")
    owner = await queue.granted("b", TWO)
    assert content(owner, TWO, planned(owner, TWO)) == [(b"a", True), (b"b", True), (b"c", False)]


async def test_a_paused_partition_repeats_and_commits_its_plan_and_makes_no_new_one(queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    plan = planned(owner, ONE, 2)
    assert await queue.operator.pause(0, ONE) == 2
    assert planned(owner, ONE, 2).end == plan.end
    assert len(content(owner, ONE, plan)) == 2
    owner.commit(0, ONE, plan)
    assert await queue.operator.outstanding(0) == 0
    with pytest.raises(PartitionPaused):
        owner.plan(0, ONE, 2)


async def test_a_commit_is_repeatable_and_only_of_what_was_planned(queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    plan = planned(owner, ONE, 2)
    forged = Plan(0, ONE, plan.start, plan.end + 1, 3, 0)
    with pytest.raises(ValueError, match="not a plan of the queue"):
        owner.commit(0, ONE, forged)
    with pytest.raises(ValueError, match="not a plan of the queue"):
        list(owner.read_plan(0, ONE, forged))
    owner.commit(0, ONE, plan)
    owner.commit(0, ONE, plan)
    assert (await queue.operator.check()).lag[0] == 1


async def test_a_zombie_neither_reads_nor_commits_its_plan(queue: Queue) -> None:
    queue.send("a", "b")
    zombie = await queue.granted("a", ONE)
    plan = planned(zombie, ONE)
    owner = await queue.granted("b", TWO)
    with pytest.raises(StaleOwner):
        list(zombie.read_plan(0, ONE, plan))
    with pytest.raises(StaleOwner):
        zombie.commit(0, ONE, plan)
    assert planned(owner, TWO).count == 2


async def test_the_stream_is_trimmed_one_batch_behind(queue: Queue) -> None:
    owner = await queue.granted("a", ONE)
    with queue.raw() as raw:
        for batch in range(5):
            queue.send(*(f"{batch}.{number}" for number in range(1000)))
            plan = planned(owner, ONE, 1000)
            assert len(content(owner, ONE, plan)) == 1000
            owner.commit(0, ONE, plan)
            assert len(content(owner, ONE, plan)) == 1000, "the last batch can still be read"
            assert raw.xlen(f"pq:{{{queue.name}}}:0:stream:0") <= 2100


async def test_a_large_batch_is_trimmed_by_as_many_scripts_as_it_takes_also_after_one_that_was_killed_between_two(
    queue: Queue,
) -> None:
    """So many entries at once: the server serves nobody meanwhile."""
    batch = 20_000
    await queue.limited(2 * batch)
    owner = await queue.granted("a", ONE)
    keys = partition_keys(queue.name, 0)
    with queue.raw() as raw:
        for nth in range(4):
            queue.send(*map(str, range(batch)))
            plan = planned(owner, ONE, batch)
            assert plan.count == batch
            if nth == 2:
                _, outstanding, more = scripts.COMMIT.run(raw, keys, ("a", ONE, plan.end))
                assert (outstanding, more) == (0, 1)
                assert raw.xlen(keys.stream) > batch
            else:
                owner.commit(0, ONE, plan)
                assert raw.xlen(keys.stream) == batch, "the last batch is kept, and no other"
        single = await queue.granted("b", TWO)
        queue.send(*map(str, range(batch)))
        while entries := single.read(0, TWO, 1000):
            single.ack(0, TWO, [entry.offset for entry in entries])
        assert raw.xlen(keys.stream) == 0
    assert (await queue.operator.check()).lag[0] == 0


async def test_a_plan_has_so_many_single_entries_only_that_to_commit_it_is_soon_done(queue: Queue) -> None:
    queue.send(*map(str, range(3000)))
    owner = await queue.granted("a", ONE)
    for _ in range(2):
        owner.read(0, ONE, 1000)
    counts = []
    while plan := owner.plan(0, ONE, 10_000):
        counts.append(plan.count)
        owner.commit(0, ONE, plan)
    assert counts == [1000, 1000, 1000]
    assert (await queue.operator.check()).lag[0] == 0


async def test_large_plans_are_read_in_pages(queue: Queue) -> None:
    queue.send(*(str(number) for number in range(2500)))
    owner = await queue.granted("a", ONE)
    values = [value for value, _ in content(owner, ONE, planned(owner, ONE, 10_000))]
    assert values == [b"%d" % number for number in range(2500)]


async def test_a_fleet_may_go_over_from_single_entries_to_micro_batches(queue: Queue) -> None:
    queue.send("a", "b", "c", "d", "e")
    single = await queue.granted("a", ONE)
    entries = single.read(0, ONE, 4)
    single.ack(0, ONE, [entries[0].offset, entries[2].offset])
    batch = await queue.granted("b", TWO)
    plan = planned(batch, TWO)
    assert plan.count == 3
    assert content(batch, TWO, plan) == [(b"b", True), (b"d", True), (b"e", False)]
    batch.commit(0, TWO, plan)
    assert (await queue.operator.check()).lag[0] == 0
    assert await queue.operator.outstanding(0) == 0
    queue.send("f")
    assert content(batch, TWO, planned(batch, TWO)) == [(b"f", False)]


async def test_where_single_entries_are_gone_a_plan_looks_at_a_few_of_the_rest(queue: Queue) -> None:
    """They are looked at with all that they carry, while the server serves nobody: large ones took 0.1 seconds for each 25 MB."""
    queue.send(*map(str, range(1000)))
    owner = await queue.granted("a", ONE)
    owner.ack(0, ONE, [owner.read(0, ONE, 2)[1].offset])
    plan = planned(owner, ONE, 500)
    assert plan.count == 200
    assert [value for value, _ in content(owner, ONE, plan)] == [b"0", *(b"%d" % number for number in range(2, 201))]
    owner.commit(0, ONE, plan)
    assert planned(owner, ONE, 500).count == 500, "that is behind it"


async def test_a_fleet_may_go_over_from_micro_batches_to_single_entries(queue: Queue) -> None:
    queue.send("a", "b", "c", "d")
    batch = await queue.granted("a", ONE)
    batch.commit(0, ONE, planned(batch, ONE, 1))
    planned(batch, ONE, 2)
    single = await queue.granted("b", TWO)
    entries = single.read(0, TWO)
    assert [(entry.value, entry.redelivered) for entry in entries] == [(b"b", True), (b"c", True), (b"d", False)]
    single.ack(0, TWO, [entry.offset for entry in entries])
    assert (await queue.operator.check()).lag[0] == 0
    queue.send("e")
    third = await queue.granted("c", THREE)
    assert content(third, THREE, planned(third, THREE)) == [(b"e", False)]


async def test_a_single_entry_that_is_acknowledged_leaves_the_last_batch_to_be_read(queue: Queue) -> None:
    queue.send(*"abcdef")
    owner = await queue.granted("a", ONE)
    plan = planned(owner, ONE, 3)
    owner.commit(0, ONE, plan)
    single = owner.read(0, ONE, 2)
    assert [entry.value for entry in single] == [b"d", b"e"]
    owner.ack(0, ONE, [entry.offset for entry in single])
    assert [value for value, _ in content(owner, ONE, plan)] == [b"a", b"b", b"c"]
    assert content(owner, ONE, planned(owner, ONE)) == [(b"f", False)]
