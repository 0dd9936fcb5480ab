"""An owner's outputs are sent once, whatever happens to their commit."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka import commits, event_loop
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import KafkaClient, StaleToken
from baton.queues.kafka.commits import OwnerCommits, PartitionLocks
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.fence import PartitionTransactions
from baton.queues.kafka.group_offsets import Commit, GroupOffsets
from baton.queues.kafka.read_position import ReadPosition, sent_together, taken_up
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.output import MOST_IN_TRANSACTION, Output
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueUnreachable
from tests.waiting import PATIENCE

# -- Locks: a commit of one partition does not block commits of others.


def free(locks: PartitionLocks) -> set[int]:
    with locks.free([1, 2, 3]) as found:
        return found


async def test_locks_that_are_not_held_are_free() -> None:
    locks = PartitionLocks()
    async with locks.held([1, 3]):
        assert free(locks) == {2}
        async with locks.held([2]):
            assert free(locks) == set()
    with locks.free([1]):
        assert free(locks) == {2, 3}
    assert free(locks) == {1, 2, 3}


async def test_a_lock_that_is_not_free_in_time_leaves_none_held() -> None:
    locks = PartitionLocks()
    async with locks.held([2]):
        with pytest.raises(TimeoutError):
            async with locks.held([1, 2, 3], time.monotonic() + 0.01):
                pass
        assert free(locks) == {1, 3}
    async with locks.held([1, 2, 3], time.monotonic() + 0.01):
        assert free(locks) == set()


async def test_locks_taken_in_different_orders_cannot_deadlock() -> None:
    locks, turns, has = PartitionLocks(), list[int](), set[int]()

    async def take(*wanted: int) -> None:
        for _ in range(300):
            async with locks.held(wanted):
                assert not has & set(wanted)
                has.update(wanted)
                await asyncio.sleep(0)
                has.difference_update(wanted)
                turns.append(wanted[0])

    await asyncio.gather(take(1, 2), take(2, 1), take(2, 3, 1))
    assert len(turns) == 900


run = asyncio.run

UID, PLACE = Uid("a"), Partition(QueueName("orders"), 0)
NEXT = Ownership(Uid("b"), Epoch(2))
Change = Callable[[Committed], Record | None]
Looked = tuple[dict[int, Committed], tuple[int, ...]]
Refusals = Mapping[int, StaleToken | QueueUnreachable]


def out(value: str) -> Output:
    return Output("out", value.encode())


class Broker(GroupOffsets):
    """Partition 0 of a queue, at a broker whose answers may get lost."""

    def __init__(self, committed: Committed | None = None) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "orders")
        record = Record(group="g", queue="orders", uid=UID, epoch=Epoch(1), topic_id="t", token=Token(1, 0), first=1)
        self.committed = committed or Committed(0, record)
        self.in_force = Token(1, 0)
        self.log_end = 0
        self.sent: list[bytes | None] = []
        self.records: list[Record] = []
        """Records of successful commits."""
        self.within: float | None = None
        """Seconds given to the last call of `commit_several`."""
        self.several: list[set[int]] = []
        """Partitions of each call of `commit_several`."""
        self.refuses: Refusals | None = None
        """The answer of `commit_several`, which then commits nothing."""
        self.loses: list[str] = []
        """Faults of the next commits: the "answer" or the "request" is lost, the "owner" has changed, or another process has
        "renewed" the token."""

    @property
    def record(self) -> Record:
        assert self.committed.record is not None
        return self.committed.record

    @property
    def tokens(self) -> list[Token]:
        return [one.token for one in self.records]

    async def now(self, partitions: tuple[int, ...], within: float = PATIENCE) -> Looked:
        return {0: self.committed}, ()

    async def stable(self, partition: int, within: float = PATIENCE) -> Committed:
        return self.committed

    async def after_refusal(self, partition: int, refused: Token, within: float | None = None) -> tuple[Committed, bool]:
        seen = await self.stable(partition)
        return seen, seen.record is not None and seen.record.token == refused

    def take(self, wanted: Commit) -> None:
        if wanted.record.token != self.in_force:
            raise StaleToken
        what = self.loses.pop(0) if self.loses else ""
        if what == "request":
            raise QueueUnreachable("it does not answer")
        self.committed = Committed(wanted.offset, wanted.record)
        self.sent += [output.value for output in wanted.outputs]
        self.records.append(wanted.record)
        if what == "answer":
            raise QueueUnreachable("it does not answer")
        if what == "renewed":
            self.renew(lambda seen: None)
            raise StaleToken
        if what == "owner":
            self.committed = Committed(wanted.offset, replace(wanted.record, uid=Uid("b"), epoch=Epoch(2)))
            raise StaleToken

    async def commit_several(self, wanted: Mapping[int, Commit], within: float | None = None) -> Refusals:
        self.within = within
        self.several.append(set(wanted))
        if self.refuses is not None:
            return self.refuses
        try:
            for one in wanted.values():
                self.take(one)
        except (StaleToken, QueueUnreachable) as problem:
            return {0: problem}
        return {}

    async def end_of_log(self, partition: int) -> int:
        return self.log_end

    async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
        return self.renew(change)

    def renew(self, change: Change) -> Committed:
        self.in_force = self.next_token()
        seen = self.committed
        self.committed = Committed(seen.offset, replace(change(seen) or self.record, token=self.in_force))
        return self.committed

    def next_token(self) -> Token:
        return Token(1, self.in_force.epoch + 1)


def planned(then: Ownership | None) -> DirectHandoffs:
    """`then` is the next owner, if known."""
    handoffs = DirectHandoffs()
    handoffs.set_next_owner(PLACE, Epoch(1), then)
    return handoffs


def seen_earlier() -> DirectHandoffs:
    """Return the hand-offs of a process that has seen the partition with its former owner."""
    handoffs = DirectHandoffs()
    handoffs.saw(PLACE, Epoch(1))
    return handoffs


def commits_of(broker: Broker, uid: Uid = UID, handoffs: DirectHandoffs | None = None) -> OwnerCommits:
    return OwnerCommits(broker, QueueName("orders"), uid, {}, handoffs or DirectHandoffs())


class Owner:
    """Has ten entries in hand."""

    def __init__(
        self,
        broker: Broker | None = None,
        handoffs: DirectHandoffs | None = None,
        positions: dict[int, ReadPosition] | None = None,
    ) -> None:
        self.broker, self.handoffs = broker or Broker(), handoffs or DirectHandoffs()
        self.positions = {} if positions is None else positions
        self.commits = OwnerCommits(self.broker, QueueName("orders"), UID, self.positions, self.handoffs)
        offset, record = self.broker.committed.offset, self.broker.record
        self.broker.take(Commit(offset, taken_up(record, offset, 0, self.commits._mark)))
        self.position = self.positions[0] = ReadPosition.begun(self.broker.committed, time.monotonic())
        self.position.progress.handed_out(range(10))

    def finish(self, *offsets: int) -> None:
        """Finish entries, each with an output."""
        for offset in offsets:
            self.position.outputs.add([offset], [out(str(offset))])
            self.position.progress.finish([offset])

    def also_reads(self, partition: int, handed_out: int = 0) -> ReadPosition:
        self.positions[partition] = one = ReadPosition.begun(self.broker.committed, 0.0)
        one.progress.handed_out(range(handed_out))
        return one

    def release(self, within: float = PATIENCE) -> Mapping[int, QueueUnreachable]:
        return run(self.commits.release({0: self.position}, within))


def commit(owner: Owner) -> None:
    run(owner.commits.commit(0, owner.position))


def commit_several(owner: Owner) -> None:
    for problem in run(owner.commits.commit_several({0})).values():
        raise problem


both = pytest.mark.parametrize("how", [commit, commit_several])


@both
def test_failures_are_committed_even_if_nothing_is_finished(how: Callable[[Owner], None]) -> None:
    owner = Owner()
    owner.position.failed(3)
    how(owner)
    assert (owner.broker.committed.offset, owner.broker.record.tries) == (0, {3: 1})


@both
def test_outputs_are_committed_once_with_their_offset(how: Callable[[Owner], None]) -> None:
    owner = Owner()
    owner.finish(0, 1)
    how(owner)
    owner.finish(2)
    how(owner)
    assert (owner.broker.committed.offset, owner.broker.sent) == (3, [b"0", b"1", b"2"])
    assert set(owner.broker.tokens) == {Token(1, 0)}, "there is no reason for another token"


@both
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_after_an_unanswered_commit_only_outputs_past_the_offset_are_sent(how: Callable[[Owner], None], lost: str) -> None:
    owner = Owner()
    owner.broker.loses = [lost]
    owner.finish(0, 1)
    with pytest.raises(QueueUnreachable):
        how(owner)
    owner.finish(2)
    how(owner)
    assert (owner.broker.committed.offset, owner.broker.sent) == (3, [b"0", b"1", b"2"])
    assert owner.broker.tokens[-1] == Token(1, 1), "a late request of the first commit is refused"


@both
def test_a_commit_taken_before_its_token_was_renewed_is_not_repeated(how: Callable[[Owner], None]) -> None:
    owner = Owner()
    owner.broker.loses = ["renewed"]
    owner.finish(0)
    how(owner)
    owner.finish(1)
    how(owner)
    assert (owner.broker.committed.offset, owner.broker.sent) == (2, [b"0", b"1"])


class RolledOver(Broker):
    """The epochs of its producer id are used up: the next token is the first of another id."""

    def next_token(self) -> Token:
        return Token(0, 0)


def test_a_smaller_token_of_a_new_producer_id_is_in_force() -> None:
    owner = Owner(RolledOver())
    owner.broker.loses = ["renewed"]
    for offset in (0, 1):
        owner.finish(offset)
        commit(owner)
    assert (owner.broker.committed.offset, owner.broker.sent, owner.broker.tokens[-1]) == (2, [b"0", b"1"], Token(0, 0))


LARGE = Output("out", b"." * (MOST_IN_TRANSACTION * 2 // 5))
"""Two of these fit in one transaction."""


@pytest.mark.parametrize("then", [None, NEXT])
def test_only_the_last_of_several_transactions_carries_the_last_record(then: Ownership | None) -> None:
    owner = Owner(handoffs=planned(then))
    for offset in range(9, -1, -1):
        owner.position.outputs.add([offset], [LARGE])
        owner.position.progress.finish([offset])
    owner.release()
    *before, last = owner.broker.records[1:]
    assert [(one.uid, one.released) for one in before] == [(UID, False)] * 4
    assert (last.uid, last.released) == ((then.uid, False) if then else (UID, True))
    assert (owner.broker.committed.offset, len(owner.broker.sent)) == (10, 10)


def test_partitions_with_too_many_outputs_for_one_transaction_commit_separately() -> None:
    owner = Owner()
    several = {number: ReadPosition.begun(Committed(0, owner.position.record), 0.0) for number in range(4)}
    for number, output in ((0, LARGE), (1, LARGE), (2, LARGE), (3, out("small"))):
        several[number].outputs.add([0], [output])
    assert list(sent_together(several)) == [0, 1, 3]


def test_a_former_owner_sends_no_more_outputs() -> None:
    owner = Owner()
    owner.broker.loses = ["owner"]
    owner.finish(0)
    with pytest.raises(StaleOwner):
        commit(owner)
    owner.finish(1)
    commit_several(owner)
    assert owner.broker.sent == [b"0"]


def test_a_commit_without_outputs_is_repeated_under_the_same_token() -> None:
    owner = Owner()
    owner.broker.loses = ["answer"]
    owner.position.progress.finish([0])
    with pytest.raises(QueueUnreachable):
        commit(owner)
    commit(owner)
    assert owner.broker.tokens == [Token(1, 0)] * 3, "the first is that of the mark"
    owner.finish(1)
    commit(owner)
    assert owner.broker.tokens[-1] == Token(1, 1), "nothing is sent under a token of which a commit may be under way"


def test_partitions_that_no_process_has_read_are_taken_up_together() -> None:
    commits = commits_of(broker := Broker())
    found = run(commits.newly_granted({0: Epoch(1)}))
    assert run(commits.take_up(found))[0].offset == 0
    assert broker.record.reader, "it is marked before anything is handed out"
    assert not run(commits.newly_granted({0: Epoch(1)})), "an earlier process may read it, and has to be shut out"
    assert not run(commits_of(broker, Uid("b")).newly_granted({0: Epoch(1)}))


def test_a_partition_granted_to_another_pod_meanwhile_is_not_taken_up() -> None:
    commits = commits_of(broker := Broker())
    found = run(commits.newly_granted({0: Epoch(1)}))
    broker.in_force = Token(1, 7)
    assert run(commits.take_up(found)) == {}


def handed_over(then: Ownership | None = NEXT) -> Owner:
    """An owner that has released its partition with everything finished."""
    owner = Owner(handoffs=planned(then))
    owner.position.progress.finish(range(10))
    assert owner.release() == {}
    return owner


def test_an_owner_that_releases_hands_over_and_takes_no_further_token() -> None:
    broker = handed_over().broker
    record = broker.record
    assert (broker.committed.offset, record.uid, record.epoch, record.reader) == (10, "b", 2, BY_GIVER)
    assert broker.in_force == Token(1, 0), "what it has left is not its own"


def test_without_a_planned_owner_the_record_says_released() -> None:
    record = handed_over(None).broker.record
    assert (record.uid, record.released) == (UID, True)


class Receiver:
    """Has received the partition, and has begun."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        handoffs = seen_earlier()
        handoffs.handed_over(PLACE, HandedOver("orders", broker.committed, 0.0))
        self.positions: dict[int, ReadPosition] = {}
        self.commits = OwnerCommits(broker, QueueName("orders"), Uid("b"), self.positions, handoffs)
        self.found = self.commits.take_handed_over({0: Epoch(2)})
        self.positions |= self.found

    @property
    def record(self) -> Record:
        return self.broker.record


