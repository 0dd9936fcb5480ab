"""The broker takes commits under the latest grant only."""

import asyncio
import random
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import pytest
from aiokafka.protocol.transaction import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from confluent_kafka import Consumer, KafkaError, KafkaException

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka import guard
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.client import CommittedOffsets, KafkaClient, StaleToken
from baton.queues.protocol import IN_USE, Claimant, Ownership, QueueConflict, QueueUnreachable
from tests.integration.kafka.conftest import GROUP, MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.promise


async def test_the_last_grant_owns_and_a_lower_epoch_changes_nothing(queue: Queue) -> None:
    assert await queue.operator.grant(0, Uid("a"), Epoch(2)) == Ownership(Uid("a"), Epoch(2))
    assert await queue.operator.grant(0, Uid("b"), Epoch(1)) == Ownership(Uid("a"), Epoch(2))
    assert await queue.operator.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("a"), Epoch(2))
    assert await queue.operator.grant(0, Uid("b"), Epoch(3)) == Ownership(Uid("b"), Epoch(3))
    assert (await queue.operator.check()).owners == {0: Ownership(Uid("b"), Epoch(3))}


async def test_the_broker_rejects_a_stale_owners_commit(queue: Queue) -> None:
    former, (first, second, _) = await queue.at_hand("1", "2", "3")
    await asyncio.to_thread(former.ack, 0, Epoch(1), [first.offset])
    successor = await queue.granted("b", 2)
    with pytest.raises(StaleOwner, match="belongs to b at epoch 2"):
        await asyncio.to_thread(former.ack, 0, Epoch(1), [second.offset])
    assert await queue.committed() == 1
    assert [entry.value for entry in await asyncio.to_thread(read, successor, 0, 2, 2)] == [b"2", b"3"]


async def test_an_owner_that_was_away_is_rejected_before_it_reads(queue: Queue) -> None:
    queue.send(*map(str, range(10)))
    former = await queue.granted("a", 1)
    await asyncio.to_thread(read, former, 0, 1, 1)
    await queue.granted("b", 2)
    former._positions[0].sure_at -= 10
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(former.read, 0, Epoch(1))


async def test_an_owner_continues_after_its_token_was_replaced(queue: Queue) -> None:
    """Another operator, with a lower epoch, took a token before it saw that it is too late."""
    reader, entries = await queue.at_hand("1", "2", epoch=5)
    seen = await queue.seen()
    token = await queue.operator._transactions.init(0)
    offset, record = await queue.operator._next(0, Uid("b"), Epoch(4), token, seen)
    await queue.operator._transactions.commit(0, offset, record)
    await asyncio.to_thread(reader.ack, 0, Epoch(5), [entry.offset for entry in entries])
    assert await queue.committed() == 2


async def test_racing_operators_never_lower_an_epoch_and_leave_a_working_owner(queue: Queue) -> None:
    other = queue.another()
    chance = random.Random(1)
    queue.send("1")
    for epoch in range(1, 41, 2):
        before = (await queue.seen()).record
        delays = [chance.random() * 0.02 for _ in range(2)]

        async def granting(operator: KafkaQueue, uid: str, epoch: int, delay: float) -> Ownership:
            await asyncio.sleep(delay)
            return await operator.grant(0, Uid(uid), Epoch(epoch))

        await asyncio.gather(granting(queue.operator, "a", epoch, delays[0]), granting(other, "b", epoch + 1, delays[1]))
        record = await queue.record()
        assert record.epoch == epoch + 1 and record.uid == "b"
        assert before is None or record.epoch > before.epoch
    reader = queue.reader("b")
    (entry,) = await asyncio.to_thread(read, reader, 0, 40, 1)
    await asyncio.to_thread(reader.ack, 0, Epoch(40), [entry.offset])
    assert await queue.committed() == 1


async def test_plain_commits_and_subscriptions_fail_while_the_operator_is_in_the_group(queue: Queue) -> None:
    queue.send("1", "2")
    await queue.granted("a", 1)

    await queue.guarded()
    with pytest.raises(KafkaException) as refused:
        await asyncio.to_thread(queue.commit_plainly, 2)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID

    def subscribe() -> KafkaError | None:
        member = Consumer({"bootstrap.servers": queue.broker.servers, "group.id": queue.group, "enable.auto.commit": False})
        member.subscribe([queue.topic])
        try:
            message = member.poll(PATIENCE)
            return message.error() if message is not None else None
        finally:
            member.close()

    error = await asyncio.to_thread(subscribe)
    assert error is not None and error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert await queue.committed() == 0


