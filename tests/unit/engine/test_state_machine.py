"""The page about the state machine is the table in the code. That the engine keeps to it: tests/simulation/test_seeds.py."""

from docs.generate import PATH, text


def test_the_page_is_generated_from_the_table() -> None:
    assert PATH.read_text() == text(), "run make generate"