def received() -> Receiver:
    return Receiver(handed_over().broker)


def test_a_receiver_begins_without_a_commit_and_counts_as_the_owner() -> None:
    receiver = received()
    assert [one.offset for one in receiver.found.values()] == [10]
    run(receiver.commits.check_owner(0, receiver.positions[0]))
    assert receiver.record.reader == BY_GIVER, "nothing was written yet"
    assert not receiver.commits.take_handed_over({0: Epoch(2)}), "it was handed over once"


def test_a_receivers_first_commit_writes_its_mark_under_a_new_token() -> None:
    receiver = received()
    committed = receiver.broker.records.copy()
    run(receiver.commits.commit_several({0}))
    assert receiver.record.reader not in ("", BY_GIVER) and receiver.record.token == Token(1, 1)
    assert receiver.broker.records == committed, "there was nothing else to commit"
    receiver.positions[0].progress.handed_out([10])
    receiver.positions[0].progress.finish([10])
    run(receiver.commits.commit_several({0}))
    assert (receiver.broker.committed.offset, receiver.broker.in_force) == (11, Token(1, 1)), "one token is enough"


def test_partitions_received_a_moment_ago_are_released_together() -> None:
    class Slow(Broker):
        under_way = most = 0

        async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0)
            self.under_way -= 1
            return self.renew(change)

    receiver = Receiver(broker := Slow(handed_over().broker.committed))
    broker.refuses = {}
    assert run(receiver.commits.release({n: ReadPosition.begun(broker.committed, 0.0) for n in range(8)}, PATIENCE)) == {}
    assert broker.most == 8, "a hand-off does not take as long as all of its tokens after each other"