@pytest.mark.parametrize("given_up", [False, True])
async def test_plain_commits_fail_after_a_stop_but_not_after_a_release(make: MakeQueue, given_up: bool) -> None:
    """An operator that stops without a release leaves its member in the group, until it is back."""
    queue = make(1)
    await queue.operator.ensure(None)
    await queue.granted("a", 1)

    await queue.guarded()
    if given_up:
        assert await queue.operator.release()
    await queue.operator.close()
    if given_up:
        await asyncio.to_thread(queue.commit_plainly, 2)
        return
    with pytest.raises(KafkaException) as refused:
        await asyncio.to_thread(queue.commit_plainly, 2)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


async def test_an_operator_that_cannot_read_its_topic_still_guards_the_group(
    make: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make(1)

    async def refused() -> NoReturn:
        raise QueueUnreachable("may not READ the topic")

    monkeypatch.setattr(queue.operator, "_described", refused)
    with pytest.raises(QueueUnreachable):
        await queue.operator.ensure(None)

    await queue.guarded()


async def test_an_operator_that_replaces_a_killed_one_joins_the_group(queue: Queue) -> None:
    killed, later = queue.operator._guard, queue.another()
    await queue.guarded()
    assert killed._task is not None
    killed._task.cancel()
    killed._task = None
    await killed._client.close()
    await later.ensure(None)
    await asyncio.to_thread(until, lambda: later._guard.joined, "the later one is in the group", 3 * PATIENCE)


async def test_an_operator_kept_out_of_the_group_reports_why(make: MakeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make(1)
    first, kept_out = queue.another()._guard, queue.operator
    with monkeypatch.context() as patched:
        patched.setattr(guard, "PROTOCOL", "another")
        first.start()
        await asyncio.to_thread(until, lambda: first.joined, "a member with another protocol is in the group")
    kept_out._guard.start()
    monkeypatch.setattr(guard, "_MISSED_AFTER", 0.0)

    async def said() -> bool:
        return any("JoinGroup was answered by INCONSISTENT_GROUP_PROTOCOL" in one for one in (await kept_out.check()).warnings)

    await eventually(said, "it says so")
    await first.leave()

    async def silent() -> bool:
        return not (await kept_out.check()).warnings

    await eventually(silent, "it is in the group")


async def test_a_group_with_native_kafka_members_waits_and_continues_at_their_offsets(make: MakeQueue) -> None:
    queue = make()
    queue.send(*map(str, range(5)))
    settings = {"bootstrap.servers": queue.broker.servers, "group.id": queue.group, "client.id": "the-old-consumer"}
    member = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe([queue.topic])
    message = await asyncio.to_thread(member.poll, PATIENCE)
    assert message is not None and message.error() is None
    await asyncio.to_thread(lambda: member.commit(message=message, asynchronous=False))
    with pytest.raises(QueueConflict, match=r"members of Kafka's own protocol: the-old-consumer .*Stop them"):
        await queue.operator.ensure(None)
    await asyncio.to_thread(member.close)
    await queue.operator.ensure(None)
    reader = await queue.granted("a", 1)
    entries = await asyncio.to_thread(read, reader, 0, 1, 4)
    assert [entry.value for entry in entries] == [b"1", b"2", b"3", b"4"]


async def test_another_consumer_group_is_rejected_until_the_first_gives_up_or_a_takeover(queue: Queue) -> None:
    await queue.granted("a", 3)
    other = queue.another(Claimant("shop/other", "uid-of-the-other"))
    with pytest.raises(QueueConflict, match=r"belongs to another ConsumerGroup \(uid uid-of-the-group\)"):
        await other.ensure(None)
    told = queue.another(Claimant("shop/other", "uid-of-the-other", frozenset({GROUP.uid})))
    await told.ensure(None)
    await queue.operator.release()
    await other.ensure(None)
    assert await other.grant(0, Uid("z"), Epoch(4)) == Ownership(Uid("z"), Epoch(4))


async def test_a_group_with_another_topic_is_rejected_under_the_same_group_id(queue: Queue, make: MakeQueue) -> None:
    queue.send("1")
    reader = await queue.granted("a", 1)
    stranger = queue.another(Claimant("billing/orders-group", "uid-of-the-other"), topic=make(1).topic)
    with pytest.raises(QueueConflict, match=rf"belongs to another ConsumerGroup \(uid .*, for the topic {queue.topic}:"):
        await stranger.ensure(None)
    (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
    assert entry.value == b"1"
    await queue.operator.release()
    await stranger.ensure(None)


async def test_group_and_topic_names_that_join_alike_do_not_fence_each_other(queue: Queue) -> None:
    queue.broker.make_topic(f"{queue.topic}.eu", 1)
    queue.broker.make_topic("eu", 1)
    spec = TopicToOpen(topic="eu", queue="orders")
    one, other = queue.another(topic=f"{queue.topic}.eu"), KafkaQueue(queue.address, f"{queue.group}.{queue.topic}", spec, GROUP)
    await one.grant(0, Uid("a"), Epoch(1))
    await other.grant(0, Uid("b"), Epoch(1))
    await other.close()
    (seen,) = (await one._transactions.committed((0,))).values()
    assert seen.record is not None
    await one._transactions.commit(0, seen.offset, seen.record)


async def test_two_queues_of_a_group_do_not_share_a_topic(queue: Queue) -> None:
    copy = queue.another(queue="copy")
    await copy.ensure(None)
    await queue.granted("a", 1)
    await queue.operator.check()  # the grant's commit is under way no more, and seen by everybody
    with pytest.raises(QueueConflict, match=f"reads the topic {queue.topic} for the queue orders: take one of the two out"):
        await copy.ensure(None)
    with pytest.raises(QueueConflict, match="for the queue orders"):
        await copy.grant(0, Uid("b"), Epoch(2))
    await copy.release()
    assert (await queue.operator.check()).owners[0] == Ownership(Uid("a"), Epoch(1)), "only its own is given up"
    told = queue.another(GROUP._replace(takes_over=frozenset({GROUP.uid})), queue="copy")
    await told.ensure(None)
    assert await told.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))


async def test_running_pods_read_the_new_topic_of_a_replaced_queue(queue: Queue, make: MakeQueue) -> None:
    queue.send("old")
    for partition in range(4):
        reader = await queue.granted("a", 5, partition)
    (entry,) = await asyncio.to_thread(read, reader, 0, 5, 1)
    other = make(1)
    other.send("new")
    replaced = queue.another(topic=other.topic)
    await replaced.ensure(None)
    assert await replaced.grant(0, Uid("a"), Epoch(2)) == Ownership(Uid("a"), Epoch(2))
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(reader.ack, 0, Epoch(5), [entry.offset])
    await asyncio.to_thread(reader.release, {number: Epoch(5) for number in range(4)}, PATIENCE)
    (entry,) = await asyncio.to_thread(read, reader, 0, 2, 1)
    assert entry.value == b"new"
    await asyncio.to_thread(reader.ack, 0, Epoch(2), [entry.offset])
    assert (await replaced.check()).lag == {0: 0}


@pytest.mark.parametrize("there", [True, False])
async def test_a_queue_given_up_after_a_change_of_topic_leaves_no_record_behind(
    queue: Queue, make: MakeQueue, there: bool
) -> None:
    """`there`: whether the new topic exists. The next group of the same name may read the former one again."""
    await queue.granted("a", 5)
    replaced = queue.another(topic=make(1).topic if there else f"{queue.topic}-with-a-slip")
    with nullcontext() if there else pytest.raises(QueueUnreachable, match="there is no topic"):
        assert await replaced.release()
    successor = queue.another(Claimant("shop/orders-group", "uid-of-the-next"))
    await successor.ensure(None)
    assert await successor.grant(0, Uid("b"), Epoch(6)) == Ownership(Uid("b"), Epoch(6))


async def test_an_overwritten_record_is_noticed_and_replaced(queue: Queue) -> None:
    """`kafka-consumer-groups.sh --reset-offsets` overwrites it while the group is empty."""
    queue.send("1", "2", "3")
    reader = await queue.granted("a", 1)
    await asyncio.to_thread(read, reader, 0, 1, 3)
    await queue.operator._guard.leave()
    await asyncio.to_thread(queue.commit_plainly, 2)
    assert (await queue.operator.check()).owners == {}
    with pytest.raises(StaleOwner, match="belongs to no pod"):
        await asyncio.to_thread(reader.verify, 0, Epoch(1))
    again = await queue.granted("a", 2)
    assert [entry.value for entry in await asyncio.to_thread(read, again, 0, 2, 1)] == [b"3"]


async def test_a_record_with_an_invalid_epoch_is_overwritten(queue: Queue) -> None:
    await queue.granted("a", 1)
    record = await queue.record()
    token = await queue.operator._transactions.init(0)
    await queue.operator._transactions.commit(0, 0, replace(record, epoch=Epoch(2**63 - 1), token=token))
    assert (await queue.operator.check()).owners == {}
    assert await queue.operator.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))
    queue.send("1")
    (entry,) = await asyncio.to_thread(read, queue.reader("b"), 0, 2, 1)
    assert entry.value == b"1"


