"""Finding the end of the next batch."""

from collections.abc import Mapping

import pytest

from baton.model.ids import Partition
from baton.queues.logged_ranges import Ahead, AheadAnswer, AheadRequest, Paused
from baton.spark.batch_search import Candidate, Due, choose_end, in_turn
from tests.ids import a_partition
from tests.unit.spark.builders import grant

MANY = 10_000
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


@pytest.mark.parametrize(
    ("asked", "last", "limits", "expected", "rounds"),
    [
        pytest.param(candidates(0, 1), {0: 5, 1: 7}, {}, {0: 5, 1: 7}, 1, id="all of a few entries"),
        pytest.param(candidates(0, 1, position=5), {0: 5, 1: 7}, {}, {1: 7}, 1, id="nothing new in one"),
        pytest.param(candidates(0, 1), {0: MANY, 1: MANY}, {"rows": 100}, {0: 50, 1: 50}, 1, id="rows are shared evenly"),
        pytest.param(candidates(0, 1), {0: MANY, 1: MANY}, {"rows": 101}, {0: 51, 1: 50}, 1, id="rows that do not divide"),
        pytest.param(
            candidates(0, 1, 2), {0: 4, 1: MANY, 2: MANY}, {"rows": 100}, {0: 4, 1: 48, 2: 48}, 2, id="others get what one leaves"
        ),
        pytest.param(candidates(0, 1, 2), {0: 0, 1: 0, 2: 5}, {"rows": 2}, {2: 2}, 2, id="the first in turn have nothing"),
        pytest.param(candidates(0, 1), {0: MANY, 1: MANY}, {"size": 1000}, {0: 50, 1: 50}, 1, id="bytes are shared evenly"),
        pytest.param(candidates(0), {0: 10}, {"size": 3}, {0: 1}, 1, id="an entry larger than a batch comes alone"),
        pytest.param(candidates(0, most=30), {0: 100}, {}, {0: 30}, 1, id="up to the end of a query that ends"),
        pytest.param(
            [*candidates(0, most=10), *candidates(1)],
            {0: MANY, 1: MANY},
            {"size": 10_000},
            {0: 10, 1: 990},
            2,
            id="an end frees bytes",
        ),
    ],
)
def test_a_batch_has_what_its_limits_allow_shared_by_its_partitions(
    asked: list[Candidate], last: dict[int, int], limits: dict[str, int], expected: dict[int, int], rounds: int
) -> None:
    queue = Queue(last)
    assert ends(asked, queue, **limits) == expected
    assert len(queue.rounds) == rounds


def test_idle_partitions_leave_the_whole_batch_to_the_busy_one() -> None:
    queue = Queue({**dict.fromkeys(range(1000), 0), 7: 10**6})
    assert ends(candidates(*range(1000)), queue, rows=200_000, size=10**9) == {7: 200_000}
    assert [len(asked) for asked in queue.rounds] == [1000, 1]


def test_with_fewer_rows_than_partitions_the_first_in_turn_get_one_each() -> None:
    chosen = choose_end(candidates(3, 1, 2), 2, 10**6, Queue({1: 5, 2: 5, 3: 5}))
    assert chosen.ends == {a_partition("orders", 3): 1, a_partition("orders", 1): 1}
    assert chosen.unasked == {a_partition("orders", 2)}


def test_partitions_that_waited_longest_come_first() -> None:
    served = {a_partition("orders", 0): 4, a_partition("orders", 1): 3}
    assert [one.partition.number for one in in_turn(candidates(0, 1, 2), served)] == [2, 1, 0]


def test_an_available_now_query_whose_entries_are_gone_reads_nothing() -> None:
    def gone(questions: Questions) -> Mapping[Partition, AheadAnswer]:
        return dict.fromkeys(questions, Ahead(90, 100, 81, 0))

    assert choose_end(candidates(0, most=30), 100, 10**6, gone).ends == {}


def test_paused_partitions_and_unreachable_queues_keep_their_positions() -> None:
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


END = Ahead(9, 9, 10, 0)
"""There is nothing after 9."""


@pytest.mark.parametrize(
    ("asked_at", "end", "answer", "later", "due"),
    [
        pytest.param(9, 9, END, candidate(position=9), False, id="read to its end"),
        pytest.param(0, 9, Ahead(9, 9, 1, 0), candidate(position=9), True, id="had rows in the last batch"),
        pytest.param(0, 5, Ahead(5, 9, 1, 0), candidate(position=5), True, id="has more entries"),
        pytest.param(9, 9, END, candidate(position=9, epoch=2), True, id="has a new epoch"),
        pytest.param(9, 9, END, candidate(position=0), True, id="is at another position"),
    ],
)
def test_a_partition_is_due_if_it_may_have_entries(asked_at: int, end: int, answer: Ahead, later: Candidate, due: bool) -> None:
    known = Due()
    assert is_due(known, candidate(position=asked_at)), "it was never asked"
    known.answered(candidate(position=asked_at), end, answer, 0.0)
    assert is_due(known, later, now=1e9) == due
    at = later.position
    known.answered(later, at, Ahead(at, at, at + 1, 0), 0.0)
    assert not is_due(known, later, now=1e9), "it is asked once"
    known.woken([later.partition])
    assert is_due(known, later)


def test_paused_partitions_and_unreachable_queues_are_asked_again_later() -> None:
    for answer in (Paused(), None):
        due = Due()
        due.answered(candidate(), 0, answer, 0.0)
        assert not is_due(due, candidate(), now=0.5)
        assert is_due(due, candidate(), now=1.5)