def test_entries_finished_before_the_mark_are_committed_after_it() -> None:
    receiver = received()
    receiver.positions[0].progress.handed_out([10])
    receiver.positions[0].progress.finish([10])
    run(receiver.commits.commit(0, receiver.positions[0]))
    assert (receiver.broker.committed.offset, receiver.record.token) == (11, Token(1, 1))
    assert receiver.record.reader not in ("", BY_GIVER)


class Stopped(Broker):
    """The process is stopped for half a minute each time that the broker has answered about a token."""

    clock = 1000.0

    async def stable(self, partition: int, within: float = PATIENCE) -> Committed:
        self.clock += 30.0
        return await super().stable(partition, within)

    async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
        self.clock += 30.0
        return await super().renewed(partition, change)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    broker = Stopped(handed_over().broker.committed)
    monkeypatch.setattr(commits, "time", SimpleNamespace(monotonic=lambda: broker.clock))
    return broker


def test_an_answer_confirms_the_ownership_from_when_it_was_requested(stopped: Stopped) -> None:
    receiver = Receiver(stopped)
    stopped.loses = ["request"]  # of the commit after the mark
    run(receiver.commits.commit_several({0}))
    assert receiver.record.reader != BY_GIVER
    assert (receiver.positions[0].sure_at, stopped.clock) == (1000.0, 1030.0)


