"""Manifests as values: what the server stores and answers never changes; a write makes new ones that share what is the same.

A real server's answer belongs to its reader, who may change it. Here readers share it, so a change is refused, not seen later by
everybody else.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

Json = dict[str, Any]


class Manifest(dict[str, Any]):
    """A JSON object that cannot be changed. `{**manifest}` is one that can."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("an answer of the API server is shared with its other readers: make a new dict instead of changing it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = clear = update = setdefault = _refuse

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


_decode = json.JSONDecoder(object_hook=Manifest).decode
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def received(body: Mapping[str, Any]) -> tuple[Manifest, int]:
    """A request's body as it arrives, and its bytes; nothing in it is the sender's any more. Raises TypeError for what is no
    JSON."""
    text = _encode(body)
    made: Manifest = _decode(text)
    return made, len(text) if len(text) < 500_000 else len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def with_fields(manifest: Mapping[str, Any], **fields: Any) -> Manifest:
    """The same with other values; None: without the field."""
    made = {**manifest, **fields}
    return Manifest({key: value for key, value in made.items() if value is not None} if None in fields.values() else made)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = merged(made.get(key), value)
        else:
            made[key] = value
    return Manifest(made)
