"""A `baton.queues.logged_ranges.LoggedRanges` over the modelled partitions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from baton.queues.logged_ranges import (
    Ahead,
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    Finished,
    Gone,
    LaterQuery,
    LogAnswer,
    Logged,
    PartitionBounds,
    Paused,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAside,
    SetAsideAnswer,
    Stale,
    Unlogged,
)
from tests.simulation.spark.partition import Answer, Partition


class ModelledRanges:
    """The queue's side for one driver. Subclasses decide what happens around its requests."""

    sizes_known = True
    sets_aside = True
    log_id = ""

    def __init__(self, partitions: Mapping[int, Partition]) -> None:
        self.modelled = partitions
        self._read_to: dict[int, tuple[int, int]] = {}
        """Epoch and last number of partitions that were read to their end. Only newer ones end a wait."""

    def before(self) -> None:
        """Called before the next request to a partition."""

    def answered(self, number: int, query: int, answer: Answer) -> Answer:
        """Called with the answer of a partition to a query."""
        return answer

    def next_query(self) -> int:
        """Return a number above all earlier ones."""
        return 1 + max(one.query for one in self.modelled.values())

    def finishing(self, number: int, end: int) -> None:
        """Called before the driver finishes a partition up to `end`."""

    def pass_time(self, seconds: float) -> None:
        """Called when a thread waits this long."""

    # -- what is asked

    def begin(self) -> int:
        self.before()
        query = self.next_query()
        for number, one in self._each(range(self.partitions())):
            self.answered(number, query, one.fence(query))
        return query

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        latest = query
        for number, one in self._each(partitions):
            word, *rest = self.answered(number, query, one.fence(query))
            latest = max(latest, int(rest[0])) if word == "QUERY" else latest
        return latest

    def partitions(self) -> int:
        return len(self.modelled)

    def check(self) -> None:
        for _ in self._each(range(self.partitions())):
            pass

    def positions(self) -> Mapping[int, PartitionBounds]:
        found = {}
        for number, one in self._each(range(self.partitions())):
            _, committed, first, last = one.bounds()
            found[number] = PartitionBounds(int(committed), int(first) - 1, int(last))
        return found

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        answers: list[AheadAnswer] = []
        for (number, one), asked in zip(self._each(asked.partition for asked in requests), requests, strict=True):
            answer = self.answered(number, query, one.ahead(query, asked.uid, asked.epoch, asked.start, asked.most_entries))
            self._read_to.pop(number, None)
            if answer[0] in ("STALE", "PAUSED") or (answer[0] == "OK" and answer[1] == answer[2]):
                self._read_to[number] = (one.epoch, one.last if answer[0] == "OK" else 10**18)
            answers.append(_ahead(answer))
        return answers

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        answers: list[LogAnswer] = []
        for (number, one), asked in zip(self._each(asked.partition for asked in ranges), ranges, strict=True):
            word, *rest = self.answered(number, query, one.log(query, asked.start, asked.end, int(asked.partly)))
            kind = {"OK": Logged, "GONE": Gone, "ASIDE": SetAside, "QUERY": LaterQuery}[str(word)]
            answers.append(kind(*map(int, rest)))
        return answers

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        answers: list[FinishAnswer] = []
        for asked in ranges:
            if asked.partition >= self.partitions():
                answers.append(Unlogged())
                continue
            [(number, one)] = self._each([asked.partition])
            self.finishing(number, asked.end)
            word, *rest = self.answered(number, query, one.finish(query, asked.end))
            answers.append(Unlogged() if word == "UNLOGGED" else LaterQuery(int(rest[0])) if word == "QUERY" else Finished())
        return answers

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        answers: list[SetAsideAnswer] = []
        for (number, one), asked in zip(self._each(asked.partition for asked in ranges), ranges, strict=True):
            word, *rest = self.answered(number, query, one.set_aside(query, asked.start, asked.end))
            answers.append(Unlogged() if word == "UNLOGGED" else LaterQuery(int(rest[0])) if word == "QUERY" else SetAside())
        return answers

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        self.before()
        news = set()
        for number in partitions:
            one = self.modelled[number]
            epoch, last = self._read_to.get(number, (-1, -1))
            if one.epoch != epoch or one.last > last:
                news.add(number)
                self._read_to.pop(number, None)
        self.pass_time(0.01 if news else timeout)
        return news

    def interrupt(self) -> None:
        pass

    def address(self) -> Mapping[str, object]:
        return {"server": "simulated"}

    def close(self) -> None:
        pass

    def _each(self, numbers: Iterable[int]) -> Iterator[tuple[int, Partition]]:
        """Ask one partition after the other; anything may happen in between."""
        for number in numbers:
            self.before()
            yield number, self.modelled[number]


def _ahead(answer: Answer) -> AheadAnswer:
    word, *rest = answer
    match word:
        case "STALE":
            return Stale()
        case "PAUSED":
            return Paused()
        case "QUERY":
            return LaterQuery(int(rest[0]))
        case "GONE":
            return Gone(int(rest[0]), int(rest[1]))
    end, last, first = map(int, rest)
    return Ahead(end, last, first, 0)
