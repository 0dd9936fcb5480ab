"""Running scripts on a connection that is kept: the library's client looks at one, and measures it, each time."""

from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError
from redis.retry import Retry

from baton.queues.redis.connection import RETRY
from baton.queues.redis.kept_connection import KeptConnection
from baton.queues.redis.scripts import Script
from baton.queues.redis.wire import Ask, packed


class ScriptRunner:
    """For one thread at a time."""

    def __init__(self, client: "redis.Redis") -> None:
        self._kept = KeptConnection(client)
        self._retry = Retry(**RETRY)

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """The script's answer; the server keeps the script after the first time. Raises the library's errors."""
        answer = self._ask(packed("EVALSHA", script.sha, len(keys), *keys, *arguments))
        if isinstance(answer, NoScriptError):
            answer = self._ask(packed("EVAL", script.text, len(keys), *keys, *arguments))
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    def close(self) -> None:
        self._kept.close()

    def _ask(self, written: bytes) -> Any:
        ask = Ask(written, 1)
        return self._retry.call_with_retry(lambda: self._kept.ask(ask), lambda _: None)[0]
