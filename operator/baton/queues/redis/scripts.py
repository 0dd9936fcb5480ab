"""The Lua scripts that act on a partition, each atomically at the server (scripts/*.lua).

They need Redis 7.0: scripts that empty a queue have the flag `allow-oom`, as otherwise a full Redis could never be emptied.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha1
from importlib import resources
from typing import Any, NamedTuple

import redis
from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^--@include (\w+)\n", re.MULTILINE)
_SCRIPT = re.compile(r"^--@script (\w+)\n", re.MULTILINE)


class Script(NamedTuple):
    """A script's text, and the SHA-1 under which the server keeps it."""

    text: str
    sha: str

    def run(self, client: "redis.Redis", keys: Sequence[str], arguments: Sequence[Any] = ()) -> Any:
        """Run the script and return its answer. The server caches the script at its first run."""
        try:
            return client.evalsha(self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return client.eval(self.text, len(keys), *keys, *arguments)


def _texts() -> Mapping[str, str]:
    """Return the text of each script, and of the files that scripts include, by name."""
    found = {}
    for file in (resources.files("baton.queues.redis") / "scripts").iterdir():
        before, *named = _SCRIPT.split(file.read_text(encoding="utf-8"))
        found[file.name.removesuffix(".lua")] = before
        found.update(zip(named[::2], (text.rstrip() + "\n" for text in named[1::2]), strict=True))
    return found


_TEXTS = _texts()


def _text(name: str) -> str:
    return _INCLUDE.sub(lambda include: _text(include[1]), _TEXTS[name])


def _load(name: str) -> Script:
    text = _text(name)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


ACK = _load("ack")
ADD = _load("add")
AHEAD = _load("ahead")
ANNOUNCE = _load("announce")
ASIDE = _load("aside")
BEGIN = _load("begin")
BOUNDS = _load("bounds")
CHECK = _load("check")
CLAIM = _load("claim")
CREATE = _load("create")
DRAINED = _load("drained")
FENCE = _load("fence")
FINISH = _load("finish")
GRANT = _load("grant")
LETTERS = _load("letters")
LOG = _load("log")
OPEN = _load("open")
OFFSETS = _load("offsets")
OUTSTANDING = _load("outstanding")
PAUSE = _load("pause")
PUBLISH = _load("publish")
READ = _load("read")
REACH = _load("reach")
READING = _load("reading")
READY = _load("ready")
RECALL = _load("recall")
RELEASE = _load("release")
REMEMBER = _load("remember")
RESIZE = _load("resize")
RESIZED = _load("resized")
RETRY = _load("retry")
SEAL = _load("seal")
SEQUENCES = _load("sequences")
SKIP = _load("skip")
SLOTS = _load("slots")
UNBLOCK = _load("unblock")
VERIFY = _load("verify")

ALL = tuple(value for value in globals().copy().values() if isinstance(value, Script))
