"""Requests that add entries, and the meaning of their answers: shared by the producers for threads and for tasks."""

import logging
from collections.abc import Sequence
from re import ASCII, fullmatch

from redis.exceptions import NoScriptError, RedisError

from baton.queues.redis import scripts
from baton.queues.redis.connection import Command
from baton.queues.redis.explanations import absent, explain, passing
from baton.queues.redis.keys import entry_id, partition_keys, queue_key
from baton.queues.redis.outbox import Outbox, OutgoingEntry, Round
from baton.queues.redis.records import ForeignRecord, OddAnswerError, fields
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.url import RedisUrl

log = logging.getLogger(__name__)

_REPLICAS_WITHIN = 1000
"""Milliseconds to wait for replicas before the request is repeated."""
_BY_SHA = (b"EVALSHA", scripts.ADD.sha.encode())


class AddScript:
    """Adds entries to one queue."""

    def __init__(self, url: RedisUrl, queue: str, replicas: int) -> None:
        """`replicas`: number of replicas that must have an entry before it counts as sent."""
        self._url, self._queue, self._replicas = url, queue, replicas
        self._heads: dict[int, Sequence[bytes]] = {}
        """By partition, the beginning of its requests. Encoded, as encoding it each time takes the library as long as everything
        else."""
        self._loaded = True
        """Whether the server is assumed to know the script. Otherwise requests carry its text."""
        self._logged = False

    def request(self, what: Round | None) -> Sequence[Command]:
        """Return the commands for a result of `Outbox.next`: one script for each partition."""
        if what is None:
            return [("HMGET", queue_key(self._queue), "version", "table")]
        commands = [self._script(partition, batch) for partition, batch in what.items()]
        if self._replicas:
            commands.append(("WAIT", self._replicas, _REPLICAS_WITHIN))
        return commands

    def answered(self, outbox: Outbox, what: Round | None, answers: Sequence[object] | Exception, now: float) -> None:
        """Pass the answers to the outbox. `answers` is a RedisError or OSError if none came."""
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
                self._logged = False
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
        """Pass the answer with the routing table to the outbox."""
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
            outbox.give_up(list(outbox.open), explain(ForeignRecord("table"), self._url, self._queue))
        else:
            outbox.routed(table, "", now)

    def _waits(self, why: str) -> str:
        """Log that entries wait and why, once until some are accepted. Returns the reason."""
        if not self._logged:
            log.warning("Entries to %s wait. %s", self._queue, why)
        self._logged = True
        return why

    def _script(self, partition: int, batch: Sequence[OutgoingEntry]) -> Command:
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
            f"{self._url.place} has the entries sent to {self._queue}, but only {answer} of {self._replicas} replicas had them "
            f"within {_REPLICAS_WITHIN} ms. Check its replicas, or ask for fewer (replicas=)."
        )


def _accepted(answer: object) -> object:
    """Return the answer, or raise it if it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def _read(answer: object, count: int) -> tuple[str, list[str]]:
    """Parse an answer of the script add into its codes and offsets."""
    if isinstance(answer, int):
        return "a" * count, [entry_id(number) for number in range(answer, answer + count)]
    codes, numbers = ((part or b"").decode("latin-1") for part in fields(2)(_accepted(answer)))
    if len(codes) != count or not fullmatch(r"[asdmw]*", codes) or not fullmatch(r"[0-9 ]*", numbers, ASCII):
        raise OddAnswerError("no codes where they belong")
    offsets = [entry_id(int(number)) for number in numbers.split()]
    if len(offsets) != codes.count("a"):
        raise OddAnswerError("another count of numbers than of added entries")
    return codes, offsets
