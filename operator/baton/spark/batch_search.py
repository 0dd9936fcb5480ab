"""Looks for the end of a stream's next batch: asks the queues for what may have something, and waits for the rest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from baton.model.ids import Partition, QueueName
from baton.queues.logged_ranges import Ahead, AheadAnswer, Gone, LaterQuery
from baton.spark.batch_end import Candidate, Chosen, Question, choose_end, in_turn
from baton.spark.due import Due
from baton.spark.errors import SourceError
from baton.spark.last_entries import LastEntries
from baton.spark.offsets import Positions
from baton.spark.ownership import Ownership, PartitionGrant
from baton.spark.range_placement import Range
from baton.spark.recorded_ranges import beyond, lost_and_cure, superseded
from baton.spark.source_options import MAX_BYTES, StreamOptions
from baton.spark.surroundings import Surroundings

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

    def __init__(self, options: StreamOptions, around: Surroundings) -> None:
        self.last_entries = LastEntries(around.queues, around.clock)
        self.target: Positions | None = None
        """AvailableNow: up to there each partition is read; None: without an end."""
        self._options, self._around = options, around
        self._unsized = around.queues.without_sizes
        self._due = Due()
        self._served: dict[Partition, int] = {}
        self._batches = 0
        self._unheard: Sequence[Partition] = ()
        """They had nothing for the last batch, and have not been waited for since."""

    def look(self, query: Mapping[QueueName, int], start: Positions) -> Found:
        """Ask once. Raises SourceError for a query that is over, and for entries that are gone."""
        if self._unheard:  # where others have rows in every batch, these are not waited for
            self._due.woken(self._around.queues.woken(self._unheard))
        due: list[Candidate] = []
        idle: list[Candidate] = []

        def pick(ownership: Ownership) -> list[PartitionGrant]:
            found, waiting = self._due.split(self._candidates(query, ownership, start), self._around.clock())
            due.extend(found)
            idle.extend(waiting)
            return [candidate.grant for candidate in found]

        taken, kept = self._around.grants_in_use.take(pick), frozenset[PartitionGrant]()
        try:
            rows, size = self._options.max_rows, self._options.max_bytes
            with self._around.counts.step("ahead"):
                chosen = choose_end(in_turn(due, self._served), rows, size, lambda asked: self._ask(query, asked))
            self._learn(due, chosen)
            kept = frozenset(candidate.grant for candidate in due if candidate.partition in chosen.ends)
        finally:
            self._around.grants_in_use.put_back(grant for grant in taken if grant not in kept)
        idle += [one for one in due if one.partition not in chosen.ends and chosen.answers.get(one.partition) is not None]
        waiting = [candidate.partition for candidate in idle]
        self._unheard = waiting if chosen.ends else ()
        return Found(chosen.ends, kept, waiting)

    def wait(self, idle: Iterable[Partition], seconds: float) -> None:
        """Until one of these may have something, what is known has changed, or for so long."""
        self._due.woken(self._around.queues.wait(idle, seconds))

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

    def _candidates(self, query: Mapping[QueueName, int], ownership: Ownership, start: Positions) -> Iterator[Candidate]:
        """The partitions that may be read: others stay where they are. Not those that are to be let go, nor those whose owner
        is not registered here, nor those of a queue that has given the query no number yet."""
        executors = self._around.executors()
        for partition, grant in ownership.owners.items():
            position = start.get(partition)
            if position is None or grant.member not in executors or grant.queue not in query:
                continue
            most = None if self.target is None else self.target.get(partition, position)
            if most is None or position < most:
                yield Candidate(partition, grant, position, most)

    def _ask(self, query: Mapping[QueueName, int], questions: Sequence[Question]) -> list[AheadAnswer | None]:
        questions = [self._by_size(one) for one in questions]
        answers = self._around.queues.ahead(query, questions)
        places: list[int] = []
        behind: list[Question] = []
        for place, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            if isinstance(answer, Gone):
                partition = Partition(question.grant.queue, question.grant.partition)
                if answer.last < question.start:
                    raise SourceError(beyond(partition, question.start, answer.last))
                if self._options.fail_on_data_loss:
                    wanted = Range(partition, question.start, max(question.start + 1, answer.last))
                    raise SourceError(lost_and_cure(wanted, answer.first))
                places.append(place)
                behind.append(question._replace(start=answer.first - 1))
        if behind:
            for place, answer in zip(places, self._around.queues.ahead(query, behind), strict=True):
                answers[place] = answer
        return [self._sized(question, answer) for question, answer in zip(questions, answers, strict=True)]

    def _by_size(self, question: Question) -> Question:
        """With as many entries as have the bytes, where the queue cannot count them."""
        size = self._size_of_one(question)
        return (
            question._replace(most_entries=max(1, min(question.most_entries, question.most_bytes // size))) if size else question
        )

    def _sized(self, question: Question, answer: AheadAnswer | None) -> AheadAnswer | None:
        size = self._size_of_one(question)
        return answer._replace(size=size * (answer.end - answer.first + 1)) if size and isinstance(answer, Ahead) else answer

    def _size_of_one(self, question: Question) -> int:
        """Of one entry; 0: the queue counts itself, or no limit is set, and the first batch will tell."""
        if question.grant.queue not in self._unsized:
            return 0
        known = self._around.finishing.sizes.of(Partition(question.grant.queue, question.grant.partition))
        return known if known is not None else _UNKNOWN if self._options.max_bytes < MAX_BYTES else 0

    def _learn(self, due: Iterable[Candidate], chosen: Chosen) -> None:
        now = self._around.clock()
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
