"""What happened in a step, as people read it."""

import asyncio
import re
from typing import Any

import pytest

from baton.controller.events import MOST_GIVERS, MOST_SENTENCES, TROUBLE_APART, EventRecorder
from baton.controller.metrics import Metrics
from baton.controller.problems import PASSING, Problem, Reason
from baton.engine.results import (
    ApprovalRefused,
    Approved,
    DeadlineMissed,
    Fenced,
    Granted,
    Proposed,
    Redirected,
    ReleaseCause,
    Released,
    Revoked,
    StandsBy,
    State,
    StateChanged,
    StepEvent,
    Withdrawn,
)
from baton.kube.clock import ApiServerClock
from baton.kube.events import LONGEST_NOTE, Events, Kind, Regarding
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.kube.memory_api import ShopApi

KEY = ("shop", "orders")
ABOUT = Regarding("baton.dev/v1alpha1", "ConsumerGroup", "shop", "orders", "uid")
A, B = MemberId("a"), MemberId("b")


class Said(Events):
    """Events that are kept instead of posted."""

    def __init__(self) -> None:
        super().__init__(ShopApi(), "test", ApiServerClock())
        self.said: list[tuple[str, str, Kind]] = []

    def post(self, about: Regarding, kind: Kind, reason: str, note: str, *, action: str = "Rebalance") -> None:
        self.said.append((reason, note, kind))


def recorder(events: Events) -> EventRecorder:
    return EventRecorder(ABOUT, events, Metrics(ApiServerClock()))


def told(*events: StepEvent, unacknowledged: dict[Partition, int | None] | None = None) -> list[tuple[str, str, Kind]]:
    """What is said of one step when the queues have answered."""
    said = Said()
    one = recorder(said)

    async def lives() -> None:
        await one.record(events, 0.0)
        await one.post_due(unacknowledged or {}, 0.5)
        await one.post_due({}, 1.0)

    asyncio.run(lives())
    return said.said


def notes(*events: StepEvent, **more: Any) -> list[str]:
    return [note for _, note, _ in told(*events, **more)]


def partition(number: int, queue: str = "orders") -> Partition:
    return Partition(QueueName(queue), number)


def revoked(number: int, member: str = "exec-3", receiver: str | None = "exec-7", why: str = "exec-7 joined") -> Revoked:
    return Revoked(partition(number), MemberId(member), Epoch(1), 3.0, why, None if receiver is None else MemberId(receiver))


def test_a_hand_off_names_giver_receiver_cause_and_deadline() -> None:
    assert notes(revoked(5), unacknowledged={partition(5): 2}) == [
        "partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for 2 unacknowledged messages, until "
        "1970-01-01T00:00:03Z at most"
    ]
    assert notes(revoked(5), revoked(6), unacknowledged={partition(5): 0, partition(6): 1}) == [
        "partitions 5-6 of orders go from exec-3 to exec-7: exec-7 joined; they wait for 1 unacknowledged message, until "
        "1970-01-01T00:00:03Z at most"
    ]


@pytest.mark.parametrize("answers", [{partition(5): None}, {}])
def test_a_hand_off_at_a_queue_without_counts_waits_for_the_release(answers: dict[Partition, int | None]) -> None:
    (note,) = notes(revoked(5), unacknowledged=answers)
    assert note == (
        "partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for exec-3 to release it, until "
        "1970-01-01T00:00:03Z at most"
    )


async def test_messages_about_the_group_keep_their_place_among_those_about_partitions() -> None:
    said = Said()
    one = recorder(said)
    await one.record([Granted(partition(1), A, Epoch(1)), revoked(5), StandsBy(A)], 10.0)
    one.record_problem(Problem(Reason.QUEUE_UNREACHABLE, "it is away"), 10.3)
    await one.record([Granted(partition(5), B, Epoch(2), A)], 10.4)
    await one.post_due({}, 11.0)
    assert [str(reason) for reason, _, _ in said.said] == ["Revoking", "Granted", "StandsBy", "QueueUnreachable", "Granted"]
    assert one.due_at is None
    await one.record([StateChanged(State.HOLDDOWN, until=5.0)], 12.0)
    assert str(said.said[-1][0]) == "Holddown", "nothing else waits"


async def test_a_hand_off_within_a_second_is_one_event() -> None:
    said = Said()
    one = recorder(said)
    await one.record([revoked(5, "a", "b", "b joined"), revoked(6, "c", "b", "b joined")], 10.0)
    assert (said.said, one.due_at) == ([], 11.0)
    await one.record(
        [Released(partition(5), A, ReleaseCause.CONSUMER), Granted(partition(5), B, Epoch(2), A, 0.2, "b joined")], 10.2
    )
    await one.record([StateChanged(State.READY)], 10.3)
    await one.post_due({partition(6): 0}, 11.0)
    assert [(str(reason), note) for reason, note, _ in said.said] == [
        ("Revoking", "partition 6 of orders goes from c to b: b joined; nothing is unacknowledged"),
        ("Granted", "b owns partition 5 of orders from a, paused for 0.2 s: b joined; no hand-offs in progress"),
    ]
    assert one.due_at is None


