"""The documentation shows what `baton simulate` prints and draws today (`python -m tests.simulation.pages` writes it again)."""

from pathlib import Path

import pytest

from tests.simulation.pages import PAGES, drawings, with_outputs

NAMES = [path.stem for path in PAGES]


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_tables_are_what_the_commands_print(path: Path) -> None:
    assert with_outputs(path.read_text()) == path.read_text()


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_pictures_are_what_the_commands_draw(path: Path, tmp_path: Path) -> None:
    for place, drawn in drawings(path.read_text(), tmp_path).items():
        assert place.read_text() == drawn, f"{place.name} shows something else"


def test_there_are_such_pages() -> None:
    assert "choose-a-delay" in NAMES
