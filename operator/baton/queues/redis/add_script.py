"""How entries are asked to be added, and what is answered: the same for threads and tasks."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from re import ASCII, fullmatch

from redis.exceptions import NoScriptError, RedisError, ResponseError

from baton.queues.redis import scripts
from baton.queues.redis.connection import Command
from baton.queues.redis.explanations import absent, explain, passing
from baton.queues.redis.keys import entry_id, partition_keys, queue_key
from baton.queues.redis.outbox import Outbox, ReadTable, Round, Waiting
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
        self._table = [("HMGET", queue_key(queue), "version", "table")]
        self._told = False

    def step(
        self, outbox: Outbox, what: ReadTable | Round, clock: Callable[[], float]
    ) -> Generator[Sequence[Command], list[object], None]:
        """Does what the outbox says is next. It wants to be sent the answers to what it yields, or be thrown the RedisError or
        OSError. Before the first it changes nothing, and where it is not carried on, the outbox is to be mended."""
        batches = None if isinstance(what, ReadTable) else what
        try:
            if batches is None:
                self._routed(outbox, (yield self._table), clock())
                return
            answers = yield self._round(batches)
            if len(batches) == len(answers) == 1 and type(answers[0]) is int:  # a single send, mostly
                self._told = False
                for partition in batches:
                    outbox.added(partition, answers[0])
                return
            found = dict(zip(batches, answers, strict=False))
            unknown = {partition: batches[partition] for partition, one in found.items() if isinstance(one, NoScriptError)}
            if unknown:
                answers = yield self._round(unknown, text=True)
                found.update(zip(unknown, answers, strict=False))
            if self._replicas and (why := self._too_few(answers[-1])):
                self._waits(why)
                outbox.unanswered(why, clock(), passing=True)
            else:
                self._answered(outbox, batches, found, clock())
        except (RedisError, OSError) as error:
            why = explain(error, self._url, self._queue)
            if passing(error):
                self._waits(why)
            if batches is not None:
                outbox.unanswered(why, clock(), passing=passing(error))
            elif passing(error):
                outbox.routed(None, why, clock())
            else:
                outbox.give_up(list(outbox.open), why)

    def _round(self, batches: Round, *, text: bool = False) -> Sequence[Command]:
        """One script for each partition. `text`: with its text, for the server does not know it."""
        commands: list[Command] = [self._script(partition, batch, text=text) for partition, batch in batches.items()]
        if self._replicas:
            commands.append(("WAIT", self._replicas, _REPLICAS_WITHIN))
        return commands

    def _routed(self, outbox: Outbox, answers: Sequence[object], now: float) -> None:
        """What the table's answer means."""
        if isinstance(answers[0], Exception):
            raise answers[0]
        version, text = fields(2)(answers[0])
        if version is None or text is None:
            self._waits(why := absent(self._url, "queue", self._queue))
            return outbox.routed(None, why, now)
        try:
            table = RoutingTable.from_text(int(version), text.decode())
        except ValueError:
            raise OddAnswerError("a foreign record: its table") from None
        outbox.routed(table, "", now)

    def _waits(self, why: str) -> None:
        """Entries are tried again. That is said once, until some are taken."""
        if not self._told:
            log.warning("What is sent to %s waits. %s", self._queue, why)
        self._told = True

    def _answered(self, outbox: Outbox, batches: Round, answers: Mapping[int, object], now: float) -> None:
        """What the answers to a round mean."""
        if not any(isinstance(answer, RedisError) for answer in answers.values()):
            self._told = False
        for partition, answer in answers.items():
            if isinstance(answer, int):
                outbox.added(partition, answer)
            elif isinstance(answer, RedisError):
                why = explain(answer, self._url, self._queue)
                if passing(answer):
                    self._waits(why)
                outbox.failed(partition, why, now, passing=passing(answer))
            else:
                try:
                    codes, numbers = _read(answer, len(batches[partition]))
                except OddAnswerError as error:
                    outbox.failed(partition, explain(error, self._url, self._queue), now, passing=False)
                else:
                    outbox.answered(partition, codes, numbers, now)

    def _script(self, partition: int, batch: Sequence[Waiting], *, text: bool) -> Command:
        if (head := self._heads.get(partition)) is None:
            keys = partition_keys(self._queue, partition)
            head = self._heads[partition] = [str(word).encode() for word in (len(keys), *keys)]
        how = (b"EVAL", scripts.ADD.text) if text else _BY_SHA
        words: list[bytes | str | int] = [*how, *head, batch[0].producer]
        for entry in batch:
            words += (entry.slot or 0, entry.sequence, entry.key, entry.value, entry.headers)
        return words

    def _too_few(self, answer: object) -> str | None:
        if isinstance(answer, ResponseError):
            return explain(answer, self._url, self._queue)
        if isinstance(answer, int) and answer >= self._replicas:
            return None
        return (
            f"{self._url.place} has what was sent to {self._queue}, but only {answer} of {self._replicas} replicas had it within "
            f"{_REPLICAS_WITHIN} ms. See its replicas, or ask for fewer (replicas=)."
        )


def _read(answer: object, count: int) -> tuple[str, list[str]]:
    """Codes and offsets (script add)."""
    codes, numbers = ((part or b"").decode("latin-1") for part in fields(2)(answer))
    if len(codes) != count or not fullmatch(r"[asdmw]*", codes) or not fullmatch(r"[0-9 ]*", numbers, ASCII):
        raise OddAnswerError("no codes where they belong")
    offsets = [entry_id(int(number)) for number in numbers.split()]
    if len(offsets) != codes.count("a"):
        raise OddAnswerError("fewer numbers than were added")
    return codes, offsets