@pytest.mark.parametrize("lost", ["request", "renewed"])
def test_a_new_token_confirms_the_ownership_from_when_it_was_requested(stopped: Stopped, lost: str) -> None:
    receiver = Receiver(stopped)
    run(receiver.commits.commit_several({0}))
    receiver.positions[0].progress.handed_out([10, 11])
    receiver.positions[0].outputs.add([10], [out("10")])
    receiver.positions[0].progress.finish([10])
    stopped.clock = 2000.0
    stopped.loses = [lost, "request"]
    for _ in range(2 if lost == "request" else 1):
        with pytest.raises(QueueUnreachable):
            run(receiver.commits.commit(0, receiver.positions[0]))
    assert (receiver.positions[0].sure_at, stopped.clock) == (2000.0, 2030.0)


class Granting(Broker):
    """An operator takes the first token, before the owner has one."""

    times = 1

    async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
        if self.times:
            self.times -= 1
            self.renew(lambda seen: None)
            raise StaleToken
        return self.renew(change)


def test_the_mark_is_written_even_if_the_operator_takes_a_token_meanwhile() -> None:
    receiver = Receiver(Granting(handed_over().broker.committed))
    run(receiver.commits.commit_several({0}))
    assert receiver.record.reader not in ("", BY_GIVER)


