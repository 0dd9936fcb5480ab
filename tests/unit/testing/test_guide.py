"""The test programs of the guides pass."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
PAGES = [(GUIDES / name).read_text() for name in ("testing.md", "retries.md")]
PROGRAMS = [one for page in PAGES for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def test_" in one]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: re.findall(r"def (test_\w+)", program)[0])
def test_an_example_of_the_guide_passes(program: str) -> None:
    made: dict[str, Any] = {}
    exec(compile(program, "a guide", "exec"), made)
    for name in [name for name in made if name.startswith("test_")]:
        ended = made[name]()
        if inspect.isawaitable(ended):
            asyncio.run(_end_of(ended))


async def _end_of(ended: Any) -> None:
    await ended
