"""What the stress test of Kafka considers wrong, with made-up lines."""

from tests.integration.kafka.stress.verdict import Line, Verdict, lines, verdict

ALL_RIGHT = Verdict([], {}, [], [], [])


def judged(text: str, sent: int) -> Verdict:
    """Judge lines of one partition: `what partition epoch offset redelivered`."""
    return verdict(lines(text), {0: sent})


def test_what_was_in_hand_before_a_grant_comes_marked() -> None:
    told = "granting 0 1 0 0\nhandled 0 1 0 0\ntaken 0 1 1 0\nhandled 0 1 1 0\ngranting 0 2 0 0\nhandled 0 2 1 {}"
    assert judged(told.format(1), 2) == ALL_RIGHT
    assert judged(told.format(0), 2).unmarked == [Line("handled", 0, 2, 1, False)]


def test_what_is_handed_out_when_a_grant_has_begun_may_come_unmarked() -> None:
    told = "handled 0 1 0 0\ngranting 0 2 0 0\nhandled 0 1 1 0\nhandled 0 2 0 1\nhandled 0 2 1 0\nhandled 0 2 2 0"
    assert judged(told, 3) == ALL_RIGHT
    again = f"{told}\nhandled 0 2 1 0"
    assert judged(again, 3).unmarked == [Line("handled", 0, 2, 1, False)], "its own twice"


def test_what_nobody_has_handled_is_lost_and_what_comes_before_it_overtakes_it() -> None:
    assert judged("handled 0 1 0 0\nhandled 0 1 2 0", 4) == ALL_RIGHT._replace(
        lost={0: 1}, overtaken=[Line("handled", 0, 1, 2, False)]
    )


def test_a_commit_counts_until_a_later_owner_has_begun_before_it() -> None:
    assert judged("handled 0 1 0 0\ntaken 0 1 1 0\nhandled 0 2 1 0", 2) == ALL_RIGHT
    stale = judged("handled 0 1 0 0\nhandled 0 2 0 1\ntaken 0 1 1 0", 1)
    assert stale.stale == [Line("taken", 0, 1, 1, False)]
    undone = judged("handled 0 1 0 0\ntaken 0 1 1 0\nhandled 0 2 0 1", 1)
    assert undone.undone == [Line("handled", 0, 2, 0, True)]