async def test_entries_a_former_group_had_in_hand_come_marked_to_the_next(queue: Queue) -> None:
    await queue.at_hand("1", "2")
    await queue.operator.release()
    successor = queue.another(Claimant("shop/orders-group", "uid-of-the-next"))
    await successor.ensure(None)
    await successor.grant(0, Uid("b"), Epoch(2))
    queue.send("3")
    entries = await asyncio.to_thread(read, queue.reader("b"), 0, 2, 3)
    assert [(entry.value, entry.redelivered) for entry in entries] == [(b"1", True), (b"2", True), (b"3", True)]


async def test_an_owner_renews_a_token_replaced_by_a_dead_process(queue: Queue) -> None:
    """An operator ended between its two requests, a stopped owner came back too late, or the broker aborted a commit that took
    too long."""
    reader, (first, second) = await queue.at_hand("1", "2")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [first.offset])
    await queue.operator._transactions.init(0)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [second.offset])
    assert await queue.committed() == 2
    await queue.operator._transactions.init(0)
    successor = await queue.granted("b", 2)
    queue.send("3")
    (third,) = await asyncio.to_thread(read, successor, 0, 2, 1)
    assert third.value == b"3"


async def begin_a_commit(queue: Queue, partition: int = 0) -> None:
    """Begin a commit of an owner that ends before it has ended it."""
    transactions, client = queue.operator._transactions, queue.operator._client
    seen = await queue.seen(partition)
    assert seen.record is not None
    name, token = transactions._name(partition), seen.record.token
    ask = partial(client.to_transactions, name, AddOffsetsToTxnRequest(name, *token, queue.group))
    await client.until_taken("AddOffsetsToTxn", ask, queue.topic, name)  # the commit before it may be ending still
    offsets = [(queue.topic, [(partition, seen.offset, seen.record.to_text())])]
    answer = await client.to_group(TxnOffsetCommitRequest(name, queue.group, *token, offsets))
    assert answer.errors[0][1][0][1] == 0
    assert (await transactions.now((partition,)))[1] == (partition,)


