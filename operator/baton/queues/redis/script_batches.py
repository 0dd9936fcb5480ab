"""A script, run for many partitions in few round trips."""

from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError
from redis.retry import Retry

from baton.queues.redis.add_script import Ask
from baton.queues.redis.connection import RETRY
from baton.queues.redis.kept_connection import KeptConnection
from baton.queues.redis.script_runner import packed
from baton.queues.redis.scripts import Script

MOST = 256
"""Runs in one round trip: so few that the server is free for others after some milliseconds."""

Run = tuple[Sequence[str], Sequence[str | int]]
"""Keys and arguments."""


class ScriptBatches:
    """For one thread at a time."""

    def __init__(self, client: "redis.Redis") -> None:
        self._kept = KeptConnection(client)
        self._retry = Retry(**RETRY)

    def run(self, script: Script, runs: Sequence[Run]) -> list[Any]:
        """The answers, in order; the server keeps the script after the first time. Raises the library's errors. What is refused
        with one is raised when all were asked."""
        answers: list[Any] = []
        for start in range(0, len(runs), MOST):
            answers += self._ask(script, runs[start : start + MOST])
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise answer
        return answers

    def close(self) -> None:
        self._kept.close()

    def _ask(self, script: Script, runs: Sequence[Run]) -> list[Any]:
        asked = [packed("EVALSHA", script.sha, len(keys), *keys, *arguments) for keys, arguments in runs]
        answers = self._carry(Ask(b"".join(asked), len(asked)))
        if any(isinstance(answer, NoScriptError) for answer in answers):  # those that were carried out may be asked twice
            load = packed("SCRIPT", "LOAD", script.text)
            loaded, *answers = self._carry(Ask(load + b"".join(asked), 1 + len(asked)))
            if isinstance(loaded, ResponseError):
                raise loaded
        return answers

    def _carry(self, ask: Ask) -> list[Any]:
        return self._retry.call_with_retry(lambda: self._kept.ask(ask), lambda _: None)