def test_events_after_a_grant_and_missed_deadlines_before_it_are_posted() -> None:
    missed, grant = DeadlineMissed(partition(1), A, taken=True), Granted(partition(1), B, Epoch(2), A)
    gone, other = Released(partition(1), B, ReleaseCause.GONE), Granted(partition(2), A, Epoch(1))
    reasons = [str(reason) for reason, _, _ in told(revoked(1), missed, grant, gone, other, revoked(1, "b", "c"))]
    assert reasons == ["DeadlineMissed", "Granted", "Revoking", "Gone"]
    assert [str(reason) for reason, _, _ in told(grant, gone, StateChanged(State.READY))] == ["Granted", "Gone", "Ready"]


def test_a_grant_names_each_giver() -> None:
    grants = [Granted(partition(number), B, Epoch(2), A if number == 5 else None) for number in range(6)]
    kinds = [Granted(partition(10 + number), B, Epoch(2), A, why=f"cause {number}") for number in range(3)]
    expected = "b owns partitions 0-4 of orders and partitions 5,10-12 of orders from a: cause 0 and 2 more causes"
    assert notes(*grants, *kinds) == [expected]


def test_givers_that_a_grant_cannot_name_are_named_by_their_releases() -> None:
    givers = [MemberId(f"m{number}") for number in range(MOST_GIVERS + 1)]
    releases = [Released(partition(number), giver, ReleaseCause.GONE) for number, giver in enumerate(givers)]
    grants = [Granted(partition(number), B, Epoch(2), giver) for number, giver in enumerate(givers)]
    assert notes(*releases[1:], *grants[1:]) == [
        "b owns partition 1 of orders from m1; and b owns partition 2 of orders from m2; and b owns partition 3 of orders from m3"
    ]
    assert notes(*releases, *grants) == [
        "4 members are gone, and leave 4 partitions of orders",
        "b owns partitions 0-3 of orders",
    ]
    to_many = [Granted(partition(number), MemberId(f"n{number}"), Epoch(2), A) for number in range(MOST_SENTENCES + 1)]
    left = [Released(one.partition, A, ReleaseCause.GONE) for one in to_many]
    assert notes(*left, *to_many) == [
        "a is gone, and leaves partitions 0-3 of orders",
        "4 members own 4 partitions of orders more",
    ]


def test_a_partition_granted_twice_in_a_round_has_one_event_with_its_last_owner() -> None:
    others = [Granted(partition(number), B, Epoch(1), MemberId(f"m{number}")) for number in (2, 3)]
    twice = [Granted(partition(1), A, Epoch(2), MemberId("m2")), Granted(partition(1), B, Epoch(3), A)]
    (note,) = notes(*others, *twice)
    assert "a owns" not in note
    assert "b owns partition 1 of orders from a" in note


async def test_a_note_that_would_be_cut_is_a_separate_event() -> None:
    said = Said()
    one = recorder(said)
    long = [MemberId(f"{letter * 250}") for letter in "abc"]
    await one.record([Granted(partition(number), member, Epoch(1), why="w" * 200) for number, member in enumerate(long)], 0.0)
    await one.record([StateChanged(State.READY)], 0.1)
    await one.post_due({}, 1.0)
    assert [str(reason) for reason, _, _ in said.said] == ["Granted", "Granted"]
    assert all(len(note) <= LONGEST_NOTE for _, note, _ in said.said)
    assert said.said[-1][1].endswith("; no hand-offs in progress")


def test_a_withdrawn_partition_and_one_that_stays_are_described() -> None:
    taken, stays = revoked(9, receiver=None, why="orders has 9 partitions instead of 10"), revoked(1, receiver="exec-3")
    (note,) = notes(taken, stays, unacknowledged={partition(9): 0, partition(1): 0})
    one, other = note.split("; and ")
    assert one.startswith("partition 9 of orders is taken back from exec-3: orders has 9 partitions instead of 10")
    assert other.startswith("partition 1 of orders pauses, and stays with exec-3")


def test_events_of_one_reason_are_joined() -> None:
    releases = [Released(partition(1), A, ReleaseCause.CONSUMER), Released(partition(2), B, ReleaseCause.CONSUMER)]
    grants = [Granted(partition(1), B, Epoch(2)), Granted(partition(2), A, Epoch(2))]
    assert notes(*releases) == ["a released partition 1 of orders; and b released partition 2 of orders"]
    assert notes(*grants) == ["b owns partition 1 of orders; and a owns partition 2 of orders"]


