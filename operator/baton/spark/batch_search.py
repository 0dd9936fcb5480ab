"""Looks for the end of a stream's next batch: asks the queues for what may have something, and waits for the rest."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.logged_ranges import Ahead, AheadAnswer, AheadRequest, Gone, LaterQuery, Stale
from baton.spark.context import FleetContext
from baton.spark.ledger import LedgerGrants, PartitionGrant
from baton.spark.offsets import MAX_BYTES, Positions, SourceError, StreamOptions
from baton.spark.queues import FleetQueues, QueueAwayError, Range
from baton.spark.ranges import beyond, lost_and_cure, superseded

# -- how far a batch reads: partitions that have something share rows and bytes fairly, and take turns

_ROUNDS = 4
"""What one partition does not need the others get in the next round."""


class Candidate(NamedTuple):
    """A partition that may be read, and from where."""

    grant: PartitionGrant
    position: int
    most: int | None = None
    """It is read up to this position at most; None: to its end."""

    @property
    def partition(self) -> Partition:
        return self.grant.partition


Ask = Callable[[Mapping[Partition, AheadRequest]], Mapping[Partition, AheadAnswer]]
"""Without an answer from a queue that is out of reach."""


class Chosen(NamedTuple):
    """What the queues said of the partitions that were asked."""

    ends: Mapping[Partition, int]
    """Of those that have something for this batch: where their part of it ends."""
    answers: Mapping[Partition, AheadAnswer | None]
    """The last answer for each that was asked."""
    unasked: frozenset[Partition]
    """The batch was full before it was their turn."""


def in_turn(candidates: Iterable[Candidate], served: Mapping[Partition, int]) -> list[Candidate]:
    """Those that have waited longest come first. `served`: the number of the batch in which each last had a part."""
    return sorted(candidates, key=lambda one: (served.get(one.partition, -1), one.partition))


def choose_end(candidates: Sequence[Candidate], max_rows: int, max_bytes: int, ask: Ask) -> Chosen:
    """Ask for a batch of at most so many rows and bytes. `candidates` are in turn: where not even one row is left for each, the
    first have them.

    A partition that has a part has at least one entry, however large that is.
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


# -- which partitions are worth asking: those that are new, have more, had rows a batch ago, or were woken

_REFUSED_AGAIN = 0.2
"""Seconds until a queue is asked again that refused the owner that the ledger names: one of the two is ahead of the other."""
_LATER_AGAIN = 1.0
"""Seconds until a paused partition is asked again: the ledger usually says first what has become of it. Likewise where the queue
is away: to ask may take seconds, and other queues wait."""


@dataclass(slots=True)
class _Asked:
    epoch: Epoch
    position: int
    """Up to there its entries are known; at the end of what there was unless it is `more`."""
    more: bool
    """There is more, or may be by now: a batch has run since. To ask is cheaper than to be woken."""
    again: float
    """When (monotonic) it is asked again whatever happens; 0: when it is woken."""


class Due:
    """What the queues have said so far. For one thread."""

    def __init__(self) -> None:
        self._asked: dict[Partition, _Asked] = {}

    def split(self, candidates: Iterable[Candidate], now: float) -> tuple[list[Candidate], list[Candidate]]:
        """Those to ask now, and those to wait for."""
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
        """The queue's word on a partition, of which this batch reads up to `end`; None: the queue was away."""
        asked = _Asked(candidate.grant.epoch, end, more=False, again=0.0)
        if isinstance(answer, Ahead):
            asked.more = candidate.position < end or end < answer.last
        else:
            asked.again = now + (_REFUSED_AGAIN if isinstance(answer, Stale) else _LATER_AGAIN)
        self._asked[candidate.partition] = asked

    def woken(self, partitions: Iterable[Partition]) -> None:
        """There may be more in these."""
        for partition in partitions:
            if known := self._asked.get(partition):
                known.more = True


# -- what is still to be read, as far as the queues have said

_SHARE = 0.05
"""Of the time is spent at most on asking for all of them."""


