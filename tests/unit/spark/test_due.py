from baton.queues.logged_ranges import Ahead, Paused
from baton.spark.batch_search import Candidate, Due
from tests.ids import a_partition
from tests.unit.spark.builders import grant


def candidate(number: int = 0, position: int = 0, epoch: int = 1) -> Candidate:
    return Candidate(a_partition("orders", number), grant("exec-1", number, epoch), position)


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
