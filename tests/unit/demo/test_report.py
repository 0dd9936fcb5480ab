"""The line that outside checks read."""

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from demo.audit import audit
from demo.chart import averaged, chart, sampled
from demo.picture import Member, Picture
from demo.records import Evidence
from demo.report import Totals, clean, line, table
from demo.stage import Moment
from demo.story import Line, Voice, clock_text
from demo.timings import Timings, milliseconds
from demo.view import Colours, spark


def test_the_line_has_the_fields_of_the_contract() -> None:
    verdict = audit(Evidence({"k": 2}, ()))
    timings = Timings(pauses=[1.0, 3.0], ready_to_ledger=[0.1], ledger_to_executor=[0.4])
    assert json.loads(line(verdict, timings, Totals(2000.0, 7, 7, 1, 12, 9, {}))) == {
        "produced": 2,
        "processed": 0,
        "gaps": 2,
        "duplicates": 0,
        "redelivered": 0,
        "order_violations": 0,
        "moves": 7,
        "lower_bound": 7,
        "pause_ms_p50": 2000,
        "pause_ms_max": 3000,
        "ready_to_ledger_ms_p50": 100,
        "ledger_to_executor_ms_p50": 400,
        "stale_refused": 12,
        "stale_accepted": 0,
    }


def test_the_report_has_median_and_maximum_of_batches() -> None:
    driver = {"ranges_planned": 4, "ranges_read_on_owner": 4, "ranges_lent": 0, "owner_share": 1.0}
    shown = StringIO()
    told = table(audit(Evidence({}, ())), Timings(batches=[0.3, 0.4, 1.7]), Totals(2000.0, 7, 7, 1, 12, 9, driver))
    Console(file=shown, width=120).print(told)
    assert "p50 400 ms, max 1,700 ms (3)" in shown.getvalue()


def test_a_needless_move_is_not_clean() -> None:
    verdict = audit(Evidence({}, ()))
    assert clean(verdict, Totals(2000.0, 7, 7, 1, 12, 9, {}))
    assert not clean(verdict, Totals(2000.0, 8, 7, 1, 12, 9, {}))


# -- Durations and moves are counted from what the ledger said and when.


def member(name: str, *, owned: tuple[int, ...] = (), revoking: tuple[int, ...] = (), listed: bool = True) -> Member:
    grants, taken = dict.fromkeys(owned, 1), dict.fromkeys(revoking, 1)
    return Member(name, f"uid-{name}", "ready", registered=True, listed=listed, owned=grants, revoking=taken)


def seen(*moments: tuple[float, tuple[Member, ...]]) -> Timings:
    timings = Timings()
    for at, members in moments:
        timings.see(Picture(members=members), at)
    return timings


def test_the_time_from_ready_to_the_ledger_is_measured() -> None:
    timings = seen((1.0, (member("a", listed=False),)), (1.25, (member("a"),)), (9.0, (member("a", owned=(1,)),)))
    assert timings.ready_to_ledger == [0.25]


def test_the_holddown_does_not_count() -> None:
    held = Picture(members=(member("a", listed=False),), held_until=9.0)
    timings = Timings()
    timings.see(Picture(members=held.members), 1.0)
    timings.see(held, 1.1)
    timings.see(Picture(members=(member("a"),)), 9.2)
    assert [round(each, 6) for each in timings.ready_to_ledger] == [0.2]


def test_a_pod_that_was_listed_early_waited_for_nothing() -> None:
    early = Member("a", "uid-a", "starting", listed=True)
    assert seen((1.0, (early,)), (2.0, (member("a"),))).ready_to_ledger == [0.0]


def test_a_hand_off_is_a_pause_and_a_move() -> None:
    timings = seen(
        (1.0, (member("a", owned=(1, 2)), member("b"))),
        (2.0, (member("a", owned=(1,), revoking=(2,)), member("b"))),
        (3.5, (member("a", owned=(1,)), member("b", owned=(2,)))),
    )
    assert (timings.pauses, timings.orphaned, timings.moves) == ([1.5], [], 1)