class OldViews(KafkaClient):
    """A coordinator that answers with old commits until something is written: it has just taken over and knows its log, but not
    yet that all of it is committed."""

    old: Any = None

    async def to_group(self, request: Any, *, transactional_id: str = "") -> Any:
        if isinstance(request, CommittedOffsets) and self.old is not None:
            return self.old
        if isinstance(request, TxnOffsetCommitRequest):
            self.old = None
        return await super().to_group(request, transactional_id=transactional_id)


async def test_a_coordinator_with_an_old_view_lowers_no_offset(queue: Queue) -> None:
    queue.send("1", "2", "3")
    nothing = await queue.operator._client.to_group(CommittedOffsets(queue.group, queue.topic, (0,)))
    reader = await queue.granted("a", 1)
    await queue.seen()  # the grant is no longer under way
    long_ago = await queue.operator._client.to_group(CommittedOffsets(queue.group, queue.topic, (0,)))
    entries = await asyncio.to_thread(read, reader, 0, 1, 3)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entries[0].offset, entries[1].offset])
    assert await queue.committed() == 2
    other = queue.another()
    client = other._transactions.client = OldViews(queue.address, queue.group, "test")
    for epoch, client.old in enumerate((nothing, long_ago), 2):
        assert await other.grant(0, Uid("b"), Epoch(epoch)) == Ownership(Uid("b"), Epoch(epoch))
        assert await queue.committed() == 2
    client.old = long_ago
    with pytest.raises(StaleToken):
        await other._transactions.renewed(0)
    assert await queue.committed() == 2
    heir = queue.reader("b")
    (entry,) = await asyncio.to_thread(read, heir, 0, 3, 1)
    assert entry.value == b"3"
    await client.close()


