"""`baton explain`: the history of a partition, read from the group's events, and its present state."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.cli.explain import PartitionHistory, PartitionLook, history, mentions
from baton.cli.group import look
from baton.cli.lag import ONE
from baton.controller.events import granted, named, released, revoked
from baton.controller.problems import JOINED
from baton.engine.results import DeadlineMissed, Granted, ReleaseCause, Released, Revoked
from baton.engine.state import PartitionRecord
from baton.engine.state_machine import PartitionState
from baton.kube.events import REPORTED_BY
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.cli.test_status import MANIFEST

FIVE = Partition(QueueName("orders"), 5)
A, B, C = MemberId("exec-a"), MemberId("exec-b"), MemberId("exec-c")


def event(second: int, reason: str, note: str, by: str = REPORTED_BY) -> dict[str, Any]:
    return {"eventTime": f"1970-01-01T00:00:{second:02}.000000Z", "reason": reason, "message": note, "reportingComponent": by}


ENDS = (Released(FIVE, A, ReleaseCause.CONSUMER), Released(FIVE, A, ReleaseCause.GONE), DeadlineMissed(FIVE, A, taken=True))


def hand_off(end: Released | DeadlineMissed = ENDS[0]) -> list[dict[str, Any]]:
    """Return the events of a hand-off, worded by the operator's code."""
    began = revoked([Revoked(FIVE, A, Epoch(1), 8.0, "exec-b joined", B)], {FIVE: 2}, 10)
    ended = released([end], 10)
    came = granted([Granted(FIVE, B, Epoch(2), A, 0.4, "exec-b joined")], 10)
    return [event(second, one.reason, one.note) for second, one in enumerate([*began, *ended, *came], 1)]


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_a_partitions_history_has_time_previous_owner_and_reason(end: Released | DeadlineMissed) -> None:
    told = history(FIVE, B, hand_off(end))
    assert (told.since, told.before, told.why, len(told.events)) == (3.0, "exec-a", "exec-b joined", 3)


@pytest.mark.parametrize("before", [None, A])
@pytest.mark.parametrize("paused", [None, 0.4])
def test_a_grant_alone_says_why_and_who_before(before: MemberId | None, paused: float | None) -> None:
    ((_, note, _),) = granted([Granted(FIVE, B, Epoch(2), before, paused, "exec-b joined")], 10)
    for more in (
        "",
        f"{JOINED}exec-c owns partition 6 of orders from exec-d: exec-c joined",
        "; no hand-offs in progress; 3 partitions have no owner",
    ):
        told = history(FIVE, B, [event(1, "Granted", note + more)])
        assert (told.since, told.before, told.why) == (1.0, before, "exec-b joined")


def test_each_partition_of_a_grant_has_its_giver() -> None:
    others = [Granted(Partition(FIVE.queue, number), B, Epoch(2), giver, 0.1) for number, giver in ((4, C), (6, None), (7, C))]
    ((_, note, _),) = granted([*others, Granted(FIVE, B, Epoch(2), A, 0.1, why="3 of partitions from x: y")], 1)
    found = {number: history(Partition(FIVE.queue, number), B, [event(1, "Granted", note)]).before for number in range(4, 8)}
    assert found == {4: C, 5: A, 6: None, 7: C}


def test_each_sentence_of_an_event_counts_for_its_partition() -> None:
    notes = [note for _, note, _ in granted([Granted(Partition(FIVE.queue, 4), A, Epoch(2)), Granted(FIVE, B, Epoch(2), A)], 10)]
    told = history(FIVE, B, [event(1, "Granted", JOINED.join(notes))])
    assert (told.since, told.before, [one.note for one in told.events]) == (1.0, "exec-a", [notes[1]])


def test_foreign_events_and_grants_to_others_do_not_count() -> None:
    assert history(FIVE, B, [{**one, "reportingComponent": "another"} for one in hand_off()]).events == ()
    assert history(FIVE, MemberId("exec-c"), hand_off()).since is None


def test_an_unowned_partition_has_its_last_owner() -> None:
    assert history(FIVE, None, hand_off(ENDS[1])[:2]).before == "exec-a"


@given(numbers=st.sets(st.integers(0, 60), min_size=1), asked=st.integers(0, 60))
def test_a_range_mentions_its_partitions(numbers: set[int], asked: int) -> None:
    those = [
        Released(Partition(QueueName(queue), number), A, ReleaseCause.GONE) for number in numbers for queue in ("mail", "orders")
    ]
    assert mentions(named(those), Partition(QueueName("orders"), asked)) == (asked in numbers)
    assert not mentions(named(those), Partition(QueueName("ord"), asked))


@given(st.lists(st.fixed_dictionaries({}, optional={name: st.none() | st.text() | st.integers() for name in event(1, "", "")})))
def test_malformed_events_are_ignored(events: list[dict[str, Any]]) -> None:
    odd = [*events, *({**one, "reportingComponent": REPORTED_BY} for one in events)]
    assert history(FIVE, B, odd) == history(FIVE, B, [])
    assert history(FIVE, B, [*odd, *hand_off()]) == history(FIVE, B, hand_off())


@pytest.mark.parametrize("note", ["0-999999999999 of orders", "5-,--,5-5-5 of orders", "٥ of orders", "9" * 5000 + " of orders"])
def test_malformed_ranges_cost_nothing(note: str) -> None:
    mentions(note * 20, FIVE)


def test_an_entry_handed_out_repeatedly_is_named() -> None:
    told = ONE.validate_python({"namespace": "shop", "group": "orders", "unfinished": {"orders": {"5": ["17-0", 4]}}})
    record = PartitionRecord(Epoch(4), A, A, Epoch(4))
    seen = look(MANIFEST, {}, now=5.0)
    one = PartitionLook(seen, FIVE, record, PartitionState.READY, None, unfinished=told.unfinished_in(FIVE))
    assert [*one.sentences()][-1] == "Entry 17-0 was handed out 4 times and never acknowledged."
    assert one.to_json()["unfinished"] == {"offset": "17-0", "handedOut": 4}


@pytest.mark.parametrize(
    ("record", "before", "said"),
    [
        # a move has begun, with a new epoch
        (PartitionRecord(Epoch(7), None, A, Epoch(4)), "exec-a", "It has no owner. exec-a had it last, at epoch 4."),
        (PartitionRecord(Epoch(4), None, A, Epoch(4)), None, "It has no owner. exec-a had it last, at epoch 4."),
        (PartitionRecord(Epoch(7), None, A), None, "It has no owner. exec-a had it last."),
        (PartitionRecord(Epoch(7), None, None), "exec-b", "It has no owner. exec-b had it last."),
        (PartitionRecord(Epoch(1), None, None), None, "It has no owner, and never had one."),
    ],
)
def test_the_last_owner_is_shown_with_its_epoch(record: PartitionRecord, before: str | None, said: str) -> None:
    history = PartitionHistory(before=before)
    one = PartitionLook(look(MANIFEST, {}, now=5.0), FIVE, record, PartitionState.UNASSIGNED, None, history)
    assert next(one.sentences()) == said
