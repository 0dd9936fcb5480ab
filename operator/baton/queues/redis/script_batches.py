"""A script that acts on many partitions (scripts/many.lua), run for however many there are."""

from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError

from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.scripts import Script

MOST = 128
"""Partitions of one script. It ends earlier when that takes it long."""
_SCRIPTS = 16
"""In one round trip."""

Run = tuple[int, Sequence[str | int]]
"""The partition, and what the script is told of it."""


class ScriptBatches:
    """For one thread at a time."""

    def __init__(self, client: "redis.Redis", keys: Callable[[int], PartitionKeys]) -> None:
        """`keys`: of each partition."""
        self._client = client
        self._keys = keys

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

    def _ask(self, script: Script, parts: Sequence[Sequence[Run]], *, load: bool = False) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            if load:
                pipe.script_load(script.text)
            for runs in parts:
                keys = [key for partition, _ in runs for key in keys_of_ranges(self._keys(partition))]
                told = [word for _, words in runs for word in (len(words), *words)]
                pipe.evalsha(script.sha, len(keys) + 1, *keys, self._keys(runs[0][0]).never, *told)
            answers: list[Any] = pipe.execute(raise_on_error=False)
        if load and isinstance(refusal := answers.pop(0), ResponseError):
            raise refusal
        if not load and any(isinstance(answer, NoScriptError) for answer in answers):
            return self._ask(script, parts, load=True)  # those that were carried out may be asked twice
        return answers


def keys_of_ranges(keys: PartitionKeys) -> tuple[str, ...]:
    """What these scripts need of a partition; beside that, once, the key that is never there."""
    return keys.owner, keys.stream, keys.progress, keys.refused, keys.dead, keys.marks
