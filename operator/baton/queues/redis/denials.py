"""What an access control list has refused: which command, and on which key. A server names the line of a script, if that much."""

import re

from redis.exceptions import NoPermissionError, ResponseError

from baton.queues.redis import scripts
from baton.queues.redis.keys import PartitionKeys

_IN_SCRIPT = re.compile(r"The user executing the script can't|ACL failure in script")
_PLACE = re.compile(r"script: ([0-9a-f]{40}), on @user_script:([0-9]{1,5})")
_CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'(?:, '(CREATE|SETID|GROUPS)')?")
_KEY = re.compile(rf"\b(?:(QUEUE|KEYS\[1\])|({'|'.join(name.upper() for name in PartitionKeys._fields)}))(?![A-Z'])")
_COMMAND = re.compile(r"to run the '([a-z|]{1,40})' command")


def is_denial(error: Exception) -> bool:
    """The server's access control list does not let the user do it."""
    return isinstance(error, NoPermissionError) or (isinstance(error, ResponseError) and bool(_IN_SCRIPT.search(str(error))))


def denied(error: Exception, queue: str) -> str:
    """What was denied, as in "XADD on pq:{shop/orders}:…:stream"."""
    text = str(error)
    if found := _PLACE.search(text):
        return _line(found[1], found[2], queue)
    return denied_command(error) or f"the keys pq:{{{queue}}}:…"


def denied_command(error: Exception) -> str | None:
    """None: what was denied is a key."""
    found = _COMMAND.search(str(error))
    return found[1].replace("|", " ").upper() if found else None


def _line(sha: str, number: str, queue: str) -> str:
    script = next((one for one in scripts.ALL if one.sha == sha), None)
    lines = script.text.splitlines() if script else []
    begins = "\n".join(lines[int(number) - 1 :][:3])
    call = _CALL.search(begins)
    if call is None:
        return f"a command on the keys pq:{{{queue}}}:…"
    command = " ".join(word for word in call.groups() if word)
    key = _KEY.search(begins, call.end())
    if key is None:
        return command
    return f"{command} on pq:{{{queue}}}:" + ("queue" if key[1] else f"…:{key[2].lower()}")
