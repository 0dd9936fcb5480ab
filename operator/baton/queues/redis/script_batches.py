"""A script that acts on many partitions (scripts/many.lua), run for however many there are."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError
from redis.retry import Retry

from baton.queues.redis.connection import RETRY
from baton.queues.redis.kept_connection import KeptConnection
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.scripts import Script
from baton.queues.redis.wire import arguments, packed

MOST = 128
"""Partitions of one script. It ends earlier when that takes it long."""
_SCRIPTS = 16
"""In one round trip."""

_KEYS_OF_EACH = 6

Run = tuple[int, Sequence[str | int]]
"""The partition, and what the script is told of it."""


class ScriptBatches:
    """For one thread at a time."""

    def __init__(self, client: "redis.Redis", keys: Callable[[int], PartitionKeys]) -> None:
        """`keys`: of each partition."""
        self._kept = KeptConnection(client)
        self._retry = Retry(**RETRY)
        self._keys = keys
        self._packed: dict[int, bytes] = {}
        """By partition: its keys, as a request has them."""

    def run(self, script: Script, runs: Sequence[Run]) -> list[list[str]]:
        """The words that the script answers for each, in order; the server keeps the script after the first time. Raises the
        library's errors. What is refused with one is raised when all were asked."""
        answers: dict[int, list[str]] = {}
        refusal: ResponseError | None = None
        left = list(range(len(runs)))
        while left:
            at_once = MOST * _SCRIPTS
            parts = [left[begin : begin + MOST] for begin in range(0, min(len(left), at_once), MOST)]
            left = left[at_once:]
            for part, answer in zip(parts, self._ask(script, [[runs[nth] for nth in part] for part in parts]), strict=True):
                if isinstance(answer, ResponseError):
                    refusal = refusal or answer
                    continue
                lines = answer.decode().split("\n")
                answers.update((nth, line.split(" ")) for nth, line in zip(part, lines, strict=False))
                left = part[len(lines) :] + left
        if refusal is not None:
            raise refusal
        return [answers[nth] for nth in range(len(runs))]

    def close(self) -> None:
        self._kept.close()

    def _ask(self, script: Script, parts: Sequence[Sequence[Run]]) -> list[Any]:
        answers = self._carry(script, parts)
        if any(isinstance(answer, NoScriptError) for answer in answers):  # those that were carried out may be asked twice
            loaded, *answers = self._carry(script, parts, packed("SCRIPT", "LOAD", script.text))
            if isinstance(loaded, ResponseError):
                raise loaded
        return answers

    def _request(self, script: Script, runs: Sequence[Run]) -> bytes:
        """Of one script."""
        keys = [self._keys_of(partition) for partition, _ in runs]
        told = [word for _, words in runs for word in (len(words), *words)]
        count = 1 + len(runs) * _KEYS_OF_EACH
        head = arguments("EVALSHA", script.sha, count)
        never = arguments(self._keys(runs[0][0]).never)
        return b"".join([b"*%d\r\n" % (3 + count + len(told)), head, *keys, never, arguments(*told)])

    def _keys_of(self, partition: int) -> bytes:
        found = self._packed.get(partition)
        if found is None:
            found = self._packed[partition] = arguments(*keys_of_ranges(self._keys(partition)))
        return found

    def _carry(self, script: Script, parts: Sequence[Sequence[Run]], *before: bytes) -> list[Any]:
        def ask() -> list[Any]:
            return self._kept.ask_each(chain(before, (self._request(script, runs) for runs in parts)), len(before) + len(parts))

        return self._retry.call_with_retry(ask, lambda _: None)


def keys_of_ranges(keys: PartitionKeys) -> tuple[str, ...]:
    """What these scripts need of a partition; beside that, once, the key that is never there."""
    return keys.owner, keys.stream, keys.progress, keys.refused, keys.dead, keys.marks