def test_commits_of_the_giver_are_refused_after_the_mark() -> None:
    giver = handed_over()
    run(Receiver(giver.broker).commits.commit_several({0}))
    assert giver.release() == {}, "it was taken before"
    assert giver.broker.record.reader != BY_GIVER


class AnsweredLate(Broker):
    """The answer to a look arrives after what happens `meanwhile`."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def now(self, partitions: tuple[int, ...], within: float = PATIENCE) -> Looked:
        found = await super().now(partitions)
        if self.meanwhile is not None:
            await self.meanwhile()
        return found


def test_a_look_from_before_the_mark_does_not_shut_its_own_process_out() -> None:
    receiver = Receiver(broker := AnsweredLate(handed_over().broker.committed))
    broker.meanwhile = lambda: receiver.commits.commit_several({0})
    run(receiver.commits.check_owner(0, receiver.positions[0]))
    assert receiver.positions[0].lost is None


def test_a_look_from_before_an_own_commit_says_nothing_about_the_owner() -> None:
    class Old(AnsweredLate):
        async def now(self, partitions: tuple[int, ...], within: float = PATIENCE) -> Looked:
            found = await super().now(partitions)
            return found if self.meanwhile is None else ({0: Committed(0, replace(self.record, uid=Uid("former")))}, ())

    owner = Owner(broker := Old())
    owner.finish(0)
    broker.meanwhile = lambda: owner.commits.commit_several({0})
    run(owner.commits.check_all())
    assert owner.position.lost is None
    run(owner.commits.check_all())
    assert owner.position.lost is not None, "nothing was committed since"


def test_a_partition_handed_over_since_the_process_began_is_taken_up_unmarked() -> None:
    broker, handoffs = handed_over().broker, seen_earlier()
    position = run(commits_of(broker, Uid("b"), handoffs).begin(0, Epoch(2)))
    assert (position.marked, position.handed_over, position.record.token) == (0, False, Token(1, 1))
    again = run(commits_of(broker, Uid("b"), handoffs).begin(0, Epoch(2)))
    assert again.record.reader != position.record.reader, "it is the earlier process by now"


def test_the_next_owner_stays_while_the_last_commit_is_in_doubt() -> None:
    owner = Owner(handoffs=planned(NEXT))
    owner.position.progress.finish(range(10))
    owner.broker.loses = ["answer"]
    assert owner.release()
    for then in (Ownership(Uid("c"), Epoch(3)), None):
        owner.handoffs.set_next_owner(PLACE, Epoch(1), then)
        owner.broker.loses = ["answer"]
        assert owner.release()
        record = owner.broker.record
        assert (record.uid, record.epoch, record.released) == ("b", 2, False)


def test_entries_finished_during_a_commit_do_not_make_it_the_last_record_at_the_old_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner(handoffs=planned(NEXT))
    owner.position.progress.finish(range(5))

    def finished_meanwhile(position: ReadPosition) -> Record:
        position.progress.finish(range(5, 10))
        position.next_owner, position.releasing = NEXT, True
        return position.last_record()

    monkeypatch.setattr(ReadPosition, "next_record", finished_meanwhile)
    run(owner.commits.commit(0, owner.position))
    assert (owner.broker.committed.offset, owner.broker.records[-1].uid) == (10, "b")


def test_a_hand_over_in_a_background_commit_is_not_repeated() -> None:
    owner = Owner(handoffs=planned(NEXT))
    owner.position.progress.finish(range(10))
    assert owner.release(0.0), "it is too late for it"
    run(owner.commits.commit_several({0}))
    for then in (Ownership(Uid("c"), Epoch(3)), None):
        owner.handoffs.set_next_owner(PLACE, Epoch(1), then)
        assert owner.release() == {}
    assert [(one.uid, one.epoch) for one in owner.broker.records[1:]] == [("b", 2)]


def test_a_mark_whose_answer_was_lost_is_not_taken_for_an_earlier_process() -> None:
    class Losing(Broker):
        loses_answer = True

        async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
            found = self.renew(change)
            if self.loses_answer:
                self.loses_answer = False
                raise QueueUnreachable("it does not answer")
            return found

    broker = Losing(handed_over().broker.committed)
    broker.log_end = 1000  # so an earlier process may have read on
    commits = commits_of(broker, Uid("b"), seen_earlier())
    with pytest.raises(QueueUnreachable):
        run(commits.begin(0, Epoch(2)))
    position = run(commits.begin(0, Epoch(2)))
    assert (position.marked, position.record.ends, position.handed_over) == (0, {}, False)


def test_a_partition_without_a_token_does_not_hold_up_other_commits() -> None:
    class NoToken(Broker):
        async def renewed(self, partition: int, change: Change, within: float | None = None) -> Committed:
            if partition:
                return self.renew(change)
            raise QueueUnreachable("its coordinator is away")

    receiver = Receiver(broker := NoToken(handed_over().broker.committed))
    broker.refuses = {}
    other = receiver.positions[1] = ReadPosition.begun(Committed(0, replace(receiver.record, reader="p")), 0.0)
    other.progress.handed_out([0])
    other.progress.finish([0])
    third = receiver.positions[2] = ReadPosition.begun(broker.committed, 0.0)
    assert third.handed_over
    problems = run(receiver.commits.commit_several({0, 1, 2}))
    assert "away" in str(problems[0]) and isinstance(problems[0], PartitionUnavailable) and problems.keys() == {0}
    assert (broker.several[0], other.committed) == ({1}, 1), "and first"
    assert not third.handed_over


def test_two_processes_of_the_receiver_do_not_both_go_on() -> None:
    first = received()
    second = Receiver(first.broker)
    run(first.commits.commit_several({0}))
    with pytest.raises(StaleOwner):
        run(second.commits.check_owner(0, second.positions[0]))


def test_a_hand_over_seen_under_an_earlier_epoch_or_in_another_topic_is_ignored() -> None:
    broker, handoffs = handed_over().broker, seen_earlier()
    commits = commits_of(broker, Uid("b"), handoffs)
    handoffs.handed_over(PLACE, HandedOver("orders", broker.committed, 0.0))
    assert not commits.take_handed_over({0: Epoch(3)})
    handoffs.handed_over(PLACE, HandedOver("orders", broker.committed, 0.0))
    assert commits.take_handed_over({0: Epoch(2)})
    others = HandedOver("orders-2", Committed(10, replace(broker.record, epoch=Epoch(3))), 0.0)
    handoffs.handed_over(PLACE, others)
    assert not commits.take_handed_over({0: Epoch(3)})


def test_low_reservations_are_renewed_together() -> None:
    owner = Owner()
    owner.broker.refuses = {}
    for number, handed_out in ((1, 900), (2, 100), (3, 900)):
        owner.also_reads(number, handed_out)
    run(owner.commits.reserve(0, owner.position, 5_000))
    assert owner.broker.several == [{0, 1, 3}]
    assert [one.record.reserved for one in owner.positions.values()] == [5_000, 900 + 1_800, 1_000, 900 + 1_800]


def test_a_refusal_of_another_partition_does_not_stop_reading() -> None:
    owner = Owner()
    other = owner.also_reads(1, 900)
    owner.broker.refuses = {1: QueueUnreachable("it does not answer")}
    run(owner.commits.reserve(0, owner.position, 5_000))
    assert (owner.position.record.reserved, other.record.reserved) == (5_000, 1_000)
    with pytest.raises(QueueUnreachable):
        run(owner.commits.reserve(1, other, 5_000))


def test_nothing_is_reserved_in_a_lost_partition() -> None:
    owner = Owner(broker := Broker())
    broker.committed = Committed(0, replace(broker.record, uid=Uid("b"), epoch=Epoch(2), token=Token(2, 0)))
    broker.refuses = {0: StaleToken()}
    with pytest.raises(StaleOwner):
        run(owner.commits.reserve(0, owner.position, 5_000))


def test_last_commits_go_together_within_their_time() -> None:
    owner = Owner()
    owner.finish(0, 1)
    owner.release(2.5)
    assert (owner.broker.committed.offset, owner.broker.record.reserved) == (2, 10), "what it had in hand is not finished"
    assert owner.broker.within is not None and 0 < owner.broker.within <= 2.5


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_failed_last_commit_is_reported_and_may_be_repeated(lost: str) -> None:
    owner = Owner()
    owner.finish(*range(10))
    owner.broker.loses = [lost]
    assert {number: str(problem) for number, problem in owner.release().items()} == {0: "it does not answer"}
    assert owner.release() == {}
    assert owner.broker.record.released
    assert (owner.broker.committed.offset, len(owner.broker.sent)) == (10, 10)


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commits_after_a_failed_last_commit_carry_the_last_record_too(lost: str) -> None:
    owner = Owner()
    owner.position.progress.finish(range(10))
    owner.broker.loses = [lost]
    assert owner.release()
    run(owner.commits.commit_several({0}))
    record = owner.broker.record
    assert (owner.broker.committed.offset, record.released, record.reserved) == (10, True, 10)


@pytest.mark.parametrize(("seconds", "again"), [(4.0, "in time"), (0.1, "does not answer")])
def test_after_failed_last_commits_only_a_silent_broker_is_left_alone_for_a_moment(
    seconds: float, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(commits, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Silent(Broker):
        async def commit_several(self, wanted: Mapping[int, Commit], within: float | None = None) -> Refusals:
            now[0] += seconds
            raise QueueUnreachable("it does not answer")

    owner = Owner(Silent())
    assert owner.release().keys() == {0}
    assert again in str(owner.release()[0])
    now[0] += 1.0
    assert "does not answer" in str(owner.release()[0])


def test_an_idle_offset_is_committed_again_before_it_expires() -> None:
    owner = Owner(broker := Broker())
    before = list(broker.tokens)
    run(owner.commits.commit_several({0}))
    assert broker.tokens == before, "there is no need yet"
    owner.position.committed_at -= 6 * 3600 + 1
    assert owner.commits.idle() == {0}
    run(owner.commits.commit_several({0}))
    assert broker.tokens == [*before, Token(1, 0)]
    assert not owner.commits.idle(), "that was enough"


def test_a_lost_partitions_offset_is_not_kept_from_expiring() -> None:
    owner = Owner()
    owner.broker.loses = ["owner"]
    with pytest.raises(StaleOwner):
        commit(owner)
    owner.position.committed_at -= 6 * 3600 + 1
    assert not owner.commits.idle()


class UnderWay(Broker):
    """A foreign commit of partition 0 is under way."""

    owner: Owner

    def __init__(self) -> None:
        super().__init__()
        self.ends = False
        self.under_way: tuple[int, ...] = (0,)
        self.waited: list[float] = []

    async def now(self, partitions: tuple[int, ...], within: float = PATIENCE) -> Looked:
        return {one: self.committed for one in partitions if one not in self.under_way}, self.under_way

    async def stable(self, partition: int, within: float = PATIENCE) -> Committed:
        self.waited.append(within)
        with self.owner.commits._locks.free([0, 1]) as free:
            assert free == {0, 1}, "waiting for it blocks no commit"
        if not self.ends:
            raise PartitionUnavailable("somebody else's transaction is open")
        return self.committed


def test_a_foreign_transaction_is_waited_for_once_and_holds_up_no_other_commit() -> None:
    broker = UnderWay()
    broker.owner = owner = Owner(broker)
    for _ in range(3):
        with pytest.raises(PartitionUnavailable, match="somebody else's"):
            run(owner.commits.check_owner(0, owner.position))
    assert [seconds > 0 for seconds in broker.waited] == [True, False, False]
    broker.ends = True
    run(owner.commits.check_owner(0, owner.position))
    owner.position.unsettled, broker.under_way = True, ()
    run(owner.commits.check_owner(0, owner.position))
    broker.under_way = (0,)
    owner.position.in_doubt, broker.ends = True, False
    for _ in range(2):
        with pytest.raises(PartitionUnavailable, match="is slow: a commit of orders/0"):
            run(owner.commits.check_owner(0, owner.position))
    assert [seconds > 0 for seconds in broker.waited[3:]] == [False, True, True], "its own commit ends"


def test_a_record_from_before_the_grant_says_nothing_about_the_present_owner() -> None:
    class OfOneTopic(Broker):
        async def found_elsewhere(self, partition: int, uid: Uid, epoch: Epoch) -> bool:
            return False

    owner = Owner(broker := OfOneTopic())
    record = owner.position.record
    owner.position.epoch, owner.position.sure_at = Epoch(3), 0.0
    broker.committed = Committed(0, replace(record, uid=Uid("b"), epoch=Epoch(2)))
    with pytest.raises(PartitionUnavailable, match="from before it was granted"):
        run(owner.commits.check_owner(0, owner.position))
    with pytest.raises(PartitionUnavailable, match="from before it was granted"):
        run(owner.commits.begin(0, Epoch(3)))
    assert owner.position.lost is None and owner.position.sure_at == 0.0
    broker.committed = Committed(0, replace(record, epoch=Epoch(3)))
    run(owner.commits.check_owner(0, owner.position))
    assert owner.position.sure_at > 0.0
    broker.committed = Committed(0, None)
    with pytest.raises(StaleOwner):
        run(owner.commits.check_owner(0, owner.position))


def test_a_later_grant_is_a_loss_even_if_seen_beside_an_own_commit() -> None:
    class Granted(UnderWay):
        async def stable(self, partition: int, within: float = PATIENCE) -> Committed:
            owner.position.record = replace(owner.position.record, reserved=7)  # its own commit has ended meanwhile
            return Committed(0, replace(owner.position.record, uid=Uid("b"), epoch=Epoch(2)))

    owner = Owner(Granted())
    with pytest.raises(StaleOwner):
        run(owner.commits.check_owner(0, owner.position))


def test_a_hanging_commit_holds_up_no_other_reservation_or_last_commit() -> None:
    owner = Owner()
    owner.broker.refuses = {}
    owner.position.progress.handed_out(range(10, 900))  # it runs low, too
    other = owner.also_reads(1, 900)

    async def while_it_hangs() -> Mapping[int, QueueUnreachable]:
        async with owner.commits._locks.held([0]):
            await owner.commits.reserve(1, other, 5_000)
            return await owner.commits.release({0: owner.position, 1: other}, 0.05)

    untaken = run(while_it_hangs())
    assert owner.broker.several == [{1}, {1}]
    assert untaken.keys() == {0} and isinstance(untaken[0], PartitionUnavailable)
    assert owner.release() == {}, "the broker is not taken for silent"


def test_an_offset_from_before_the_grant_does_not_move_the_position() -> None:
    owner = Owner(broker := Broker())
    owner.finish(0, 1)
    commit(owner)
    broker.in_force = Token(1, 7)  # another has taken one
    owner.position.epoch = Epoch(3)
    broker.committed = Committed(0, replace(owner.position.record, epoch=Epoch(2)))
    owner.finish(2)
    with pytest.raises(PartitionUnavailable, match="from before it was granted"):
        commit(owner)
    assert owner.position.committed == 2


class Shrinking(dict[int, ReadPosition]):
    """Another thread releases all partitions as soon as they are listed."""

    def keys(self) -> Any:
        found = dict(self).keys()
        self.clear()
        return found


def test_a_partition_released_by_another_thread_does_not_break_a_commit_or_a_look() -> None:
    class Slow(Broker):
        def __init__(self) -> None:
            super().__init__()
            self.held: dict[int, ReadPosition] = {}

        async def now(self, partitions: tuple[int, ...], within: float = PATIENCE) -> Looked:
            self.held.clear()
            return {0: self.committed}, (0,)

    owner = Owner(broker := Slow(), positions=Shrinking())
    owner.finish(0)
    run(owner.commits.commit_several({0, 1}))
    broker.held = owner.positions
    broker.held[0] = owner.position
    run(owner.commits.check_owner(0, owner.position))
    assert owner.position.lost is None and not broker.held


def test_without_time_left_no_request_is_sent() -> None:
    owner = Owner()
    owner.finish(0)
    assert owner.release(0.0).keys() == {0}
    assert owner.broker.committed.offset == 0


async def test_partitions_out_of_time_are_reported_and_the_others_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a broker that takes a second for each commit."""
    now = 0.0
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=lambda: now))

    class OneByOne(PartitionTransactions):
        async def commit(
            self, partition: int, offset: int, record: Record, outputs: Sequence[Output] = (), seen: Committed | None = None
        ) -> None:
            nonlocal now
            now += 1.0
            if partition == 1:
                raise StaleToken("TxnOffsetCommit")

    offsets = Broker()
    offsets._transactions = OneByOne(KafkaClient(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton"), "orders")
    refused = await GroupOffsets.commit_several(offsets, dict.fromkeys(range(40), Commit(0, offsets.record)), 20.0)
    assert 0 not in refused and now < 20.0
    assert isinstance(refused[1], StaleToken) and isinstance(refused[39], PartitionUnavailable)


def test_a_commit_keeps_within_its_time() -> None:
    class Hanging(PartitionTransactions):
        async def commit(
            self, partition: int, offset: int, record: Record, outputs: Sequence[Output] = (), seen: Committed | None = None
        ) -> None:
            await asyncio.Event().wait()

    offsets = Broker()
    offsets._transactions = Hanging(KafkaClient(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton"), "orders")
    wanted = Commit(0, offsets.record)
    try:  # the bound of this partition or that of all of them is over first
        problem: object = run(GroupOffsets.commit_several(offsets, {0: wanted}, 0.0))[0]
    except QueueUnreachable as error:
        problem = error
    assert isinstance(problem, QueueUnreachable) and ("within 0 s" in str(problem) or "did not get to it" in str(problem))
