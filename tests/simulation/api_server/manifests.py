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


_decode = json.JSONDecoder(object_hook=Manifest).raw_decode
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def received(body: Mapping[str, Any] | list[Json]) -> tuple[Any, int]:
    """A request's body as it arrives, and its bytes; nothing in it is the sender's any more. Raises TypeError for what is no
    JSON."""
    text = _encode(body)
    return _decode(text)[0], len(text)


def size(manifest: Mapping[str, Any]) -> int:
    """Bytes, as it is stored."""
    return len(json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode())


def with_fields(manifest: Mapping[str, Any], **fields: Any) -> Manifest:
    """The same with other values; None: without the field."""
    made = {**manifest, **fields}
    return Manifest({key: value for key, value in made.items() if value is not None} if None in fields.values() else made)


def patched(target: Manifest, operations: list[Json]) -> Manifest | None:
    """RFC 6902, of objects only; None where a test fails or a path leads nowhere."""
    made: Any = target
    for one in operations:
        made = _operated(made, [word.replace("~1", "/").replace("~0", "~") for word in one["path"].split("/")[1:]], one)
        if made is None:
            return None
    return Manifest(made)


def _operated(target: Any, path: list[str], one: Json) -> Manifest | None:
    if not isinstance(target, dict) or (path[0] not in target and (len(path) > 1 or one["op"] != "add")):
        return None
    if len(path) > 1:
        within = _operated(target[path[0]], path[1:], one)
        return None if within is None else Manifest({**target, path[0]: within})
    match one["op"]:
        case "test":
            return Manifest(target) if target[path[0]] == one["value"] else None
        case "remove":
            return Manifest({field: value for field, value in target.items() if field != path[0]})
        case "add" | "replace":
            return Manifest({**target, path[0]: one["value"]})
    raise ValueError(f"a JSON patch cannot {one['op']} here")


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
