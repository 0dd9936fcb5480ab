"""The promises of the protocol of logged ranges (docs/development/spark-source.md), which must always hold."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.simulation.spark.partition import Answer, Partition

Row = tuple[int, int]
"""Partition and number."""


class BrokenPromiseError(AssertionError):
    """A broken promise, with its description."""


@dataclass(slots=True)
class Promises:
    """The history, as far as it must not be contradicted."""

    added: set[Row] = field(default_factory=set)
    lost: set[Row] = field(default_factory=set)
    """Entries lost by a failover."""
    sink: dict[int, tuple[Row, ...]] = field(default_factory=dict)
    """Rows of a sink that remembers the last batch's id, by id."""
    committed: set[int] = field(default_factory=set)
    """Batches in Spark's commit log."""
    read: dict[Row, tuple[int, ...]] = field(default_factory=dict)
    """The rows that the first complete reader of each batch and partition had."""
    queries: dict[int, int] = field(default_factory=dict)
    """The latest query that each partition has answered."""
    attempts: dict[tuple[int, int, str], int] = field(default_factory=dict)
    """The latest attempt that was answered, by partition, query and evaluation."""

    def answered(self, partition: int, query: int, answer: Answer) -> Answer:
        """The queue has answered a query."""
        if answer[0] != "QUERY":
            if query < self.queries.get(partition, 0):
                raise BrokenPromiseError(f"partition {partition} answers query {query} after {self.queries[partition]}: {answer}")
            self.queries[partition] = query
        return answer

    def let_in(self, partition: int, query: int, evaluation: str, attempt: int) -> None:
        """The queue lets a task read a page."""
        key = (partition, query, evaluation)
        if attempt < self.attempts.get(key, 0):
            raise BrokenPromiseError(f"attempt {attempt} of {evaluation} reads partition {partition} after {self.attempts[key]}")
        self.attempts[key] = attempt

    def whole(self, batch: int, partition: int, rows: tuple[int, ...]) -> None:
        """A task has read a range to its end."""
        if not self.lost and (known := self.read.setdefault((batch, partition), rows)) != rows:
            raise BrokenPromiseError(f"batch {batch} had {known} of partition {partition}, and has {rows}")

    def written(self, batch: int, rows: tuple[Row, ...]) -> None:
        """The sink gets a batch, and skips one that it has."""
        self.sink.setdefault(batch, rows)
        seen: dict[int, int] = {}
        for one in sorted(self.sink):
            for partition, number in self.sink[one]:
                if number <= seen.get(partition, 0):
                    raise BrokenPromiseError(
                        f"entry {number} of partition {partition} comes in batch {one}, after {seen[partition]}"
                    )
                seen[partition] = number

    def finished(self, partition: int, end: int, offset: Mapping[int, int]) -> None:
        """A driver finishes a partition up to `end`; Spark has committed up to `offset`."""
        if end > offset.get(partition, 0):
            raise BrokenPromiseError(f"partition {partition} is finished to {end}, and is committed to {offset.get(partition)}")

    def done(self) -> set[Row]:
        return {row for batch in self.committed for row in self.sink.get(batch, ())}

    def nothing_is_gone(self, partitions: Mapping[int, Partition]) -> None:
        """Every entry exists until a batch with it is committed."""
        excused = self.done() | self.lost
        for partition, number in self.added - excused:
            if number not in partitions[partition].entries:
                raise BrokenPromiseError(f"entry {number} of partition {partition} is gone, and no committed batch has it")

    def all_is_done(self, waiting: Collection[int]) -> None:
        """Check at the end: every entry was in one batch. `waiting`: partitions whose entries wait for another partition."""
        rows = [row for batch in self.committed for row in self.sink.get(batch, ())]
        if len(rows) != len(set(rows)):
            raise BrokenPromiseError("an entry is in two batches")
        if missing := self.added - set(rows) - self.lost:
            raise BrokenPromiseError(f"never read: {sorted(missing)}")
        if waiting:
            raise BrokenPromiseError(f"never drained: what partitions {sorted(waiting)} wait for")
