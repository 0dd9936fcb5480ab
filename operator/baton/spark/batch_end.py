"""How far a batch reads: rows and bytes are shared out fairly over the partitions that have something, and in turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from baton.model.ids import Partition
from baton.queues.logged_ranges import Ahead, AheadAnswer
from baton.spark.ownership import PartitionGrant

_ROUNDS = 4
"""What one partition does not need the others get in the next round."""


class Candidate(NamedTuple):
    """A partition that may be read, and from where."""

    partition: Partition
    grant: PartitionGrant
    position: int
    most: int | None = None
    """It is read up to this position at most; None: to its end."""


class Question(NamedTuple):
    """What a queue is asked: how far one may read behind `start`, with so many entries and bytes at most."""

    grant: PartitionGrant
    start: int
    most_entries: int
    most_bytes: int


Ask = Callable[[Sequence[Question]], Sequence[AheadAnswer | None]]
"""Answers in the order of the questions; None: that queue is out of reach."""


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
        more = []
        for candidate, question, answer in zip(left, questions, ask(questions), strict=False):
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


def _questions(candidates: Sequence[Candidate], ends: Mapping[Partition, int], rows: int, size: int) -> list[Question]:
    questions = []
    asked = min(len(candidates), rows)
    share, over = divmod(rows, asked)
    for index, (partition, grant, position, most) in enumerate(candidates[:asked]):
        start = ends.get(partition, position)
        entries = share + (index < over)
        if most is not None:
            entries = min(entries, most - start)
        questions.append(Question(grant, start, entries, max(1, size // asked)))
    return questions
