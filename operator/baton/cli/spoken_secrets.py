"""Secrets in free prose: `the password for redis, hunter2, was refused`. Pure.

What stands near the name of a secret, and does not look like a word, a short number, a time or an address, is hidden. A secret
that is a plain word (`try the password swordfish`) cannot be told from others.
"""

import re

HIDDEN = "***"
SECRET_WORDS = (
    r"(?:passw(?:or)?[dt]|passphrase|passcode|pass(?![a-z])|pwd|(?<![a-z])pw(?![a-z])|secret|token|credential|sessionid"
    r"|(?<![a-z])(?:auth|sig)(?![a-z])|(?:api|access|private|account|encryption)[-_. ]?key)"
)
"""The names of secrets, in small or capital letters."""
NO_OBJECT = r"(?!secrets \\?\"[^\"\s]{1,253}\\?\" (?:is forbidden|not found))"
"""That is what the API server says of a Secret, by the name of the object."""

_AFTER, _BEFORE = 12, 4
"""Words in which a secret is looked for behind its name, and before it (`hunter2 is the password`)."""
_LONGEST = 400
"""Characters of an address."""
_WORD = re.compile(r"\S+")
_NAME = re.compile(rf"(?<![\w.-]){NO_OBJECT}\w{{0,40}}?{SECRET_WORDS}s?\w{{0,40}}(?![\w/-])", re.IGNORECASE)
_JOIN = re.compile(r"(?:is|was|as|being)\W?", re.IGNORECASE)
_EDGES = "\"'`.,:;()[]{}<>!?\\*"
_ODD = re.compile(r"(?=.*[^\W\d_])(?=.*\d).{4}|\d{4}|.*[!@#$%^&+~].", re.DOTALL)
_PLAIN = re.compile(
    r"\d{4}-\d\d-\d\d(?:T[\d:.]{5,20}(?:Z|[+-][\d:]{4,5})?)?"
    r"|[a-z][a-z0-9+.-]{0,40}://(?:\*\*\*@)?[\w.-]+(?::\d{1,5})?(?:/[\w.-]{0,40})?(?:\?\*\*\*)?"
    r"|(?:[\w-]+\.)+(?:io|dev|svc|local|com|net|org)|(?:[\w-]+\.)+[\w-]+:\d{1,5}|[a-z_]{1,40}=\d{1,12}|[\d@,-]+@\d+",
    re.IGNORECASE,
)
"""A time, an address without its user, a number by its name, and partitions with their epochs."""


def without_spoken_secrets(text: str) -> str:
    """The text without what looks like a secret near the name of one."""
    ends = [match.end() for match in _NAME.finditer(text)]
    if not ends:
        return text
    words = list(_WORD.finditer(text))
    names = _holding(words, ends)
    near: set[int] = set()
    for name in names:
        before = range(max(0, name - _BEFORE), name)
        if any(_JOIN.fullmatch(words[place][0]) for place in before):
            near.update(before)
        near.update(range(name + 1, min(len(words), name + 1 + _AFTER)))
    pieces, end = [], 0
    for place in sorted(near - names):
        word = words[place]
        pieces += [text[end : word.start()], _hidden(word[0])]
        end = word.end()
    return "".join([*pieces, text[end:]])


def _holding(words: list[re.Match[str]], ends: list[int]) -> set[int]:
    """The places of the words in which these ends are."""
    found, place = set(), 0
    for end in ends:
        while words[place].end() < end:
            place += 1
        found.add(place)
    return found


def _hidden(word: str) -> str:
    """`***` for what looks like a secret, between the signs around it."""
    core = word.strip(_EDGES)
    if _ODD.match(core) is None or (len(core) <= _LONGEST and _PLAIN.fullmatch(core)):
        return word
    begin = word.index(core)
    return f"{word[:begin]}{HIDDEN}{word[begin + len(core) :]}"
