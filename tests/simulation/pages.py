"""What `baton simulate` prints and draws in the documentation. `python -m tests.simulation.pages` writes it again.

In a page, what a command prints stands below it: a table, or a block of `text`, below a block of `sh` with one command in
it. A picture stands below a comment with the command that drew it.
"""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from baton.cli.simulate import simulate

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if re.search("baton simulate (manifests|tests)", path.read_text()))

_OUTPUT = re.compile(r"```sh\n(baton simulate [^\n]+)\n```\n(\n(?:\|[^\n]*\n)+|\n```text\n.*?\n```\n|)", re.DOTALL)
_DRAWING = re.compile(r"<!-- (baton simulate [^\n]+ --svg (docs/[^\n ]+)) -->")


def output(command: str) -> str:
    """What a command prints, as it is run at the top of the clone."""
    words = [str(ROOT / word) if word.startswith(("manifests/", "tests/")) else word for word in shlex.split(command)[2:]]
    done = CliRunner().invoke(simulate, words)
    assert done.exit_code == 0, f"{command}: {done.output}"
    return done.output


def with_outputs(page: str) -> str:
    """The page with what its commands print now."""

    def again(found: re.Match[str]) -> str:
        printed = output(found[1])
        below = printed if printed.startswith("|") else f"```text\n{printed}```\n"
        return f"```sh\n{found[1]}\n```\n\n{below}"

    return _OUTPUT.sub(again, page)


def drawings(page: str, into: Path) -> dict[Path, str]:
    """Where the page's pictures are, and what they are now."""
    found = {}
    for command, place in _DRAWING.findall(page):
        file = into / "drawing.svg"
        output(command.replace(place, str(file)))
        found[ROOT / place] = file.read_text()
    return found


def main() -> None:
    """Write the outputs into the pages, and the pictures beside them."""
    for path in PAGES:
        page = path.read_text()
        path.write_text(with_outputs(page))
        for place, drawn in drawings(page, ROOT / ".venv").items():
            place.write_text(drawn)


if __name__ == "__main__":
    main()
