"""The documentation's links lead somewhere, and every option of the command is in it."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from baton.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken(page: Path) -> Iterator[str]:
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", path):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_every_page_can_be_reached() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(page.read_text())}
    assert [page for page in PAGES if page.name != "README.md" and page.resolve() not in linked] == []


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_of_a_command_is_documented(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    text = "".join((ROOT / "docs" / "reference" / f"{page}.md").read_text() for page in ("commands", "plan", "simulate"))
    options = [max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)]
    assert [option for option in options if option not in text] == []
