"""A reader hands out entries and writes the record by its position."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.model.ids import Epoch, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.kafka.read_position import AHEAD, FinishedOffsets, ReadPosition, taken_up
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.output import Output
from baton.queues.protocol import Ownership

# -- What may be committed of what was handed out.


@given(st.permutations(range(8)), st.integers(0, 8))
def test_the_offset_advances_over_finished_entries_without_gaps(order: list[int], count: int) -> None:
    offsets = [3, 4, 7, 8, 9, 20, 21, 22]  # a log has gaps
    finished = FinishedOffsets(3)
    finished.handed_out(offsets)
    done = [offsets[number] for number in order[:count]]
    for offset in done:
        finished.finish([offset])
    left = [offset for offset in offsets if offset not in done]
    assert finished.unfinished == len(left)
    before = [offset for offset in offsets if not left or offset < left[0]]
    assert finished.offset == (before[-1] + 1 if before else 3)


def test_finish_ignores_offsets_that_are_not_out() -> None:
    finished = FinishedOffsets(0)
    finished.handed_out([0, 1, 2])
    finished.finish([1])
    assert [finished.is_unfinished(offset) for offset in range(4)] == [True, False, True, False]
    finished.finish([0])
    finished.finish([0, 1, 7])
    assert (finished.unfinished, finished.offset) == (1, 2)
    finished.finish([2])
    assert finished.offset == 3 and not finished.is_unfinished(2)


def test_markers_behind_finished_entries_are_skipped_but_no_unfinished_entry() -> None:
    progress = FinishedOffsets(3)
    progress.handed_out([3])
    progress.skip_to(6)
    assert (progress.offset, progress.end) == (3, 6)
    progress.finish([3])
    progress.skip_to(6)
    assert progress.offset == 6
    progress.skip_to(5)
    assert (progress.offset, progress.end) == (6, 6)


GRANTED = Record(group="g", queue="q", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 0), first=1)


def position(record: Record, offset: int = 10) -> ReadPosition:
    return ReadPosition.begun(Committed(offset, record), 0.0)


def test_after_a_release_nothing_is_marked_redelivered() -> None:
    record = taken_up(replace(GRANTED, reader="p-0", reserved=50, released=True), 10, 100, "p-1")
    assert (record.reader, record.again, record.tries, record.released) == ("p-1", 0, {}, False)
    assert record.reserved == 10 + AHEAD


def test_a_process_that_ended_counts_for_the_first_entry() -> None:
    record = taken_up(replace(GRANTED, reader="p-0", reserved=50, tries={10: 3}, ends={2: 3, 10: 1}), 10, 100, "p-1")
    assert (record.again, record.tries, record.ends) == (50, {10: 3}, {10: 2})


def test_an_entry_that_may_have_ended_a_process_is_not_reserved_yet() -> None:
    ended = replace(GRANTED, reader="p-0", reserved=50)
    assert taken_up(replace(ended, most=3), 10, 100, "p-1").reserved == 10
    assert taken_up(replace(ended, most=3), 10, 10, "p-1").reserved == 10 + AHEAD, "nothing was there"
    assert taken_up(ended, 10, 100, "p-1").reserved == 10
    assert taken_up(replace(GRANTED, again=50), 10, 100, "p-1").reserved == 10 + AHEAD, "none has ended on it"


def test_after_a_query_what_it_reserved_is_marked_and_the_query_ends() -> None:
    record = taken_up(replace(GRANTED, query=5, reserved=50), 10, 100, "p-1")
    assert (record.again, record.query) == (50, 0)


def test_stale_survives_a_restart_and_covers_a_querys_reservation() -> None:
    granted = replace(GRANTED, stale=80, reader="p-0", reserved=200)
    assert taken_up(granted, 10, 100, "p-1").stale == 80
    assert taken_up(replace(granted, reader="", query=5), 10, 100, "p-1").stale == 200, "the query's driver may be at work"


def test_nothing_is_marked_once_all_former_readers_have_stopped() -> None:
    one = position(replace(GRANTED, again=12, stale=80))
    one.reached_end(2 * SURE_FOR)
    assert (one.marked, one.next_record().stale) == (80, 80), "somebody may be at work"
    one.reached_end(2 * SURE_FOR + 0.1)
    assert (one.marked, one.next_record().stale, one.last_record().stale) == (12, 0, 0)


def test_entries_that_may_have_ended_a_process_are_handed_out_one_by_one() -> None:
    one = position(replace(GRANTED, most=3, again=12, reserved=30, ends={10: 1}))
    assert one.room(0) == 1
    one.progress.handed_out([10])
    assert one.room(1) == 0
    one.progress.finish([10])
    one.progress.handed_out([11])
    one.progress.finish([11])
    assert one.room(0) is None
    assert position(replace(GRANTED, again=12)).room(0) is None, "without a limit"


def test_the_number_of_ended_processes_is_reported_with_a_limit_too() -> None:
    one = position(replace(GRANTED, most=3, again=30, reserved=10, ends={10: 2}))
    one.handed_out([10])
    assert (one.first_not_begun, one.times) == (True, {"10": 2})


def test_an_entry_that_may_have_ended_a_process_comes_alone_and_counts_once_begun() -> None:
    ended = taken_up(replace(GRANTED, reader="p-0", reserved=50), 10, 100, "p-1")
    one = position(ended)
    assert (one.times, one.room(0), one.reservation_low) == ({}, 1, False)
    one.handed_out([12])
    assert (one.times, one.room(1)) == ({"12": 1}, 0)
    for record in (one.next_record(upto=13), one.last_record()):
        assert record.reserved == 10
        assert (record.ends_for_next(10, 100), record.again_for_next(100)) == ({10: 1}, 50)
    one.first_not_begun = False
    begun = one.next_record(upto=13)
    assert begun.reserved > 12 and begun.ends_for_next(10, 100) == {10: 2}


def test_without_a_limit_entries_come_one_by_one_after_two_ended_processes() -> None:
    once, twice = (position(replace(GRANTED, again=30, ends={10: count})) for count in (1, 2))
    assert (once.one_by_one, twice.one_by_one) == (False, True)
    twice.handed_out([10])
    twice.failed(10)
    twice.commit_taken(10, twice.next_record(), 0.0)
    assert (twice.one_by_one, twice.tried(10)) == (False, 3), "it has failed, and ended none"


@pytest.mark.parametrize("most", [0, 20])
def test_a_failing_entry_does_not_hold_up_others_however_often_it_is_handed_over(most: int) -> None:
    record = replace(GRANTED, reader="p-0", reserved=20, most=most)
    for owner in range(4):
        one = position(record)
        one.handed_out([10])
        assert one.times == ({"10": 1} if owner else {}), "it comes alone once, until it is begun"
        one.first_not_begun = False
        assert (one.room(1), one.tried(10)) == (0 if most and owner else None, 2 * owner), "with a limit until it has failed"
        one.failed(10)
        one.counted(10)
        one.commit_taken(10, one.next_record(), 0.0)
        assert one.room(1) is None
        one.handed_out(range(11, 5000))
        one.progress.finish(range(11, 5000))
        record = taken_up(one.last_record(), 10, 5000, f"p-{owner}")
        assert (record.tries, record.ends, record.again) == ({10: 2 * owner + 1}, {10: 1}, 5000)


def test_an_entry_that_ends_processes_becomes_a_dead_letter_behind_entries_that_fail() -> None:
    failing, ending, log = {10, 11}, 13, range(10, 16)
    record, offset, dead = replace(GRANTED, most=3), 10, list[int]()
    for process in range(20):
        record = taken_up(record, offset, log.stop, f"p-{process}")
        one = position(record, offset)
        one.first_not_begun = False
        in_hand = set[int]()
        while offset < log.stop:
            room = one.room(len(in_hand))
            read = list(range(one.progress.end, log.stop))[:room]
            one.handed_out(read)
            one.commit_taken(offset, one.next_record(), 0.0)
            in_hand |= set(read)
            for entry in filter(failing.__contains__, in_hand):
                one.failed(entry)
                one.counted(entry)
            dead += (exhausted := list(filter(one.too_often, in_hand)))
            if ending in in_hand and ending not in exhausted:
                break
            done = [entry for entry in in_hand if entry not in failing or entry in exhausted]
            in_hand -= set(done)
            one.progress.finish(sorted(done))
            one.commit_taken(one.offset, one.next_record(), 0.0)
            offset = one.offset
        record = one.record
    assert (dead, offset) == ([10, 11, 13], log.stop)


@pytest.mark.parametrize("begun", [False, True], ids=["in the wait", "in the retry"])
def test_ended_processes_count_as_attempts_once_one_survives(begun: bool) -> None:
    one = position(replace(GRANTED, reader="p-1", reserved=30, again=30, tries={10: 1}, ends={10: 2}))
    one.handed_out([10, 11])
    assert not one.survived(11), "it is not the first entry"
    assert one.survived(10) and not one.survived(10)
    assert (one.one_by_one, one.tried(10), one.has_news) == (True, 3, True)
    if begun:
        one.failed(10)
    assert (one.next_record().ends, one.next_record().tries) == ({}, {10: 3 + begun})
    left = taken_up(one.last_record(), 10, 12, "p-2")
    assert (left.ends, left.tries) == ({10: 1}, {10: 3 + begun}), "the next owner counts one process, the one that released"


def test_other_entries_wait_for_a_commit_that_clears_the_first() -> None:
    record = replace(GRANTED, most=3)
    for process in range(4):
        record = taken_up(record, 10, 20, f"p-{process}")
        one = position(record)
        one.first_not_begun = False
        one.handed_out([10])
        assert one.tried(10) == process
        one.commit_taken(10, before := one.next_record(), 0.0)
        one.survived(10)
        one.commit_taken(10, before, 0.0)  # it was under way
        assert (one.room(1), one.has_news) == (0 if process else None, bool(process)), "another entry may end the process"
        one.commit_taken(10, one.next_record(), 0.0)
        assert (one.room(1), one.has_news) == (None, False)
        one.handed_out(range(11, 20))  # and 15 ends the process
        record = one.record
        assert (record.ends, record.tries) == ({}, {10: process} if process else {})


@pytest.mark.parametrize("second", [11, 13], ids=["next to it", "behind a transaction marker"])
def test_keys_go_on_if_the_first_entry_finishes_and_the_second_one_fails(second: int) -> None:
    giver = position(taken_up(GRANTED, 10, 5000, "p-0"))
    giver.handed_out([10, second, *range(20, 5000)])
    giver.progress.finish(range(20, 5000))
    giver.releasing = True
    one = position(replace(taken_up(giver.last_record(), 10, 5000, "p-1"), most=5))
    one.first_not_begun = False
    one.handed_out([10])
    one.progress.finish([10])
    assert not one.survived(10), "it is finished"
    one.commit_taken(one.offset, one.next_record(), 0.0)
    assert one.room(0) == 1
    one.handed_out([second])
    assert one.survived(second)
    one.commit_taken(one.offset, one.next_record(), 0.0)
    assert (one.room(1), one.tried(second), one.next_record().tries) == (None, 0, {})
    one.failed(second)
    assert one.tried(second) == 1


def test_the_next_commit_records_failures_even_after_a_look() -> None:
    one = position(GRANTED)
    one.handed_out([10, 11, 12])
    for _ in range(2):
        one.failed(11)
        one.counted(11)
    one.record = replace(GRANTED)  # as it still stands at the broker
    assert (one.uncommitted, one.has_news, one.tried(11)) == (False, True, 2)
    one.commit_taken(10, one.next_record(), 1.0)
    assert (one.record.tries, one.has_news) == ({11: 2}, False)
    one.progress.finish([10, 11])
    one.commit_taken(12, one.next_record(), 2.0)
    assert (one.record.tries, one.failures, one.has_news) == ({}, {}, False)


def test_a_reservation_covers_what_is_handed_out_next_and_never_shrinks() -> None:
    one = position(replace(GRANTED, reserved=5000))
    assert one.next_record().reserved == 5000
    assert one.next_record(upto=7000).reserved == 7000


def test_a_pod_has_no_more_in_hand_than_its_limit() -> None:
    assert [position(replace(GRANTED, unacked=5)).room(in_hand) for in_hand in (0, 3, 5, 9)] == [5, 2, 0, 0]


def test_the_last_record_has_the_read_position_and_whether_released() -> None:
    one = position(replace(GRANTED, reserved=10 + AHEAD))
    one.progress.handed_out([10, 11])
    assert (one.last_record().reserved, one.last_record().released) == (12, False)
    one.progress.finish([10, 11])
    assert one.last_record().released
    assert one.next_record().reserved == 12 + AHEAD


def test_an_entry_has_failed_too_often_above_its_limit() -> None:
    one = position(replace(GRANTED, most=1))
    for expected in (False, True):
        for _ in range(2):  # it is the same failure, until it is counted
            one.failed(10)
        one.counted(10)
        assert one.too_often(10) is expected


def test_ended_processes_count_for_the_first_entry_handed_out() -> None:
    ended = replace(GRANTED, most=2, again=30, tries={13: 1, 14: 1}, ends={10: 2})
    one = position(ended)
    assert not one.too_often(13), "nothing was handed out yet"
    one.handed_out([])
    one.handed_out([13])
    assert one.too_often(13)
    one.progress.finish([13])
    one.handed_out([14])
    assert not one.too_often(14), "it is not the first"


def test_an_entry_at_the_committed_offset_is_counted_once() -> None:
    one = position(replace(GRANTED, most=2, again=30, tries={10: 1}, ends={10: 1}))
    one.handed_out([10])
    assert not one.too_often(10)
    one.failed(10)
    assert one.too_often(10)


def test_a_reservation_is_low_once_three_quarters_are_handed_out() -> None:
    one = position(replace(GRANTED, reserved=10 + AHEAD))
    one.progress.handed_out(range(10, 10 + 3 * AHEAD // 4))
    found = [one.reservation_low]
    one.progress.handed_out([10 + 3 * AHEAD // 4])
    found.append(one.reservation_low)
    one.commit_taken(10, one.next_record(), 1.0)
    found.append(one.reservation_low)
    assert found == [False, True, False]


def test_a_reservation_follows_the_rate_of_handed_out_entries() -> None:
    one = position(GRANTED)
    one.progress.handed_out(range(10, 10 + AHEAD))
    fast = one.next_record()
    assert fast.reserved == one.progress.end + 2 * AHEAD
    one.commit_taken(10, fast, 1.0)
    assert one.next_record() == fast
    one.progress.handed_out(range(one.progress.end, fast.reserved))
    assert one.next_record().reserved == fast.reserved + 2 * 2 * AHEAD
    one.commit_taken(10, one.record, 2.0)
    one.progress.handed_out([one.progress.end])
    assert one.next_record().reserved == one.progress.end + AHEAD


B2 = Ownership(Uid("b"), Epoch(2))


def left(record: Record, finished: int = 2) -> Record:
    """Return the last record after two entries were handed out, some of them finished, if the next owner is known."""
    one = position(record)
    one.next_owner = B2
    one.progress.handed_out([10, 11])
    one.progress.finish([10, 11][:finished])
    return one.last_record()


def test_the_last_record_grants_the_partition_to_the_next_owner() -> None:
    record = left(GRANTED)
    assert (record.uid, record.epoch, record.reader, record.reserved) == (*B2[:2], BY_GIVER, 12 + AHEAD)
    assert not record.released, "it has an owner"
    assert (record.marked, record.at(12).again_for_next(100)) == (0, 100), "its owner may have read entries"


@pytest.mark.parametrize(
    ("record", "finished"),
    [(GRANTED, 1), (replace(GRANTED, stale=80), 2), (replace(GRANTED, again=80), 2), (replace(GRANTED, tries={12: 1}), 2)],
)
def test_the_operator_grants_if_the_record_has_more_to_say(record: Record, finished: int) -> None:
    assert left(record, finished).uid == GRANTED.uid


def test_a_partition_that_was_handed_over_needs_a_new_token() -> None:
    one = position(left(GRANTED))
    assert (one.handed_over, one.needs_token) == (True, True)
    assert not position(GRANTED).needs_token


def test_a_receiver_that_ended_before_its_mark_counts_for_no_entry() -> None:
    assert left(GRANTED).ends_for_next(12, 100) == {}
    assert replace(left(GRANTED), reader="p-1").ends_for_next(12, 100) == {12: 1}


def test_too_many_outputs_behind_an_unfinished_entry_stop_reading() -> None:
    one = position(GRANTED)
    one.progress.handed_out([10, 11])
    one.outputs.add([11], [Output("paid", b"x" * 64_000_000)])
    one.progress.finish([11])
    assert (one.is_full, one.room(0)) == (True, 0)
    one.progress.finish([10])
    assert (one.is_full, one.room(0)) == (False, None), "all of it can be sent"


def test_too_many_finished_entries_behind_an_unfinished_one_stop_reading() -> None:
    one = position(GRANTED)
    one.handed_out(range(10, 200_000))
    one.progress.finish(range(11, 100_010))
    assert (one.is_full, one.room(0)) == (False, None)
    one.progress.finish([100_010])
    assert (one.is_full, one.room(0)) == (True, 0)
    one.progress.finish([10])
    assert (one.is_full, one.room(0), one.offset) == (False, None, 100_011)
