"""The programs of the guide run as they stand."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "testing.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: re.findall(r"def (test_\w+)", program)[0])
def test_an_example_of_the_guide_passes(program: str) -> None:
    made: dict[str, Any] = {}
    exec(compile(program, str(PAGE), "exec"), made)
    for name in [name for name in made if name.startswith("test_")]:
        ended = made[name]()
        if inspect.isawaitable(ended):
            asyncio.run(_end_of(ended))


async def _end_of(ended: Any) -> None:
    await ended
