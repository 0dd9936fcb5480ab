"""Pages about the engine are generated from its code. That it keeps to the table of states: tests/simulation/test_seeds.py."""

from pathlib import Path

import pytest

from docs.generate import pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_is_generated_from_the_code(page: Path) -> None:
    assert page.read_text() == pages()[page], "run make generate"
