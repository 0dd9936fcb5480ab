"""How a request is refused: by the path of the field, and one sentence."""

import json

LONGEST_PATH = 300
"""Characters; names in it may be of any length."""


class RequestError(ValueError):
    """A request that is refused. The message is one line and names the field, what is wrong and what would be right."""

    def __init__(self, path: str, sentence: str) -> None:
        words = f"{_cut(path, LONGEST_PATH)}: {sentence}" if path else sentence
        super().__init__("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words))


def shown(value: object) -> str:
    """The value as it stands in the request, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return _cut(text, 60)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
