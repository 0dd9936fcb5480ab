"""Find words and phrases that this repository does not use: `python -m docs.prose`, a part of `make check`.

`docs/prose-exceptions.tsv` counts those that are still there, for each folder. A count may only shrink: `--shrink` writes the
lower ones down. docs/development/style.md says what to write instead.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXCEPTIONS = ROOT / "docs" / "prose-exceptions.tsv"
PHRASES = (
    "as it should be", "by what it is", "courtesy", "hitherto", "is told of", "is wanted", "are told",
    "it is that", "nobody", "of its own", "of their own", "of which it", "says so", "so many seconds", "somebody",
    "there is none", "thereof", "whatever it is", "wherein", "whoever", "whom", "without a word",
)  # fmt: skip
FOLDERS = ("charts", "cluster", "consumer", "demo", "docs", "manifests", "operator", "tests")
SUFFIXES = {".css", ".go", ".html", ".java", ".js", ".lua", ".md", ".py", ".sh", ".toml", ".tpl", ".txt", ".yaml"}
NOT_PROSE = {"docs/prose.py", "docs/development/style.md", "manifests/install.yaml", "docs/reference/resources.md"}
"""Files without the check: this list, the page about it, and generated files."""

_PHRASE = re.compile(r"(?<![\w-])(?:" + "|".join(PHRASES).replace(" ", r"\s+(?:[#*/>|]+\s*)?") + r")(?![\w-])", re.IGNORECASE)

Counts = Mapping[tuple[str, str], int]


def texts() -> Iterator[Path]:
    """The files written by people."""
    yield from (*sorted(ROOT.glob("*.md")), ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.relative_to(ROOT).as_posix() not in NOT_PROSE and path.is_file():
                yield path


def found() -> Mapping[tuple[str, str], list[str]]:
    """By (folder, phrase): the places of the phrase, as `path:line`. Folders are those of CONTRIBUTING's table."""
    places = defaultdict(list)
    for path in texts():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")
        for match in _PHRASE.finditer(text):
            phrase = " ".join(re.findall("[a-z]+", match.group().lower()))
            places[room(name), phrase].append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}")
    return places


def room(name: str) -> str:
    """The folder that a file counts for: files may move inside it."""
    folders = name.split("/")[:-1]
    return "/".join(folders[: 3 if folders[:2] == ["operator", "baton"] else 2]) or "."


def excepted() -> Counts:
    """The counts that `docs/prose-exceptions.tsv` allows."""
    lines = (line.split("\t") for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines())
    return {(folder, phrase): int(count) for folder, phrase, count in lines}


def main() -> int:
    """Print new phrases and unneeded exceptions, and return 1 if there are any."""
    places, allowed = found(), excepted()
    new = {key: where for key, where in places.items() if len(where) > allowed.get(key, 0)}
    for (folder, phrase), where in sorted(new.items()):
        print(f"{folder}: {len(where)} times {phrase!r}, {allowed.get((folder, phrase), 0)} allowed: {', '.join(where[:30])}")
    if new:
        print("prose: say it in plain English (docs/development/style.md)", file=sys.stderr)
        return 1
    fewer = {key: min(count, len(places.get(key, ()))) for key, count in allowed.items()}
    if fewer == allowed:
        return 0
    if "--shrink" not in sys.argv:
        print("prose: fewer than docs/prose-exceptions.tsv allows: run `python -m docs.prose --shrink`", file=sys.stderr)
        return 1
    lines = (f"{folder}\t{phrase}\t{count}\n" for (folder, phrase), count in sorted(fewer.items()) if count)
    EXCEPTIONS.write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