class LastEntries:
    """For the thread of one query; others may look."""

    def __init__(self, queues: FleetQueues, clock: Callable[[], float]) -> None:
        self._queues, self._clock = queues, clock
        self._known: dict[Partition, tuple[int, int]] = {}
        """The number before the first entry that is there, and the last. A position may be far below: numbers jump."""
        self._heard: set[QueueName] = set()
        """Queues that have said which partitions they have."""
        self._again = float("-inf")

    def saw(self, partition: Partition, first: int, last: int) -> None:
        """The queue has said so by the way."""
        self._known[partition] = first - 1, last

    def behind(self, positions: Positions) -> Mapping[Partition, int]:
        """Entries behind each position, of partitions that there are. Of a thousand partitions that is a second old at most;
        older while a queue is away."""
        began = self._clock()
        if began >= self._again:
            for queue in self._queues.names - self._queues.late():
                with suppress(QueueAwayError):
                    found = self._queues.positions({queue})
                    for partition, bounds in found.items():
                        self._known[partition] = bounds.before_first, bounds.last
                    for partition in [one for one in list(self._known) if one.queue == queue and one not in found]:
                        self._known.pop(partition, None)  # the queue has fewer now; the query's positions keep it
                    self._heard.add(queue)
            now = self._clock()
            self._again = now + (now - began) / _SHARE
        return {
            partition: self._behind(partition, position)
            for partition, position in positions.items()
            if partition in self._known or partition.queue not in self._heard
        }

    def _behind(self, partition: Partition, position: int) -> int:
        before_first, last = self._known.get(partition, (0, 0))
        return max(0, last - max(position, before_first))


# -- the search

_UNKNOWN = 2**20
"""Bytes of an entry, for which it is taken before one was read: the most that Kafka's brokers take by default."""


class Found(NamedTuple):
    """What there is for a batch."""

    ends: Positions
    """Of the partitions that have a part in it."""
    grants: frozenset[PartitionGrant]
    """Under which these are read. They are in use from now on."""
    idle: Sequence[Partition]
    """May be read, and have nothing."""


class BatchSearch:
    """Of one stream, for its thread."""

    def __init__(self, options: StreamOptions, context: FleetContext) -> None:
        self.last_entries = LastEntries(context.queues, context.clock)
        self.target: Positions | None = None
        """AvailableNow: up to there each partition is read; None: without an end."""
        self._options, self._context = options, context
        self._unsized = context.queues.without_sizes
        self._due = Due()
        self._served: dict[Partition, int] = {}
        self._batches = 0
        self._unheard: Sequence[Partition] = ()
        """They had nothing for the last batch, and have not been waited for since."""

    def look(self, query: Mapping[QueueName, int], start: Positions) -> Found:
        """Ask once. Raises SourceError for a query that is over, and for entries that are gone."""
        if self._unheard:  # where others have rows in every batch, these are not waited for
            self._due.woken(self._context.queues.woken(self._unheard))
        due: list[Candidate] = []
        idle: list[Candidate] = []

        def pick(ownership: LedgerGrants) -> list[PartitionGrant]:
            found, waiting = self._due.split(self._candidates(query, ownership, start), self._context.clock())
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
        self._unheard = waiting if chosen.ends else ()
        return Found(chosen.ends, kept, waiting)

    def wait(self, idle: Iterable[Partition], seconds: float) -> None:
        """Until one of these may have something, what is known has changed, or for so long."""
        self._due.woken(self._context.queues.wait(idle, seconds))

    def served(self, partitions: Iterable[Partition]) -> None:
        """A batch has these."""
        self._batches += 1
        self._served |= dict.fromkeys(partitions, self._batches)

    def at_end(self, start: Positions) -> bool:
        """AvailableNow: all are, and nothing more is to come."""
        return self.target is not None and not self.short(start)

    def short(self, start: Positions) -> list[Partition]:
        """AvailableNow: those that are not read to their end."""
        return sorted(partition for partition, last in (self.target or {}).items() if start.get(partition, last) < last)

    def _candidates(self, query: Mapping[QueueName, int], ownership: LedgerGrants, start: Positions) -> Iterator[Candidate]:
        """The partitions that may be read: others stay where they are. Not those that are to be let go, nor those whose owner
        is not registered here, nor those of a queue that has given the query no number yet."""
        executors = self._context.executors()
        for partition, grant in ownership.owners.items():
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
                    raise SourceError(lost_and_cure(Range(partition, start, max(start + 1, answer.last)), answer.first))
                behind[partition] = questions[partition]._replace(start=answer.first - 1)
                del answers[partition]
        if behind:
            answers |= self._context.queues.ahead(query, behind)
        return {partition: self._sized(partition, answer) for partition, answer in answers.items()}

    def _by_size(self, partition: Partition, question: AheadRequest) -> AheadRequest:
        """With as many entries as have the bytes, where the queue cannot count them."""
        size = self._size_of_one(partition)
        return (
            question._replace(most_entries=max(1, min(question.most_entries, question.most_bytes // size))) if size else question
        )

    def _sized(self, partition: Partition, answer: AheadAnswer) -> AheadAnswer:
        size = self._size_of_one(partition)
        return answer._replace(size=size * (answer.end - answer.first + 1)) if size and isinstance(answer, Ahead) else answer

    def _size_of_one(self, partition: Partition) -> int:
        """Of one entry; 0: the queue counts itself, or no limit is set, and the first batch will tell."""
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
                    self.target = {**self.target, partition: candidate.position}  # what was up to there has gone
            self._due.answered(candidate, chosen.ends.get(partition, candidate.position), answer, now)
