"""The refusal of a request: the path of a field, and one sentence."""

import json

LONGEST_PATH = 300
"""Characters. Names in a path may be of any length."""


class RequestError(ValueError):
    """A refused request. The message is one line that names the field, what is wrong and what is right."""

    def __init__(self, path: str, sentence: str) -> None:
        words = f"{_cut(path, LONGEST_PATH)}: {sentence}" if path else sentence
        super().__init__("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words))


def shown(value: object) -> str:
    """The value as it stands in the request, at most 60 characters of it."""
    text = json.dumps(value, ensure_ascii=False)
    return _cut(text, 60)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
