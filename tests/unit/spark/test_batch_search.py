"""Finding the end of the next batch."""

from collections.abc import Mapping

from baton.model.ids import Partition
from baton.queues.logged_ranges import Ahead, AheadAnswer, AheadRequest, Paused
from baton.spark.batch_search import Candidate, Due, choose_end, in_turn
from tests.ids import a_partition
from tests.unit.spark.builders import grant

Questions = Mapping[Partition, AheadRequest]


class Queue:
    """A queue with entries of ten bytes each, numbered from 1."""

    def __init__(self, last: Mapping[int, int], away: frozenset[int] = frozenset()) -> None:
        self._last, self._away = last, away
        self.rounds: list[Questions] = []

    def __call__(self, questions: Questions) -> Mapping[Partition, AheadAnswer]:
        self.rounds.append(questions)
        return {one: self._answer(question) for one, question in questions.items() if one.number not in self._away}

    def _answer(self, question: AheadRequest) -> AheadAnswer:
        if question.partition not in self._last:
            return Paused()
        last = self._last[question.partition]
        end = min(last, question.start + question.most_entries, question.start + max(1, question.most_bytes // 10))
        return Ahead(max(end, question.start), last, question.start + 1, 10 * max(0, end - question.start))


def candidates(*numbers: int, position: int = 0, most: int | None = None) -> list[Candidate]:
    return [Candidate(grant("exec-1", number), position, most) for number in numbers]


def ends(asked: list[Candidate], queue: Queue, rows: int = 1000, size: int = 10**6) -> dict[int, int]:
    return {partition.number: end for partition, end in choose_end(asked, rows, size, queue).ends.items()}


def test_a_batch_has_everything_where_that_is_little() -> None:
    assert ends(candidates(0, 1), Queue({0: 5, 1: 7})) == {0: 5, 1: 7}


def test_a_partition_without_news_has_no_part() -> None:
    assert ends(candidates(0, 1, position=5), Queue({0: 5, 1: 7})) == {1: 7}


def test_rows_are_shared_out_evenly() -> None:
    assert ends(candidates(0, 1), Queue({0: 10_000, 1: 10_000}), rows=100) == {0: 50, 1: 50}


def test_what_one_does_not_need_the_others_get() -> None:
    queue = Queue({0: 4, 1: 10_000, 2: 10_000})
    assert ends(candidates(0, 1, 2), queue, rows=100) == {0: 4, 1: 48, 2: 48}
    assert len(queue.rounds) == 2


def test_a_thousand_idle_ones_leave_the_whole_batch_to_the_one_that_has_something() -> None:
    queue = Queue({**dict.fromkeys(range(1000), 0), 7: 10**6})
    assert ends(candidates(*range(1000)), queue, rows=200_000, size=10**9) == {7: 200_000}
    assert [len(asked) for asked in queue.rounds] == [1000, 1]


def test_bytes_bound_a_batch_as_well() -> None:
    assert ends(candidates(0, 1), Queue({0: 10_000, 1: 10_000}), size=1000) == {0: 50, 1: 50}


def test_an_entry_that_is_larger_than_the_batch_may_be_is_read_alone() -> None:
    assert ends(candidates(0), Queue({0: 10}), size=3) == {0: 1}


def test_with_more_partitions_than_rows_the_first_in_turn_have_one_each() -> None:
    chosen = choose_end(candidates(3, 1, 2), 2, 10**6, Queue({1: 5, 2: 5, 3: 5}))
    assert chosen.ends == {a_partition("orders", 3): 1, a_partition("orders", 1): 1}
    assert chosen.unasked == {a_partition("orders", 2)}


def test_rows_that_do_not_divide_are_shared_out_in_the_same_round() -> None:
    queue = Queue({0: 10_000, 1: 10_000})
    assert ends(candidates(0, 1), queue, rows=101) == {0: 51, 1: 50}
    assert len(queue.rounds) == 1


def test_where_the_first_in_turn_have_nothing_the_others_are_asked() -> None:
    assert ends(candidates(0, 1, 2), Queue({0: 0, 1: 0, 2: 5}), rows=2) == {2: 2}


def test_what_a_query_that_ends_leaves_of_a_partition_takes_no_bytes_from_the_others() -> None:
    asked = [*candidates(0, most=10), *candidates(1)]
    assert ends(asked, Queue({0: 10_000, 1: 10_000}), size=10_000) == {0: 10, 1: 990}


def test_who_waited_longest_comes_first() -> None:
    served = {a_partition("orders", 0): 4, a_partition("orders", 1): 3}
    assert [one.partition.number for one in in_turn(candidates(0, 1, 2), served)] == [2, 1, 0]


def test_a_query_that_ends_reads_no_further_than_it_is_to() -> None:
    queue = Queue({0: 100})
    assert ends(candidates(0, most=30), queue) == {0: 30}
    assert len(queue.rounds) == 1


def test_where_the_entries_up_to_its_end_are_gone_nothing_is_left_for_a_query_that_ends() -> None:
    def gone(questions: Questions) -> Mapping[Partition, AheadAnswer]:
        return dict.fromkeys(questions, Ahead(90, 100, 81, 0))

    assert choose_end(candidates(0, most=30), 100, 10**6, gone).ends == {}


def test_paused_partitions_and_queues_that_are_away_stay_where_they_are() -> None:
    chosen = choose_end(candidates(0, 1, 2), 100, 10**6, Queue({2: 5}, away=frozenset({0})))
    assert chosen.ends == {a_partition("orders", 2): 5}
    assert chosen.answers[a_partition("orders", 0)] is None
    assert chosen.answers[a_partition("orders", 1)] == Paused()


def candidate(number: int = 0, position: int = 0, epoch: int = 1) -> Candidate:
    return Candidate(grant("exec-1", number, epoch), position)


def is_due(due: Due, one: Candidate, now: float = 0.0) -> bool:
    asked, waiting = due.split([one], now)
    assert len(asked) + len(waiting) == 1
    return bool(asked)


def test_what_was_never_asked_is_due() -> None:
    assert is_due(Due(), candidate())


def test_what_was_read_to_its_end_is_due_when_it_is_woken() -> None:
    due = Due()
    due.answered(candidate(position=9), 9, Ahead(9, 9, 10, 0), 0.0)
    assert not is_due(due, candidate(position=9), now=1e9)
    due.woken([candidate().partition])
    assert is_due(due, candidate(position=9))


def test_what_had_rows_in_the_last_batch_is_due_once() -> None:
    due = Due()
    due.answered(candidate(), 9, Ahead(9, 9, 1, 0), 0.0)
    assert is_due(due, candidate(position=9)), "more may have come while the batch ran"
    due.answered(candidate(position=9), 9, Ahead(9, 9, 10, 0), 0.0)
    assert not is_due(due, candidate(position=9), now=1e9)


def test_what_has_more_is_due() -> None:
    due = Due()
    due.answered(candidate(), 5, Ahead(5, 9, 1, 0), 0.0)
    assert is_due(due, candidate(position=5))


def test_what_has_changed_hands_is_due() -> None:
    due = Due()
    due.answered(candidate(position=9), 9, Ahead(9, 9, 10, 0), 0.0)
    assert not is_due(due, candidate(position=9))
    assert is_due(due, candidate(position=9, epoch=2))


def test_what_is_known_of_another_position_is_not_waited_for() -> None:
    due = Due()
    due.answered(candidate(position=9), 9, Ahead(9, 9, 10, 0), 0.0)
    assert is_due(due, candidate(position=0))


def test_what_is_paused_and_a_queue_that_is_away_are_asked_again_after_a_while() -> None:
    for answer in (Paused(), None):
        due = Due()
        due.answered(candidate(), 0, answer, 0.0)
        assert not is_due(due, candidate(), now=0.5)
        assert is_due(due, candidate(), now=1.5)
