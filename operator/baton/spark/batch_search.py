"""Finds the end of a stream's next batch: queries partitions that may have entries, and waits for notices of the others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.logged_ranges import Ahead, AheadAnswer, AheadRequest, Gone, LaterQuery, Stale
from baton.spark.context import FleetContext
from baton.spark.ledger import LedgerSnapshot, PartitionGrant
from baton.spark.offsets import MAX_BYTES, Positions, SourceError, StreamOptions
from baton.spark.queues import FleetQueues, QueueAwayError, Range
from baton.spark.ranges import beyond, lost, superseded

# -- how far a batch reads: partitions with entries share rows and bytes fairly, and take turns

_ROUNDS = 4
"""Rounds of a search. Each shares out the rows and bytes that partitions left over in the round before."""


class Candidate(NamedTuple):
    """A partition that may be read, and its position."""

    grant: PartitionGrant
    position: int
    most: int | None = None
    """The last position to read; None: no limit."""

    @property
    def partition(self) -> Partition:
        return self.grant.partition


Ask = Callable[[Mapping[Partition, AheadRequest]], Mapping[Partition, AheadAnswer]]
"""Asks the queues. The result has no answers from queues that are unreachable."""


class Chosen(NamedTuple):
    """The end of a batch, and the queues' answers."""

    ends: Mapping[Partition, int]
    """The end of each partition's range in the batch."""
    answers: Mapping[Partition, AheadAnswer | None]
    """The last answer for each partition that was asked; None if its queue was unreachable."""
    unasked: frozenset[Partition]
    """Partitions that were not asked because the batch was full."""


def in_turn(candidates: Iterable[Candidate], served: Mapping[Partition, int]) -> list[Candidate]:
    """Sort those that have waited longest first. `served`: number of the last batch that had rows of the partition."""
    return sorted(candidates, key=lambda one: (served.get(one.partition, -1), one.partition))


def choose_end(candidates: Sequence[Candidate], max_rows: int, max_bytes: int, ask: Ask) -> Chosen:
    """Choose a batch of at most `max_rows` and `max_bytes`. If there are fewer rows than candidates, the first candidates get
    them. A partition in the batch has at least one entry, even if that exceeds `max_bytes`.
    """
    ends: dict[Partition, int] = {}
    answers: dict[Partition, AheadAnswer | None] = {}
    rows, size = max_rows, max_bytes
    left = list(candidates)
    for _ in range(_ROUNDS):
        if not left or rows <= 0 or size <= 0:
            break
        questions = _questions(left, ends, rows, size)
        found = ask(questions)
        more = []
        for candidate in left[: len(questions)]:
            question, answer = questions[candidate.partition], found.get(candidate.partition)
            answers[candidate.partition] = answer
            if not isinstance(answer, Ahead):
                continue
            most = answer.last if candidate.most is None else min(answer.last, candidate.most)
            end = min(answer.end, most)
            if end <= question.start or end < answer.first:
                continue
            ends[candidate.partition] = end
            rows -= end - question.start
            size -= answer.size
            if end < most:
                more.append(candidate)
        left = more + left[len(questions) :]
    return Chosen(ends, answers, frozenset(one.partition for one in candidates) - answers.keys())


