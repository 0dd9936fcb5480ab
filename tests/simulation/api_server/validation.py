"""What an object may be: the limits that the API server sets on every object, and a few of the kinds' own.

The schemas of the custom resources are left out: a spec of theirs may be anything here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from tests.simulation.api_server.kinds import CONFIG_MAPS, EVENTS, LEASES, Kind
from tests.simulation.api_server.refusals import Mistake, Refused, bad_request, invalid

REQUEST_LIMIT = 3 * 1024 * 1024
"""Bytes of a request."""
STORED_LIMIT = 1536 * 1024
"""Bytes of an object in etcd."""
DATA_LIMIT = 1024 * 1024
"""Bytes of a ConfigMap's values."""
ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of an object's annotations, keys and values."""
LONGEST_LABEL = 63
LONGEST_NAME = 253

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_RULE = "must consist of certain characters"
"""The real server says which."""


def check(kind: Kind, name: str, manifest: Mapping[str, Any]) -> None:
    """Raises Refused: 400 where a text is none, 422 with every mistake otherwise."""
    metadata = manifest["metadata"]
    for field in ("labels", "annotations"):
        _texts(kind, f"metadata.{field}", metadata.get(field))
    if kind is CONFIG_MAPS:
        _texts(kind, "data", manifest.get("data"))
    elif kind is LEASES:
        _lease_types(kind, manifest.get("spec") or {})
    mistakes = [*_metadata(name, metadata), *_OF_KIND.get(kind, _nothing)(manifest)]
    if mistakes:
        raise invalid(kind, name, mistakes)


_TYPES = {"holderIdentity": str, "leaseDurationSeconds": int, "leaseTransitions": int, "acquireTime": str, "renewTime": str}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _lease_types(kind: Kind, spec: Mapping[str, Any]) -> None:
    for field, type_ in _TYPES.items():
        value = spec.get(field)
        if type(value) is int and not -(2**31) <= value < 2**31:
            raise _not_read(kind, f"{kind.name}Spec.spec.{field}")
        if value is not None and (type(value) is not type_ or (field.endswith("Time") and _TIME.fullmatch(str(value)) is None)):
            raise _not_read(kind, f"{kind.name}Spec.spec.{field}")


def _not_read(kind: Kind, field: str) -> Refused:
    of = f'{kind.name} in version "{kind.group_version.rpartition("/")[2]}" cannot be handled as a {kind.name}'
    return bad_request(f"{of}: json: cannot unmarshal a value into Go struct field {field}")


def check_change(kind: Kind, name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises Refused (422) for a change of what was declared immutable."""
    if kind is CONFIG_MAPS and before.get("immutable"):
        fields = [field for field in ("immutable", "data", "binaryData") if after.get(field) != before.get(field)]
        if fields:
            why = "field is immutable when `immutable` is set"
            raise invalid(kind, name, [Mistake(field, "Forbidden", why) for field in fields])


def _texts(kind: Kind, field: str, values: Any) -> None:
    if values is not None and not (isinstance(values, dict) and all(type(value) is str for value in values.values())):
        raise _not_read(kind, f"{kind.name}.{field} of type string")


def _metadata(name: str, metadata: Mapping[str, Any]) -> Iterator[Mistake]:
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        yield Mistake("metadata.name", "Invalid", _RULE, f'"{name}"')
    for key, value in (metadata.get("labels") or {}).items():
        yield from _key("metadata.labels", key)
        if len(value.encode()) > LONGEST_LABEL:
            yield Mistake("metadata.labels", "TooLong", f"may not be more than {LONGEST_LABEL} bytes")
        if _LABEL_VALUE.fullmatch(value) is None:
            yield Mistake("metadata.labels", "Invalid", _RULE, f'"{value}"')
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _key("metadata.annotations", key.lower())
    if _size(annotations) > ANNOTATIONS_LIMIT:
        yield Mistake("metadata.annotations", "TooLong", f"may not be more than {ANNOTATIONS_LIMIT} bytes")
    for owner in metadata.get("ownerReferences") or ():
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                what = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield Mistake(f"metadata.ownerReferences.{field}", "Invalid", what, '""')
    for finalizer in metadata.get("finalizers") or ():
        yield from _key("metadata.finalizers", finalizer)


@lru_cache(maxsize=1000)
def _key(field: str, key: str) -> tuple[Mistake, ...]:
    return tuple(_of_key(field, key))


def _of_key(field: str, key: str) -> Iterator[Mistake]:
    prefix, slash, name = key.rpartition("/")
    if slash and _NAME.fullmatch(prefix) is None:
        yield Mistake(field, "Invalid", _RULE, f'"{key}"')
    if len(name) > LONGEST_LABEL:
        yield Mistake(field, "Invalid", f"name part must be no more than {LONGEST_LABEL} bytes", f'"{key}"')
    if _QUALIFIED.fullmatch(name) is None:
        yield Mistake(field, "Invalid", _RULE, f'"{key}"')


def _size(texts: Mapping[str, str]) -> int:
    rough = sum(map(len, texts)) + sum(map(len, texts.values()))
    return (
        rough if rough * 4 <= ANNOTATIONS_LIMIT else sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())
    )


def _nothing(manifest: Mapping[str, Any]) -> Iterator[Mistake]:
    return iter(())


def _config_map(manifest: Mapping[str, Any]) -> Iterator[Mistake]:
    data = manifest.get("data") or {}
    yield from _data_keys(data)
    if sum(map(len, data.values())) * 4 > DATA_LIMIT and sum(len(value.encode()) for value in data.values()) > DATA_LIMIT:
        yield Mistake("[]", "TooLong", f"may not be more than {DATA_LIMIT} bytes")


def _data_keys(data: Mapping[str, Any]) -> Iterator[Mistake]:
    for key in data:
        if len(key) > LONGEST_NAME or _DATA_KEY.fullmatch(key) is None:
            yield Mistake(f"data[{key}]", "Invalid", _RULE, f'"{key}"')


def _lease(manifest: Mapping[str, Any]) -> Iterator[Mistake]:
    spec = manifest.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield Mistake("spec.leaseDurationSeconds", "Invalid", "must be greater than 0", str(duration))
    if transitions is not None and transitions < 0:
        yield Mistake("spec.leaseTransitions", "Invalid", "must be greater than or equal to 0", str(transitions))


def _event(manifest: Mapping[str, Any]) -> Iterator[Mistake]:
    if not manifest.get("eventTime"):
        yield Mistake("eventTime", "Required", "")
    for field, limit in (("reportingController", None), ("reportingInstance", 128), ("action", 128), ("reason", 128)):
        value = str(manifest.get(field) or "")
        if not value:
            yield Mistake(field, "Required", "")
        elif limit is not None and len(value.encode()) > limit:
            yield Mistake(field, "Invalid", f"can have at most {limit} characters", f'"{value}"')
    if len(str(manifest.get("note") or "").encode()) > 1024:
        yield Mistake("message", "Invalid", "can have at most 1024 characters", '""')


_OF_KIND: dict[Kind, Callable[[Mapping[str, Any]], Iterator[Mistake]]] = {
    CONFIG_MAPS: _config_map,
    LEASES: _lease,
    EVENTS: _event,
}