def test_a_redirected_hand_off_names_both_receivers() -> None:
    turn = Redirected(partition(5), A, B, MemberId("c"), "c is gone")
    assert notes(turn) == ["partition 5 of orders goes to b instead of c: c is gone"]


def test_partitions_of_one_member_share_a_sentence() -> None:
    grants = [Granted(partition(number), A, Epoch(1), why="a joined") for number in (3, 1, 2)]
    other = Granted(partition(7, "returns"), A, Epoch(1), why="a joined")
    assert told(*grants, other) == [("Granted", "a owns partitions 1-3 of orders and 7 of returns: a joined", Kind.NORMAL)]


def test_a_grant_after_a_pause_says_how_long_it_was() -> None:
    assert notes(Granted(partition(1), A, Epoch(2), B, paused_for=0.42)) == [
        "a owns partition 1 of orders from b, paused for 0.4 s"
    ]


def test_a_missed_deadline_is_a_warning_with_a_cure() -> None:
    consumer, gone, (reason, note, kind), (_, again, _), (_, waits, _) = told(
        DeadlineMissed(partition(1), A, taken=True),
        DeadlineMissed(partition(4), A, taken=False),
        DeadlineMissed(partition(5), A, taken=False, again=True),
        Released(partition(2), A, ReleaseCause.CONSUMER),
        Released(partition(3), B, ReleaseCause.GONE),
    )
    assert consumer == ("Released", "a released partition 2 of orders", Kind.NORMAL)
    assert gone == ("Gone", "b is gone, and leaves partition 3 of orders", Kind.NORMAL)
    assert (reason, kind) == ("DeadlineMissed", Kind.WARNING)
    assert "a did not release partition 1 of orders in time" in note and "raise maxHandoffSeconds" in note
    assert "the hand-off waits for the release" in waits and "onDeadline" in waits
    assert "is granted the same again with a higher epoch" in again


def test_changes_of_state_name_their_cause() -> None:
    said = told(
        StateChanged(State.HOLDDOWN, until=5.0, why="b left"),
        StateChanged(State.REBALANCING, why="what moves is told with its cause"),
        Fenced(A, "a newer pod has its identity"),
        StandsBy(B),
    )
    assert [(reason, kind) for reason, _, kind in said] == [
        ("Holddown", Kind.NORMAL),
        ("Fenced", Kind.WARNING),
        ("StandsBy", Kind.NORMAL),
    ]
    assert "1970-01-01T00:00:05Z" in said[0][1] and "b left" in said[0][1]


def test_a_ready_group_names_its_partitions_without_an_owner() -> None:
    assert notes(StateChanged(State.READY)) == ["no hand-offs in progress"]
    assert notes(StateChanged(State.READY, unowned=12)) == ["no hand-offs in progress; 12 partitions have no owner"]


def test_a_proposals_event_says_what_to_do() -> None:
    proposed, approved, withdrawn, refused = told(
        Proposed("17ab", 2, "d joined", instead_of="99ff"),
        Approved("17ab", 2),
        Withdrawn("17ab", "it does not fit any more"),
        ApprovalRefused("99ff", "17ab"),
    )
    assert "proposal 17ab (instead of 99ff) would move 2 partitions: d joined" in proposed[1]
    assert "baton approve orders -n shop" in proposed[1]
    assert approved[1] == "proposal 17ab was approved: 2 partitions change hands"
    assert withdrawn[0] == "Withdrawn"
    assert refused[0] == "ApprovalRefused" and refused[2] is Kind.WARNING and "the current proposal is 17ab" in refused[1]


def test_many_givers_of_one_receiver_share_one_sentence() -> None:
    many = [revoked(number, f"m{number % 100}") for number in range(412)]
    (note,) = notes(*many, unacknowledged=dict.fromkeys((one.partition for one in many), 0))
    assert note == (
        "412 partitions of orders go to exec-7 from 100 members (partitions 0-411 of orders): exec-7 joined; "
        "nothing is unacknowledged"
    )


def test_a_step_of_ten_thousand_moves_is_a_few_sentences() -> None:
    many = [revoked(number, f"m{number % 700}", f"n{number % 300}", "300 pods joined") for number in range(10_000)]
    grants = [Granted(one.partition, one.receiver or A, Epoch(2), one.member, 0.5) for one in many]
    releases = [Released(one.partition, one.member, ReleaseCause.CONSUMER) for one in many]
    assert notes(*many) + notes(*releases) + notes(*grants) == [
        "10,000 partitions of orders go from 700 members to 300: 300 pods joined; they wait for their givers to release them, "
        "until 1970-01-01T00:00:03Z at most",
        "700 members released 10,000 partitions of orders",
        "300 members own 10,000 partitions of orders more, paused for 0.5 s at most",
    ]