def _questions(
    candidates: Sequence[Candidate], ends: Mapping[Partition, int], rows: int, size: int
) -> dict[Partition, AheadRequest]:
    questions = {}
    asked = min(len(candidates), rows)
    share, over = divmod(rows, asked)
    for index, (grant, position, most) in enumerate(candidates[:asked]):
        partition, epoch, _, uid = grant
        start = ends.get(partition, position)
        entries = share + (index < over)
        if most is not None:
            entries = min(entries, most - start)
        questions[partition] = AheadRequest(partition.number, uid, epoch, start, entries, max(1, size // asked))
    return questions


# -- which partitions to ask: new ones, ones with more entries or with rows in the last batch, and ones with a notice

_REFUSED_AGAIN = 0.2
"""Seconds until the next try after a queue rejected the owner in the ledger: either the queue or the ledger is behind."""
_LATER_AGAIN = 1.0
"""Seconds until the next try after a partition was paused (usually the ledger changes first) or its queue was unreachable (asking
may take seconds, for which other queues wait)."""


@dataclass(slots=True)
class _Asked:
    epoch: Epoch
    position: int
    """The position at which the partition has no further entries, unless `more`."""
    more: bool
    """Whether there are entries after the position, or may be because a batch has run since. Asking is cheaper than waiting for a
    notice."""
    again: float
    """Time of the next question (monotonic); 0: at the next notice."""


class Due:
    """Decides which partitions to ask, from earlier answers and notices. For one thread."""

    def __init__(self) -> None:
        self._asked: dict[Partition, _Asked] = {}

    def split(self, candidates: Iterable[Candidate], now: float) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates to ask now, and those to wait for."""
        due: list[Candidate] = []
        idle: list[Candidate] = []
        for candidate in candidates:
            known = self._asked.get(candidate.partition)
            waits = (
                known is not None
                and known.epoch == candidate.grant.epoch
                and known.position == candidate.position
                and not known.more
                and (known.again == 0 or now < known.again)
            )
            (idle if waits else due).append(candidate)
        return due, idle

    def answered(self, candidate: Candidate, end: int, answer: AheadAnswer | None, now: float) -> None:
        """Note the answer for a partition that the batch reads up to `end`; None if the queue was unreachable."""
        asked = _Asked(candidate.grant.epoch, end, more=False, again=0.0)
        if isinstance(answer, Ahead):
            asked.more = candidate.position < end or end < answer.last
        else:
            asked.again = now + (_REFUSED_AGAIN if isinstance(answer, Stale) else _LATER_AGAIN)
        self._asked[candidate.partition] = asked

    def woken(self, partitions: Iterable[Partition]) -> None:
        """Note that these partitions may have new entries."""
        for partition in partitions:
            if known := self._asked.get(partition):
                known.more = True


# -- how many entries are unread

_SHARE = 0.05
"""Largest share of the time spent on asking all queues for their positions."""


class LastEntries:
    """The last known entry of each partition. Updated by the query's thread; any thread may read."""

    def __init__(self, queues: FleetQueues, clock: Callable[[], float]) -> None:
        self._queues, self._clock = queues, clock
        self._known: dict[Partition, tuple[int, int]] = {}
        """The number before the first existing entry, and of the last entry. A position may be far below the first: numbers can
        jump."""
        self._answered: set[QueueName] = set()
        """Queues that have listed their partitions."""
        self._again = float("-inf")

    def saw(self, partition: Partition, first: int, last: int) -> None:
        """Note the first and last entry from the answer to another question."""
        self._known[partition] = first - 1, last

    def behind(self, positions: Positions) -> Mapping[Partition, int]:
        """Return the number of entries after each position. For a thousand partitions it is at most a second old; older while a
        queue is unreachable."""
        began = self._clock()
        if began >= self._again:
            for queue in self._queues.names - self._queues.late():
                with suppress(QueueAwayError):
                    found = self._queues.positions({queue})
                    for partition, bounds in found.items():
                        self._known[partition] = bounds.before_first, bounds.last
                    for partition in [one for one in list(self._known) if one.queue == queue and one not in found]:
                        self._known.pop(partition, None)  # the queue has fewer partitions now; the query's positions keep all
                    self._answered.add(queue)
            now = self._clock()
            self._again = now + (now - began) / _SHARE
        return {
            partition: self._behind(partition, position)
            for partition, position in positions.items()
            if partition in self._known or partition.queue not in self._answered
        }

    def _behind(self, partition: Partition, position: int) -> int:
        before_first, last = self._known.get(partition, (0, 0))
        return max(0, last - max(position, before_first))


# -- the search

_UNKNOWN = 2**20
"""Assumed bytes of an entry before one was read: the largest that Kafka's brokers accept by default."""


class Found(NamedTuple):
    """A batch, or none if `ends` is empty."""

    ends: Positions
    """The end of each partition's range."""
    grants: frozenset[PartitionGrant]
    """The grants of these partitions, in use from now on."""
    idle: Sequence[Partition]
    """Readable partitions without entries."""


class BatchSearch:
    """Finds the batches of one stream. For the stream's thread."""

    def __init__(self, options: StreamOptions, context: FleetContext) -> None:
        self.last_entries = LastEntries(context.queues, context.clock)
        self.target: Positions | None = None
        """AvailableNow: where to stop in each partition; None without that trigger."""
        self._options, self._context = options, context
        self._unsized = context.queues.without_sizes
        self._due = Due()
        self._served: dict[Partition, int] = {}
        self._batches = 0
        self._unpolled: Sequence[Partition] = ()
        """Partitions without entries at the last look whose notices were not read since."""

    def look(self, query: Mapping[QueueName, int], start: Positions) -> Found:
        """Ask the queues once. Raises SourceError if a later query has begun, or entries are gone."""
        if self._unpolled:  # if other partitions always have rows, `wait` is never called
            self._due.woken(self._context.queues.woken(self._unpolled))
        due: list[Candidate] = []
        idle: list[Candidate] = []

        def pick(ledger: LedgerSnapshot) -> list[PartitionGrant]:
            found, waiting = self._due.split(self._candidates(query, ledger, start), self._context.clock())
            due.extend(found)
            idle.extend(waiting)
            return [candidate.grant for candidate in found]

        taken, kept = self._context.grants_in_use.take(pick), frozenset[PartitionGrant]()
        try:
            rows, size = self._options.max_rows, self._options.max_bytes
            with self._context.counts.step("ahead"):
                chosen = choose_end(in_turn(due, self._served), rows, size, lambda asked: self._ask(query, asked))
            self._learn(due, chosen)
            kept = frozenset(candidate.grant for candidate in due if candidate.partition in chosen.ends)
        finally:
            self._context.grants_in_use.put_back(grant for grant in taken if grant not in kept)
        idle += [one for one in due if one.partition not in chosen.ends and chosen.answers.get(one.partition) is not None]
        waiting = [candidate.partition for candidate in idle]
        self._unpolled = waiting if chosen.ends else ()
        return Found(chosen.ends, kept, waiting)

    def wait(self, idle: Iterable[Partition], seconds: float) -> None:
        """Wait for a notice of new entries in these partitions, for an interrupt, or for at most `seconds`."""
        self._due.woken(self._context.queues.wait(idle, seconds))

    def served(self, partitions: Iterable[Partition]) -> None:
        """Note that a batch has rows of these partitions."""
        self._batches += 1
        self._served |= dict.fromkeys(partitions, self._batches)

    def at_end(self, start: Positions) -> bool:
        """AvailableNow: whether all partitions are read to their end."""
        return self.target is not None and not self.short(start)

    def short(self, start: Positions) -> list[Partition]:
        """AvailableNow: partitions that are not read to their end, including those that the offset does not have yet."""
        return sorted(partition for partition, last in (self.target or {}).items() if start.get(partition, -1) < last)

    def _candidates(self, query: Mapping[QueueName, int], ledger: LedgerSnapshot, start: Positions) -> Iterator[Candidate]:
        """Partitions that may be read: they are not being revoked, their owner is a registered executor, and their queue has
        given the query a number."""
        executors = self._context.executors()
        for partition, grant in ledger.owners.items():
            position = start.get(partition)
            if position is None or grant.member not in executors or grant.queue not in query:
                continue
            most = None if self.target is None else self.target.get(partition, position)
            if most is None or position < most:
                yield Candidate(grant, position, most)

    def _ask(
        self, query: Mapping[QueueName, int], questions: Mapping[Partition, AheadRequest]
    ) -> Mapping[Partition, AheadAnswer]:
        questions = {partition: self._by_size(partition, question) for partition, question in questions.items()}
        answers = self._context.queues.ahead(query, questions)
        behind: dict[Partition, AheadRequest] = {}
        for partition, answer in list(answers.items()):
            if isinstance(answer, Gone):
                start = questions[partition].start
                if answer.last < start:
                    raise SourceError(beyond(partition, start, answer.last))
                if self._options.fail_on_data_loss:
                    raise SourceError(lost(Range(partition, start, max(start + 1, answer.last)), answer.first))
                behind[partition] = questions[partition]._replace(start=answer.first - 1)
                del answers[partition]
        if behind:
            answers |= self._context.queues.ahead(query, behind)
        return {partition: self._sized(partition, answer) for partition, answer in answers.items()}

    def _by_size(self, partition: Partition, question: AheadRequest) -> AheadRequest:
        """Limit the question's number of entries by the expected bytes if the queue does not know the sizes."""
        size = self._size_of_one(partition)
        return (
            question._replace(most_entries=max(1, min(question.most_entries, question.most_bytes // size))) if size else question
        )

    def _sized(self, partition: Partition, answer: AheadAnswer) -> AheadAnswer:
        size = self._size_of_one(partition)
        return answer._replace(size=size * (answer.end - answer.first + 1)) if size and isinstance(answer, Ahead) else answer

    def _size_of_one(self, partition: Partition) -> int:
        """Expected bytes of an entry; 0 if the queue knows the sizes, or if none is known and the limit is the default."""
        if partition.queue not in self._unsized:
            return 0
        known = self._context.finishing.sizes.of(partition)
        return known if known is not None else _UNKNOWN if self._options.max_bytes < MAX_BYTES else 0

    def _learn(self, due: Iterable[Candidate], chosen: Chosen) -> None:
        now = self._context.clock()
        for candidate in due:
            partition = candidate.partition
            if partition in chosen.unasked:
                continue
            answer = chosen.answers[partition]
            if isinstance(answer, LaterQuery):
                raise superseded(answer.number)
            if isinstance(answer, Ahead):
                self.last_entries.saw(partition, answer.first, answer.last)
                if self.target is not None and (answer.last <= candidate.position or answer.first > self.target[partition]):
                    self.target = {**self.target, partition: candidate.position}  # the entries up to the target are gone
            self._due.answered(candidate, chosen.ends.get(partition, candidate.position), answer, now)