async def test_an_abandoned_commit_blocks_neither_grants_nor_checks(queue: Queue) -> None:
    await queue.at_hand("1")
    await begin_a_commit(queue)
    assert await queue.operator.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))
    reader = queue.reader("b")
    (entry,) = await asyncio.to_thread(read, reader, 0, 2, 1)
    await begin_a_commit(queue)
    assert (await queue.operator.check()).owners[0] == Ownership(Uid("b"), Epoch(2))
    await asyncio.to_thread(reader.ack, 0, Epoch(2), [entry.offset])
    assert await queue.committed() == 1


async def test_a_process_finds_its_topic_although_the_only_commit_is_abandoned(make: MakeQueue) -> None:
    """The process before was killed while it took up the queue's only partition."""
    queue = make(1)
    queue.send("1")
    await queue.granted("a", 1)
    await queue.seen()  # the grant is no longer under way
    await begin_a_commit(queue)
    (entry,) = await asyncio.to_thread(read, queue.reader("a"), 0, 1, 1)
    assert (entry.value, entry.redelivered) == (b"1", False)


async def test_reading_offsets_neither_waits_for_a_commit_nor_aborts_it(queue: Queue) -> None:
    await queue.at_hand("1")
    await begin_a_commit(queue)
    offsets = (await queue.another().offsets())[0]
    assert (offsets.committed, offsets.end) == (0, 1)
    transactions, record = queue.operator._transactions, (await queue.operator._transactions.before_pending((0,)))[0].record
    assert record is not None
    assert (await transactions.now((0,)))[1] == (0,), "it was not waited for, nor aborted"
    await transactions.end(0, 1, record)
    assert await queue.committed() == 1


async def test_an_owner_with_a_commit_under_way_counts_as_working(queue: Queue) -> None:
    reader, (entry,) = await queue.at_hand("1")
    await begin_a_commit(queue)
    assert await queue.operator.pause(0, Epoch(1)) == IN_USE
    assert (await queue.operator._transactions.now((0,)))[1] == (0,), "it was not waited for, nor aborted"
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset])
    await asyncio.to_thread(reader.release, {0: Epoch(1)}, PATIENCE)
    await queue.released()


async def test_of_two_processes_with_one_uid_only_the_later_one_reads(queue: Queue) -> None:
    first, entries = await queue.at_hand("1", "2")
    second = queue.reader("a")
    again = await asyncio.to_thread(read, second, 0, 1, 2)
    with pytest.raises(StaleOwner, match="read by a newer process with the same POD_UID"):
        await asyncio.to_thread(first.ack, 0, Epoch(1), [entries[0].offset])
    with pytest.raises(StaleOwner, match="read by a newer process with the same POD_UID"):
        await asyncio.to_thread(first.read, 0, Epoch(1))
    await asyncio.to_thread(second.ack, 0, Epoch(1), [entry.offset for entry in again])
    assert await queue.committed() == 2


async def test_members_using_kip_848_are_seen(make: MakeQueue) -> None:
    queue = make()
    member = Consumer(
        {
            "bootstrap.servers": queue.broker.servers,
            "group.id": queue.group,
            "client.id": "the-new-consumer",
            "group.protocol": "consumer",
        }
    )
    member.subscribe([queue.topic])

    def joined() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    await asyncio.to_thread(until, joined, "it has joined")
    with pytest.raises(QueueConflict, match=r"members of Kafka's own protocol: the-new-consumer .*Stop them"):
        await queue.operator.ensure(None)
    await asyncio.to_thread(member.close)
    await queue.operator.ensure(None)
    assert await queue.operator.grant(0, Uid("a"), Epoch(1)) == Ownership(Uid("a"), Epoch(1))