def test_scattered_partitions_are_not_all_listed() -> None:
    (note,) = notes(*(Granted(partition(number), A, Epoch(1)) for number in range(0, 5000, 2)))
    assert "…" in note and len(note) < 300


async def test_a_long_rebalance_has_fewer_and_fewer_events() -> None:
    said = Said()
    one = recorder(said)
    for tick in range(6000):  # ten a second, one partition at a time
        await one.record([Granted(partition(tick), MemberId(f"m{tick % 50}"), Epoch(2), A, 0.1)], tick / 10)
    assert 40 < len(said.said) < 250
    sums = [int(found[1]) for _, note, _ in said.said if (found := re.search(r"members own (\d+) ", note))]
    assert sum(sums) > 5000, "what was not told by itself was told in sum"


def test_a_problem_has_an_event_when_it_begins_and_when_it_ends() -> None:
    said = Said()
    one = recorder(said)
    for problem in (None, Problem(Reason.NO_MEMBERS, "label the pods"), Problem(Reason.NO_MEMBERS, "label the pods"), None, None):
        one.record_problem(problem, 0.0)
    assert said.said == [
        ("NoMembers", "label the pods", Kind.WARNING),
        ("Recovered", "NoMembers is over", Kind.NORMAL),
    ]


def test_an_expected_problem_is_no_warning_and_a_queue_may_come_after_its_group() -> None:
    said = Said()
    one = recorder(said)
    absent = Problem(Reason.QUEUE_NOT_FOUND, "create it")
    one.record_problem(absent, 0.0)
    assert (said.said, one.due_at) == ([], PASSING)
    one.record_problem(None, 1.0)
    one.record_problem(Problem(Reason.NO_MEMBERS, "waiting for 3 pods", expected=True), 2.0)
    one.record_problem(Problem(Reason.NO_MEMBERS, "label the pods"), 2.0 + TROUBLE_APART)
    one.record_problem(absent, 20.0)
    one.record_problem(absent, 20.0 + PASSING)
    assert said.said == [
        ("NoMembers", "waiting for 3 pods", Kind.NORMAL),
        ("NoMembers", "label the pods", Kind.WARNING),
        ("QueueNotFound", "create it", Kind.WARNING),
    ]


def test_problems_of_one_reason_have_few_events() -> None:
    said = Said()
    one = recorder(said)

    def due_at() -> float | None:
        return one.due_at

    unreachable = [Problem(Reason.QUEUE_UNREACHABLE, f"redis {number} does not answer") for number in range(100)]
    one.record_problem(Problem(Reason.QUEUE_UNREACHABLE, "the Secret does not exist"), 0.0)
    for number, problem in enumerate(unreachable):
        one.record_problem(problem, 5.0 + number / 100)
    assert [note for _, note, _ in said.said] == ["the Secret does not exist"]
    assert due_at() == TROUBLE_APART
    one.record_problem(unreachable[-1], TROUBLE_APART)
    assert said.said[1:] == [("QueueUnreachable", "redis 99 does not answer", Kind.WARNING)]
    assert due_at() is None
    one.record_problem(Problem(Reason.CONFLICT, "another group has it"), TROUBLE_APART)
    assert said.said[2:] == [("Conflict", "another group has it", Kind.WARNING)], "another reason is told at once"
    one.record_problem(None, TROUBLE_APART)
    assert said.said[3:] == [("Recovered", "Conflict is over", Kind.NORMAL)]


async def test_waiting_events_are_posted_at_the_end() -> None:
    said = Said()
    one = recorder(said)
    await one.record([revoked(5)], 10.0)
    one.flush()
    assert len(said.said) == 1


async def test_pauses_and_holddowns_are_measured() -> None:
    metrics = Metrics(ApiServerClock())
    recorder = EventRecorder(ABOUT, Said(), metrics)
    await recorder.record([StateChanged(State.HOLDDOWN, until=5.0)], 0.0)
    await recorder.record([StateChanged(State.HOLDDOWN, until=7.0)], 1.0)
    await recorder.record([StateChanged(State.REBALANCING), Granted(partition(1), A, Epoch(2), B, paused_for=0.5)], 5.0)
    samples = {sample.name: sample.value for family in metrics.registry.collect() for sample in family.samples if sample.labels}
    assert samples["baton_holddown_seconds_sum"] == 5.0
    assert samples["baton_pause_seconds_sum"] == 0.5


async def test_a_group_without_a_pause_has_no_histogram_of_pauses() -> None:
    metrics = Metrics(ApiServerClock())
    await EventRecorder(ABOUT, Said(), metrics).record([StateChanged(State.READY), Granted(partition(1), A, Epoch(1))], 0.0)
    assert metrics.registry.get_sample_value("baton_pause_seconds_count", {"namespace": KEY[0], "group": KEY[1]}) is None
