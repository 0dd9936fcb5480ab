"""How the reading of partitions begins: in which order they are taken up, and fetched from where their records say."""

import time
from collections.abc import Callable, Iterator, Mapping

from baton.model.ids import Epoch
from baton.queues.fence import StaleOwner
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.owner_commits import OwnerCommits
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.take_up_thread import Found
from baton.queues.protocol import PartitionUnavailable


class TakeUpOrder:
    """Of one queue's partitions, beside reading."""

    def __init__(self, commits: OwnerCommits, fetching: Callable[[], Fetcher]) -> None:
        """`fetching`: whoever fetches the queue's topic, as it is now."""
        self._commits = commits
        self._fetching = fetching
        self._begun_at: dict[int, float] = {}
        """When partitions were begun last, one by one (monotonic). Whoever cannot be goes behind the others the next time."""

    def take_up(self, partitions: Mapping[int, Epoch]) -> Iterator[Mapping[int, Found]]:
        """Those that were handed over at once, those that nobody has read yet at the same time, and then the others."""
        left = dict(partitions)
        try:
            for begin in (self._begin_handed_over, self._begin_together):
                if left:
                    begun = begin(left)
                    yield begun
                    left = {partition: epoch for partition, epoch in left.items() if partition not in begun}
            turns = sorted(left, key=lambda partition: (self._begun_at.get(partition, 0.0), partition))
            left = {partition: partitions[partition] for partition in turns}
            while left:
                partition, epoch = next(iter(left.items()))
                self._begun_at[partition] = time.monotonic()
                yield {partition: self._begin(partition, epoch)}
                del left[partition]
        except Exception as problem:
            yield dict.fromkeys(left, problem)

    def _begin_handed_over(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        begun = self._commits.take_up_records.handed_over(partitions)
        if begun:
            self._fetching().begin({partition: position.committed for partition, position in begun.items()})
        return begun

    def _begin_together(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        """They are fetched while the records get the mark of this process."""
        found = self._commits.take_up_records.granted(partitions)
        fetcher = self._fetching()
        fetcher.begin({partition: seen.offset for partition, seen in found.items()})
        begun: Mapping[int, ReadPosition] = {}
        try:
            begun = self._commits.take_up_records.together(found)
        finally:
            for partition in found.keys() - begun.keys():
                fetcher.end(partition)
        return begun

    def _begin(self, partition: int, epoch: Epoch) -> ReadPosition | StaleOwner | PartitionUnavailable:
        try:
            position = self._commits.begin(partition, epoch)
        except (StaleOwner, PartitionUnavailable) as refusal:
            return refusal
        self._fetching().begin({partition: position.committed})
        return position
