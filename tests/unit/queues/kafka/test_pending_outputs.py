"""What goes into the transaction of a commit."""

from hypothesis import given
from hypothesis import strategies as st

from baton.queues.kafka.outputs import PendingOutputs
from baton.queues.kafka.read_position import FinishedOffsets
from baton.queues.output import EACH, MOST_IN_TRANSACTION, Output


def out(value: str) -> Output:
    return Output("out", value.encode())


def test_a_commit_has_what_is_sent_of_the_entries_before_it_in_the_order_in_which_they_were_finished() -> None:
    pending = PendingOutputs()
    pending.add([3], [out("three")])
    pending.add([1], [out("one"), out("again")])
    pending.add([5], [out("five")])
    assert pending.due(1) == [] and pending.due(2) == [out("one"), out("again")]
    assert pending.due(5) == [out("three"), out("one"), out("again")]
    assert (len(pending), pending.weight) == (3, 17 + 4 * EACH)
    pending.committed(5)
    assert pending.due(9) == [out("five")] and (len(pending), pending.weight) == (1, 4 + EACH)


def test_a_commit_goes_to_no_place_between_entries_that_are_finished_together() -> None:
    pending = PendingOutputs()
    pending.add([4, 6, 9], [out("all")])
    pending.add([2, 5], [out("both")])
    assert [pending.reached(offset) for offset in range(1, 12)] == [1, 2, 2, 2, 2, 2, 2, 2, 2, 10, 11]
    pending.committed(10)
    assert pending.reached(5) == 5
    otherwise = PendingOutputs()
    for group in ([2, 5], [4, 9]):
        otherwise.add(group, [])
    assert otherwise.reached(8) == 2, "in whichever order they were finished"


HALF = [Output("out", b"." * (MOST_IN_TRANSACTION // 2 - EACH))]
"""Two of them go into one transaction."""


def test_a_commit_sends_no_more_than_a_transaction_may_and_goes_to_a_place_between_blocks() -> None:
    pending = PendingOutputs()
    for block in ([5], [0], [3], [1], [2], [4]):
        pending.add(block, HALF)
    assert [pending.reached(offset) for offset in (7, 6, 3, 2, 1)] == [2, 2, 2, 2, 1]
    pending.committed(2)
    assert [pending.reached(offset) for offset in (7, 4)] == [4, 4]
    pending.committed(4)
    assert pending.reached(7) == 7


def test_what_is_finished_together_is_not_parted_whatever_it_sends() -> None:
    pending = PendingOutputs()
    for block in ([0, 2], [1, 4], [3, 5], [6]):
        pending.add(block, HALF)
    assert [pending.reached(offset) for offset in (7, 6, 5)] == [6, 6, 0]


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=4))
def test_whenever_commits_come_each_output_is_in_one_and_never_in_one_that_leaves_an_entry_of_its_own(
    order: list[int], sizes: list[int]
) -> None:
    """Entries are finished in groups, in any order; a commit comes after each."""
    groups: list[list[int]] = []
    left = list(order)
    for size in [*sizes, 6]:
        if left:
            group, left = sorted(left[: max(1, size)]), left[max(1, size) :]
            groups.append(group)
    progress, pending = FinishedOffsets(0), PendingOutputs()
    progress.handed_out(range(6))
    sent: list[Output] = []
    done: list[list[int]] = []
    for group in groups:
        pending.add(group, [out(str(group))])
        progress.finish(group)
        done.append(group)
        offset = pending.reached(progress.offset)
        sent += pending.due(offset)
        pending.committed(offset)
        for one in done:
            inside = [entry < offset for entry in one]
            assert all(inside) or not any(inside)
            assert (out(str(one)) in sent) == all(inside)
    assert sorted(output.value or b"" for output in sent) == sorted(str(group).encode() for group in groups)
