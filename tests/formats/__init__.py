"""What others read of Baton, a file each. `python -m tests.formats` writes them, after a change that is meant."""

import json
import os
import re
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WRITE = "BATON_WRITE_FORMATS"


def same(name: str, found: Any, volatile: Mapping[str, str] | None = None) -> None:
    """Compare with the file of that name. `volatile`: patterns of what differs from run to run, and the word for each. `{}` in a
    word is a number for each different text, in the order in which they come."""
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    for pattern, word in (volatile or {}).items():
        numbers = {one: number for number, one in enumerate(dict.fromkeys(re.findall(pattern, text)), 1)}
        text = re.sub(pattern, lambda match: f"<{word.format(numbers[match[0]])}>", text)  # noqa: B023 -- it is called at once
    if os.environ.get(WRITE):
        (HERE / name).write_text(text, encoding="utf-8")
    before = (HERE / name).read_text(encoding="utf-8")
    diff = unified_diff(before.splitlines(), text.splitlines(), f"tests/formats/{name}", "found", lineterm="")
    assert text == before, "\n".join(("a format has changed; if that is meant: python -m tests.formats", *diff))
