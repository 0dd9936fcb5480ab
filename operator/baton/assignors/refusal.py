"""How a request is refused: by the path of the field, and one sentence."""

import json


class RequestError(ValueError):
    """A request that is refused. The message names the field, what is wrong and what would be right."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}" if path else sentence)


def shown(value: object) -> str:
    """The value as it stands in the request, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"
