"""The ranges of a batch, recorded at their queues: from then on no other reader gets their entries, and none is deleted."""

import logging
from collections.abc import Mapping, Sequence

from baton.model.ids import Partition, QueueName
from baton.queues.logged_ranges import Gone, LaterQuery, Logged, SetAside
from baton.spark.errors import SourceError
from baton.spark.queues import FleetQueues
from baton.spark.range_placement import Range
from baton.spark.statistics import Counts

log = logging.getLogger("baton.spark")

Recorded = Mapping[Range, Logged]


def superseded(number: int) -> SourceError:
    """A query with this number has begun after ours."""
    return SourceError(
        f"a later query (number {number}) reads this group's queues: this one ends. One query at a time reads a group; look for "
        "another driver of it"
    )


def record_ranges(
    queues: FleetQueues, query: Mapping[QueueName, int], todo: Sequence[Range], counts: Counts, *, fail_on_data_loss: bool
) -> Recorded:
    """Those of the ranges that there are, as they are. Raises SourceError and QueueAwayError."""
    recorded: dict[Range, Logged] = {}
    left, partly = list(todo), False
    while left:
        shorter: list[Range] = []
        for one, answer in queues.log(query, left, partly=partly).items():
            match answer:
                case Logged():
                    recorded[one] = answer
                case SetAside():
                    log.warning("%s/%s from %s to %s was set aside: it has no rows", *one.partition, one.start + 1, one.end)
                case LaterQuery(number):
                    raise superseded(number)
                case Gone(_, last) if last < one.start:
                    raise SourceError(beyond(one.partition, one.start, last))
                case Gone(first, last):
                    if fail_on_data_loss:
                        raise SourceError(lost_and_cure(one, first))
                    there = Range(one.partition, max(one.start, first - 1), min(one.end, last))
                    counts.add("positions_lost", one.end - one.start - max(0, there.end - there.start))
                    log.warning("%s: failOnDataLoss is false, and the query goes on with what is there", _lost(one, first))
                    if there.start < there.end:
                        shorter.append(there)
        left, partly = shorter, True
    return recorded


def beyond(partition: Partition, position: int, last: int) -> str:
    """Why a position is beyond the queue's last entry, and the cure. To wait until it is reached would lose what comes before."""
    return (
        f"the query is at {position} of {partition.queue}/{partition.number}, and the last entry there is {last}: the queue was "
        "lost and made again since, or startingOffsets named what was not there. Give the query a new checkpoint"
    )


def lost_and_cure(one: Range, first: int) -> str:
    """What has become of a range, and the cure."""
    return (
        f"{_lost(one, first)}. To go on with what is there, set the option failOnDataLoss to false; to begin where the queue "
        "knows it is done, give the query a new checkpoint"
    )


def _lost(one: Range, first: int) -> str:
    return (
        f"the query is to read {one.partition.queue}/{one.partition.number} from {one.start + 1} to {one.end}, and the first "
        f"entry that is there is {first}: the others were finished or deleted meanwhile, perhaps by another query with a newer "
        "checkpoint, or the queue was lost and made again"
    )
