"""What must not leave a cluster in a bundle: passwords, tokens and the like, wherever somebody may have written them. Pure.

Secrets, the environment of containers, and entries of queues are not read at all. This is for the texts that are read: fields,
messages, events and logs. It may hide too much.
"""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_WORDS = r"(?:passw(?:or)?[dt]|passphrase|pass(?![a-z])|pwd|secret|token|credential|(?:api|access|private)[-_. ]?key)"
_NAME = re.compile(_WORDS, re.IGNORECASE)
_REFERENCE = re.compile(r"(?:ref|refs|name)$", re.IGNORECASE)
"""A field that only names a Secret."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,40}"
_QUOTED = r"(?:[\w.]{0,40}[\[({]{1,9}|[a-z]{1,2})?(?P<quote>\\{0,9}[\"'])(?:.*?(?<!\\)(?P=quote)|[^\n]*)"
"""Also within another text, where quotes have backslashes; as Python prints bytes and calls; and cut off before its end."""
_VALUE = rf"(?:\*\*\*(?!\w)|{_QUOTED}|(?:[^\s\"]|\"(?![\s,}}\]:]|\Z))+)"
_IS = r"\\{0,9}[\"']?\s*(?:[:=]+>?|->|%3D|\\u003d|,(?=\s*[\"'])|\b(?:is|was)\b:?)\s*(?:[|>][+-]?[^\S\n]*\n\s*)?"
_RULES = (
    (re.compile(r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(rf"({_SCHEME}://)[^\s\"]{{0,4000}}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(rf"({_SCHEME}://[^\s/@:\"\[]*:)(?!\d+(?:[^\w@]|\Z))[^\s\"]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"({_SCHEME}://[^\s?#\"'<>]*)[?#][^\s\"'<>]*", re.IGNORECASE), rf"\1?{HIDDEN}"),
    (re.compile(rf"(\b(?:authorization|cookie)\\{{0,9}}[\"']?\s*[:=]\s*)(?:{_QUOTED}|[^\n\"]+)", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)[\s:=]+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"(?<![\w-])(?=[\w-]*eyJ[\w-]{5})[\w-]++\.[\w-]{5,}+(?:\.[\w-]*+)?"), HIDDEN),
    (re.compile(rf"({_WORDS}[\w.-]{{0,60}}{_IS}){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"((?<!\S)-[\w.-]{{0,60}}?{_WORDS}[\w.-]{{0,60}}\s+){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
)
"""In this order. Of a URL go the user, the password, also where it is cut off before its host, and the query."""


def hidden(text: str) -> str:
    """The text without what looks like a secret, and without colours of a terminal: they part a name from its value."""
    text = _COLOUR.sub("", text)
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def without_secrets(value: Any) -> Any:
    """A JSON value in which every text is `hidden`, and so is every field whose name is that of a secret."""
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, Mapping):
        return {hidden(str(name)): _field(str(name), one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(one) for one in value]
    return value


def _field(name: str, value: Any) -> Any:
    is_secret = _NAME.search(name) is not None and _REFERENCE.search(name) is None
    return _nothing_of(value) if is_secret else without_secrets(value)


def _nothing_of(value: Any) -> Any:
    """Its form alone."""
    if isinstance(value, Mapping):
        return {hidden(str(name)): _nothing_of(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_nothing_of(one) for one in value]
    return value if value is None or isinstance(value, bool) else HIDDEN


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What Baton reads of an object's metadata. Other labels and annotations are anybody's: kubectl keeps manifests in one."""
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    own = {what: {key: text for key, text in (metadata.get(what) or {}).items() if _is_own(key)} for what in _MAPS}
    return {**kept, **{what: those for what, those in own.items() if those}}


_METADATA = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "finalizers")
_MAPS = ("labels", "annotations")


def _is_own(key: str) -> bool:
    return key.startswith(("baton.dev/", "app.kubernetes.io/", "spark-"))
