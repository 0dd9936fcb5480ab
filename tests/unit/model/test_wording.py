"""How numbers and lists read."""

from baton.model.wording import counted, first_of, quoted


def test_one_is_singular_and_thousands_have_a_comma() -> None:
    assert [counted(count, "partition") for count in (0, 1, 2000)] == ["0 partitions", "1 partition", "2,000 partitions"]
    assert [counted(count, "entry is", "entries are") for count in (0, 1, 2)] == ["0 entries are", "1 entry is", "2 entries are"]


def test_what_is_left_out_of_a_list_is_counted() -> None:
    assert [first_of("abcd"[:length], 3) for length in range(5)] == ["", "a", "a, b", "a, b, c", "a, b, c and 1 more"]


def test_what_somebody_else_wrote_is_quoted_on_one_short_line() -> None:
    assert quoted("a\x1b[31m\nb") == "'a\\x1b[31m\\nb'"
    assert quoted("x" * 100) == f"'{'x' * 80}' and 20 more characters"
    assert quoted("\U00010000" * 41) == "'" + "\\U00010000" * 8 + "' and 33 more characters"
