"""The chart at the end: what held at each moment, in as many columns as there are."""

from rich.console import Console

from demo.chart import averaged, chart, sampled
from demo.stage import Moment
from demo.story import Line, Voice, clock_text
from demo.view import Colours, spark


def test_each_column_shows_what_held_at_its_end() -> None:
    early, late = Moment(0.5, {0: "a"}, "Ready"), Moment(2.5, {0: "b"}, "Ready")
    assert sampled([early, late], 4, end=4.0) == [early, early, late, late]
    assert sampled([late], 4, end=4.0) == [None, None, late, late]


def test_values_are_averaged_over_the_span_of_a_column() -> None:
    assert averaged([(0.0, 1), (1.0, 3), (2.0, 5), (9.0, 7)], 2, end=4.0) == (2, 5)
    assert averaged([], 2, end=4.0) == (0, 0)


def test_a_span_without_a_value_has_the_last_one() -> None:
    assert averaged([(1.0, 3), (3.0, 5)], 4, end=4.0) == (0, 3, 3, 5)


def test_bars_are_as_high_as_their_values() -> None:
    assert spark((0.0, 4.0, 8.0)) == "▁▅█"
    assert spark(()) == ""
    assert spark((0.0, 0.0)) == "▁▁"


def test_a_row_per_partition_and_a_mark_per_step() -> None:
    console = Console(width=60, record=True, file=None, force_terminal=False, quiet=True)
    moments = [
        Moment(0.0, {0: "exec-1", 1: "exec-1"}, "Ready"),
        Moment(5.0, {0: "exec-1", 1: "exec-2"}, "Ready"),
        Moment(10.0, {}, "Ready"),
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


def test_the_clock_reads_as_minutes_and_seconds() -> None:
    assert [clock_text(seconds) for seconds in (0, 9.96, 65.25)] == ["0:00.0", "0:10.0", "1:05.2"]


def test_the_legend_keeps_letter_and_name_together() -> None:
    names = [f"orders-6710aa-exec-{number}" for number in range(1, 8)]
    console = Console(width=112, force_terminal=False)
    with console.capture() as captured:
        moments = [Moment(0.0, dict(enumerate(names)), "Ready"), Moment(1.0, {}, "Ready")]
        console.print(chart(moments, [], [], 7, Colours(), 100))
    assert all(f"{letter} {name}" in captured.get() for letter, name in zip("abcdefg", names, strict=True))


def test_members_of_a_story_have_colours_of_their_own() -> None:
    colours = Colours()
    assert len({colours.of(f"orders-{number}") for number in range(1, 8)}) == 7