def test_a_returned_partition_is_a_pause_and_no_move() -> None:
    timings = seen((1.0, (member("a", owned=(1,)),)), (2.0, (member("a", revoking=(1,)),)), (3.0, (member("a", owned=(1,)),)))
    assert (timings.pauses, timings.moves) == ([1.0], 0)


def test_a_dead_owners_partition_is_orphaned() -> None:
    dead = replace(member("a", owned=(1,)), phase="gone")
    timings = seen((1.0, (member("a", owned=(1,)), member("b"))), (2.0, (dead, member("b"))), (8.0, (member("b", owned=(1,)),)))
    assert (timings.pauses, timings.orphaned, timings.moves) == ([], [6.0], 1)


def test_the_time_from_the_ledger_to_the_first_row_is_measured() -> None:
    timings = seen(
        (1.0, (member("a", owned=(1, 2)), member("b"))),
        (2.0, (member("a", owned=(1,), revoking=(2,)), member("b"))),
        (3.5, (member("a", owned=(1,)), member("b", owned=(2,)))),
    )
    timings.first_rows({(1, 1, "a"): 1.5, (2, 1, "a"): 1.5, (2, 1, "b"): 4.0})
    assert timings.ledger_to_executor == [0.5]


def test_milliseconds_of_nothing_are_zero() -> None:
    assert milliseconds([]) == (0, 0)
    assert milliseconds([0.1, 0.2, 1.0]) == (200, 1000)


# -- The chart at the end: what held at each moment, in as many columns as there are.


def test_each_column_shows_the_moment_at_its_end() -> None:
    early, late = Moment(0.5, {0: "a"}), Moment(2.5, {0: "b"})
    assert sampled([early, late], 4, end=4.0) == [early, early, late, late]
    assert sampled([late], 4, end=4.0) == [None, None, late, late]


def test_rates_are_averaged_over_each_column() -> None:
    assert averaged([(0.0, 1), (1.0, 3), (2.0, 5), (9.0, 7)], 2, end=4.0) == (2, 5)
    assert averaged([], 2, end=4.0) == (0, 0)


def test_a_column_without_rates_repeats_the_last_one() -> None:
    assert averaged([(1.0, 3), (3.0, 5)], 4, end=4.0) == (0, 3, 3, 5)


def test_bars_are_as_high_as_their_values() -> None:
    assert spark((0.0, 4.0, 8.0)) == "▁▅█"
    assert spark(()) == ""
    assert spark((0.0, 0.0)) == "▁▁"


def test_the_chart_has_a_row_per_partition_and_a_mark_per_step() -> None:
    console = Console(width=60, record=True, file=None, force_terminal=False, quiet=True)
    moments = [
        Moment(0.0, {0: "exec-1", 1: "exec-1"}),
        Moment(5.0, {0: "exec-1", 1: "exec-2"}),
        Moment(10.0, {}),
    ]
    steps = [Line(0.0, Voice.STEP, "begin"), Line(5.0, Voice.STEP, "scale out")]
    console.quiet = False
    with console.capture() as captured:
        console.print(chart(moments, steps, [(1.0, 1.0), (6.0, 2.0)], 2, Colours(), 10))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert lines[0] == "  0 aaaaaaaaa·"
    assert lines[1] == "  1 aaaabbbbb·"
    assert lines[2] == "    1    2"
    assert "a exec-1" in captured.get() and "2 scale out" in captured.get()


def test_the_clock_shows_minutes_and_seconds() -> None:
    assert [clock_text(seconds) for seconds in (0, 9.96, 65.25)] == ["0:00.0", "0:10.0", "1:05.2"]


def test_the_legend_keeps_letter_and_name_together() -> None:
    names = [f"orders-6710aa-exec-{number}" for number in range(1, 8)]
    console = Console(width=112, force_terminal=False)
    with console.capture() as captured:
        moments = [Moment(0.0, dict(enumerate(names))), Moment(1.0, {})]
        console.print(chart(moments, [], [], 7, Colours(), 100))
    assert all(f"{letter} {name}" in captured.get() for letter, name in zip("abcdefg", names, strict=True))


def test_each_member_has_a_different_colour() -> None:
    colours = Colours()
    assert len({colours.of(f"orders-{number}") for number in range(1, 8)}) == 7
