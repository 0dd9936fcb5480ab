"""Remove passwords, tokens and the like from the texts of a bundle. Pure.

Secrets, the environment of containers, and entries of queues are not read at all. This is for the texts that are read: fields,
messages, events and logs. It may hide too much.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

HIDDEN = "***"
SECRET_WORDS = (
    r"(?:passw(?:or)?[dt]|passphrase|passcode|pass(?![a-z])|pwd|(?<![a-z])pw(?![a-z])|secret|token|credential|sessionid"
    r"|(?<![a-z])(?:auth|sig)(?![a-z])|(?:api|access|private|account|encryption)[-_. ]?key)"
)
"""Names of secrets, to be matched regardless of case."""
NO_OBJECT = (
    r"(?!secrets \\?\"[^\"\s]{1,253}\\?\" (?:is forbidden|not found)"
    r"|(?<=rbac\.)secrets\.[a-z0-9-]{1,63} to \[[a-z0-9.-]{1,253}\], or give|password: put the URL into a Secret)"
)
"""Not a message of the API server or of Baton about a Secret object, which contains only its name."""

_NAME = re.compile(SECRET_WORDS, re.IGNORECASE)
_REFERENCE = re.compile(r"(?:ref|refs|name)$", re.IGNORECASE)
"""A field that only names a Secret."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")

_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,40}"
_NO_PORT = r"[^\s/@:\"\[]*:(?!\d+(?:[^\w@]|\Z))"
_QUOTED = r"(?:[\w.]{0,40}[\[({]{1,9}|[a-z]{1,2})?(?P<quote>\\{0,9}[\"'`])(?:.*?(?<!\\)(?P=quote)|[^\n]*)"
"""A quoted text: also inside another, with escaped quotes; as Python prints bytes and calls; and without its end."""
_VALUE = rf"(?:\*\*\*(?!\w)|{_QUOTED}|(?:[^\s\"]|\"(?![\s,}}\]:]|\Z))+)"
_BLANK = r"[^\S\n]{1,9}"
_SIGNS = r"\s*(?:[:=]+>?|->|[~|–—]|%3D|\\u003d|,(?=\s*[\"'])|\[|(?=\())"
_IS = rf"\\{{0,9}}[\"'`]?(?:{_SIGNS}|{_BLANK}(?:is|was|to)\b:?+|{_BLANK}(?=\\{{0,9}}[\"'`]))\s*+(?:[|>][+-]?[^\S\n]*\n\s*)?"
"""The separator between the name of a secret and the secret."""
_NO_STATE = r"(?!(?:missing|expired|invalid|required|empty|wrong|true|false|none|null)[.,;)]*(?:\s|\Z))"
"""Not the end of a sentence such as "its Secret is missing"."""
_COMMANDS = r"(?:\b(?:requirepass|masterauth)\b|\bredis-cli\b[^\n]{0,200}? -a)"
_KEYS = (
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|hv[sbr]\.[\w-]{20,}|ya29\.[\w-]{10,}|(?:glpat|xox[a-z]|sk)-[\w-]{10,}"
    r"|(?:gh[opusr]|npm|dckr_pat|github_pat|[srp]k_live|[srp]k_test)_\w{16,}"
)
"""Keys of known forms: of AWS, Google, Vault, GitLab, Slack, OpenAI, GitHub, npm, Docker and Stripe."""
_MIXED = r"(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{40}(?![\w+/=])"
"""The form of AWS's secret keys."""


def _without_query(url: re.Match[str]) -> str:
    """Remove the query of a URL. URLs without one match, too: else each `://` inside would be searched up to the URL's end."""
    return f"{url[1]}?{HIDDEN}" if url[2] else url[0]


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"-{4,5} ?BEGIN [^-]*-{4,5}.*?(?:-{4,5} ?END [^-]*-{4,5}|\Z)", re.DOTALL), HIDDEN),
    (re.compile(rf"({_SCHEME}://)[^\s\"]{{0,4000}}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(rf"({_SCHEME}://){_NO_PORT}[^\n@]{{0,200}}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(rf"({_SCHEME}://{_NO_PORT})[^\s\"]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"({_SCHEME}%3A%2F%2F)[^\s\"]{{0,4000}}%40", re.IGNORECASE), rf"\1{HIDDEN}%40"),
    (re.compile(rf"({_SCHEME}://[^\s?#\"'<>]*+)([?#][^\s\"'<>]*)?", re.IGNORECASE), _without_query),
    (re.compile(r"(?<![^\s\"'`=(,;/])[^\s\"'`=(,;/@:]{0,100}:[^\s\"'`/@]{1,400}@(?=[\w\[])"), rf"{HIDDEN}@"),
    (re.compile(rf"(\b(?:authorization|cookie)\\{{0,9}}[\"']?\s*[:=]\s*)(?:{_QUOTED}|[^\n\"]+)", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)[\s:=]+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"(?<![\w-])(?=[\w-]*eyJ[\w-]{5})[\w-]++\.[\w-]*+(?:\.[\w-]*+){0,3}"), HIDDEN),
    (re.compile(rf"(?<![A-Za-z0-9+/])(?:{_KEYS})"), HIDDEN),
    (re.compile(rf"(?<![\w+/]){_MIXED}"), HIDDEN),
    (re.compile(r"(\bAUTH\b|\bSETUSER\b|\buser \S{1,100} (?:on|off)\b)[^\n\"]+"), rf"\1 {HIDDEN}"),
    (re.compile(rf"({_COMMANDS}{_BLANK}){_VALUE}"), rf"\1{HIDDEN}"),
    (re.compile(r"((?<!\S)-u\s+)[^\s:]{0,100}:\S+"), rf"\1{HIDDEN}"),
    (re.compile(rf"({NO_OBJECT}{SECRET_WORDS}[\w.-]{{0,60}}{_IS}){_NO_STATE}{_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"((?<!\S)-[\w.-]{{0,60}}?{SECRET_WORDS}[\w.-]{{0,60}}\s+){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
)
"""The rules in their order. URLs lose the user, the password (also if the URL is cut before its host) and the query."""


def hidden(text: str) -> str:
    """The text without what looks like a secret, and without terminal colours, which could separate a name from its value."""
    text = _COLOUR.sub("", text)
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def without_secrets(value: Any) -> Any:
    """The JSON value with every text redacted by `hidden`, and without the values of fields named like a secret."""
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
    """The structure of the value, with every text and number hidden."""
    if isinstance(value, Mapping):
        return {hidden(str(name)): _nothing_of(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_nothing_of(one) for one in value]
    return value if value is None or isinstance(value, bool) else HIDDEN


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that Baton reads. Other annotations may contain anything: kubectl keeps manifests in one."""
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    own = {what: {key: text for key, text in (metadata.get(what) or {}).items() if _is_own(key)} for what in _MAPS}
    return {**kept, **{what: those for what, those in own.items() if those}}


_METADATA = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "finalizers")
_MAPS = ("labels", "annotations")


def _is_own(key: str) -> bool:
    return key.startswith(("baton.dev/", "app.kubernetes.io/", "spark-"))
