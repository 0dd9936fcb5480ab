"""How entries are asked to be added, and what is answered: the same for threads and tasks."""

import logging
from collections.abc import Sequence
from re import ASCII, fullmatch

from redis.exceptions import NoScriptError, RedisError

from baton.queues.redis import scripts
from baton.queues.redis.connection import Command
from baton.queues.redis.explanations import absent, explain, passing
from baton.queues.redis.keys import entry_id, partition_keys, queue_key
from baton.queues.redis.outbox import Outbox, Round, Waiting
from baton.queues.redis.records import OddAnswerError, fields
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.url import RedisUrl

log = logging.getLogger(__name__)

_REPLICAS_WITHIN = 1000
"""Milliseconds that replicas have, before the same is tried again."""
_BY_SHA = (b"EVALSHA", scripts.ADD.sha.encode())


class AddScript:
    """To one queue."""

    def __init__(self, url: RedisUrl, queue: str, replicas: int) -> None:
        """`replicas`: so many are to have an entry before it counts as sent."""
        self._url, self._queue, self._replicas = url, queue, replicas
        self._heads: dict[int, Sequence[bytes]] = {}
        """By partition: what its requests begin with. As bytes, for of a text the library takes as long as for all else."""
        self._loaded = True
        """The server has not said that it does not know the script: else that is sent with its text."""
        self._told = False

    def request(self, what: Round | None) -> Sequence[Command]:
        """What to ask to do what `Outbox.next` says: one script for each partition."""
        if what is None:
            return [("HMGET", queue_key(self._queue), "version", "table")]
        commands = [self._script(partition, batch) for partition, batch in what.items()]
        if self._replicas:
            commands.append(("WAIT", self._replicas, _REPLICAS_WITHIN))
        return commands

    def answered(self, outbox: Outbox, what: Round | None, answers: Sequence[object] | Exception, now: float) -> None:
        """Tell the outbox what the answers mean. A RedisError or OSError: there are none."""
        if isinstance(answers, Exception):
            answers = [answers] * (1 if what is None else len(what))
        if what is None:
            self._routed(outbox, answers[0], now)
            return
        by_sha, self._loaded = self._loaded, not any(isinstance(answer, NoScriptError) for answer in answers)
        if len(answers) > len(what) and (why := self._too_few(answers[-1])):
            for partition in what:
                outbox.failed(partition, self._waits(why), now, passing=True)
        else:
            if not any(isinstance(answer, Exception) for answer in answers):
                self._told = False
            for partition, answer in zip(what, answers, strict=False):
                try:
                    outbox.answered(partition, *_read(answer, len(what[partition])), now)
                except (RedisError, OSError) as error:
                    why, again = explain(error, self._url, self._queue), passing(error)
                    if by_sha and isinstance(error, NoScriptError):
                        outbox.repeat(partition)
                    else:
                        outbox.failed(partition, self._waits(why) if again else why, now, passing=again)

    def _routed(self, outbox: Outbox, answer: object, now: float) -> None:
        """What the table's answer means."""
        try:
            version, text = fields(2)(_accepted(answer))
            if version is None or text is None:
                outbox.routed(None, self._waits(absent(self._url, "queue", self._queue)), now)
                return
            table = RoutingTable.from_text(int(version), text.decode())
        except (RedisError, OSError) as error:
            why = explain(error, self._url, self._queue)
            if passing(error):
                outbox.routed(None, self._waits(why), now)
            else:
                outbox.give_up(list(outbox.open), why)
        except ValueError:
            odd = OddAnswerError("a foreign record: its table")
            outbox.give_up(list(outbox.open), explain(odd, self._url, self._queue))
        else:
            outbox.routed(table, "", now)

    def _waits(self, why: str) -> str:
        """Entries are tried again, and why. That is logged once, until some are taken."""
        if not self._told:
            log.warning("What is sent to %s waits. %s", self._queue, why)
        self._told = True
        return why

    def _script(self, partition: int, batch: Sequence[Waiting]) -> Command:
        if (head := self._heads.get(partition)) is None:
            keys = partition_keys(self._queue, partition)
            head = self._heads[partition] = [str(word).encode() for word in (len(keys), *keys)]
        how = _BY_SHA if self._loaded else (b"EVAL", scripts.ADD.text)
        words: list[bytes | str | int] = [*how, *head, batch[0].producer]
        for entry in batch:
            words += (entry.slot or 0, entry.sequence, entry.key, entry.value, entry.headers)
        return words

    def _too_few(self, answer: object) -> str | None:
        if isinstance(answer, Exception):
            return explain(answer, self._url, self._queue)
        if isinstance(answer, int) and answer >= self._replicas:
            return None
        return (
            f"{self._url.place} has what was sent to {self._queue}, but only {answer} of {self._replicas} replicas had it within "
            f"{_REPLICAS_WITHIN} ms. See its replicas, or ask for fewer (replicas=)."
        )


def _accepted(answer: object) -> object:
    """Raises what it was refused with."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def _read(answer: object, count: int) -> tuple[str, list[str]]:
    """Codes and offsets (script add)."""
    if isinstance(answer, int):
        return "a" * count, [entry_id(number) for number in range(answer, answer + count)]
    codes, numbers = ((part or b"").decode("latin-1") for part in fields(2)(_accepted(answer)))
    if len(codes) != count or not fullmatch(r"[asdmw]*", codes) or not fullmatch(r"[0-9 ]*", numbers, ASCII):
        raise OddAnswerError("no codes where they belong")
    offsets = [entry_id(int(number)) for number in numbers.split()]
    if len(offsets) != codes.count("a"):
        raise OddAnswerError("fewer numbers than were added")
    return codes, offsets
