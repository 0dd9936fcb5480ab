"""docs/concepts/glossary.md and everything else use the same words."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "concepts" / "glossary.md"
PAGE, _, REFUSED = GLOSSARY.read_text().partition("## Words that are not used")
PLACES = (
    "operator/baton",
    "consumer",
    "cluster",
    "demo",
    "tests",
    "docs",
    "charts",
    "crds",
    "manifests",
    "README.md",
    "CONTRIBUTING.md",
)


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| name |", "| not |"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names() -> list[str]:
    return [name for row in rows(PAGE) for name in re.findall(r"\*\*([^*]+)\*\*", row[0])]


def places() -> list[str]:
    return [place for row in rows(PAGE) for place in re.findall(r"`([^`]+)`", row[3])]


@cache
def texts() -> dict[Path, str]:
    """What users and developers read, but the glossary. Names in camel case are parted into words."""
    found = [one for top in PLACES for one in ([ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*")))]
    kinds = {".py", ".lua", ".md", ".yaml", ".tpl", ".txt", ".toml"}
    read = {path: path.read_text() for path in found if path.suffix in kinds and path != GLOSSARY}
    return {path: re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text) for path, text in read.items()}


@cache
def code() -> str:
    return "\n".join(path.read_text() for path in texts() if path.is_relative_to(ROOT / "operator" / "baton"))


@cache
def fields() -> frozenset[str]:
    """Each field of the resources, such as `spec.rebalance.delaySeconds`; items of a list count as what they are in."""
    crds = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    return frozenset(field for crd in crds for field in inside(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], ""))


def inside(schema: dict[str, Any], path: str) -> Iterator[str]:
    yield path
    yield from inside(schema["items"], path) if "items" in schema else ()
    for name, of in schema.get("properties", {}).items():
        yield from inside(of, f"{path}.{name}".lstrip("."))


def test_each_name_is_in_the_glossary_once() -> None:
    assert len(names()) > 40
    assert sorted(set(names())) == sorted(names())


@pytest.mark.parametrize("place", places())
def test_every_place_of_the_glossary_exists(place: str) -> None:
    if place.startswith(("spec.", "status.")):
        assert place in fields()
    else:
        assert re.search(rf"(?<![\w.]){re.escape(place)}(?!\w)", code()) is not None


@pytest.mark.parametrize("word", [row[0] for row in rows(REFUSED)])
def test_rejected_words_are_not_used(word: str) -> None:
    refused = re.compile(rf"(?<![a-z]){word}s?(?![a-z])", re.IGNORECASE)
    assert [str(path.relative_to(ROOT)) for path, text in texts().items() if refused.search(text)] == []


def test_the_glossary_explains_every_name_of_baton() -> None:
    _, _, why = PAGE.partition("## Names of our own")
    ours = [name for row in rows(PAGE) if row[1].startswith("ours") for name in re.findall(r"\*\*([^*]+)\*\*", row[0])]
    assert sorted(ours) == sorted(re.findall(r"\*\*([^*]+)\*\*", why))
