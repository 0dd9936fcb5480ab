"""What `make bench-handoff` makes of what was handled."""

from tests.bench.handoff.chart import draw
from tests.bench.handoff.records import Record, effect, spread


def record(*rows: tuple[float, int, int, str]) -> Record:
    """Rows of seconds, partition, number and member; two partitions."""
    made = Record(2)
    made.take_in([f"{int(at * 1e9)} {partition} {number} {member}" for at, partition, number, member in rows])
    return made


def test_a_pause_lasts_from_the_last_message_to_the_next_owners_first() -> None:
    found = effect(
        record((0.9, 0, 0, "a"), (0.95, 1, 0, "a"), (1.05, 1, 1, "a"), (1.2, 0, 1, "b"), (1.25, 0, 2, "b"), (1.3, 1, 2, "a")),
        begun=1.0,
        acted=1.1,
        ended=1.35,
    )
    assert [round(pause, 3) for pause in found.pauses] == [0.3]
    assert [round(pause, 3) for pause in found.all_pauses] == [0.3, 0.25]
    assert (found.paused_partitions, found.moves, round(found.balanced_after, 3)) == (2, 1, 0.1)
    assert (found.duplicates, found.order_violations) == (0, 0)


def test_repeated_and_late_messages_are_told_apart() -> None:
    found = effect(
        record((0.9, 0, 0, "a"), (1.0, 0, 1, "a"), (1.1, 0, 1, "b"), (1.2, 0, 3, "b"), (1.3, 0, 2, "b")), 1.0, 1.5, acted=1.0
    )
    assert (found.duplicates, found.order_violations, found.moves) == (1, 1, 1)


def test_a_pause_ends_with_the_change_that_is_looked_at() -> None:
    found = effect(record((0.9, 0, 0, "a"), (1.2, 0, 1, "a"), (9.0, 0, 2, "a")), 1.0, 1.3, acted=1.0)
    assert [round(pause, 3) for pause in found.all_pauses] == [0.3, 0]


def test_a_fleet_is_balanced_when_exactly_its_members_work() -> None:
    made = record((1.0, 0, 0, "a"), (1.0, 1, 0, "a"), (2.0, 0, 1, "b"))
    assert not made.spread_over({"a", "b"}, since=1.5)
    made.take_in(["2100000000 1 1 a"])
    assert made.spread_over({"a", "b"}, since=1.5)
    assert not made.spread_over({"b"}, since=1.5)
    assert made.missing([2, 3]) == 1


def test_pauses_are_in_milliseconds() -> None:
    assert spread([]) == (0.0, 0.0, 0.0)
    assert spread([0.5]) == (500.0, 500.0, 500.0)
    assert [round(one) for one in spread([0.1, 0.2, 0.3])] == [200, 298, 300]


def test_the_chart_has_a_bar_for_each_system_whose_partitions_moved() -> None:
    row = {"event": "add one", "pause_ms_p50": 50, "pause_ms_max": 2000}
    drawn = draw([{**row, "system": "baton-redis", "moves": 7}, {**row, "system": "kafka-eager", "moves": 0}])
    assert "50 ms to 2 s, 7 moves" in drawn and "no move" in drawn
    assert drawn.count("<rect") == 2, "the background, and one bar"
