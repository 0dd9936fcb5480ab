"""What may be committed of what was handed out."""

from hypothesis import given
from hypothesis import strategies as st

from baton.queues.kafka.read_position import FinishedOffsets


@given(st.permutations(range(8)), st.integers(0, 8))
def test_the_offset_is_behind_the_last_entry_before_which_all_are_finished(order: list[int], count: int) -> None:
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


def test_what_was_not_handed_out_or_is_finished_is_passed_over() -> None:
    finished = FinishedOffsets(0)
    finished.handed_out([0, 1, 2])
    finished.finish([1])
    assert [finished.is_out(offset) for offset in range(4)] == [True, False, True, False]
    finished.finish([0])
    finished.finish([0, 1, 7])
    assert (finished.unfinished, finished.offset) == (1, 2)
    finished.finish([2])
    assert finished.offset == 3 and not finished.is_out(2)


def test_marks_behind_what_is_finished_are_gone_over_and_never_what_is_not() -> None:
    progress = FinishedOffsets(3)
    progress.handed_out([3])
    progress.nothing_before(6)
    assert (progress.offset, progress.end) == (3, 6)
    progress.finish([3])
    progress.nothing_before(6)
    assert progress.offset == 6
    progress.nothing_before(5)
    assert (progress.offset, progress.end) == (6, 6)
