"""How much there is to do in partitions, asked past the scripts: whoever asks need not own them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from baton.queues.redis import records
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.server_answers import OddAnswerError

FIELDS = ("last", "done", "staged")
"""Of a partition's progress, which say it."""


class PartitionBacklog(NamedTuple):
    """How much there is to do, and was done."""

    lag: int
    """Entries added and not finished with."""
    finished: int
    """Entries finished with since it was made."""


def read(found: Sequence[object]) -> PartitionBacklog:
    """What stands in these fields. Raises ForeignRecord."""
    last, done, staged = map(records.number, found, FIELDS)
    return PartitionBacklog(last - done + staged, done - staged)


def unfinished(client: Any, partitions: Iterable[PartitionKeys]) -> int:
    """Of all of these partitions. Raises OddAnswerError for what Baton did not write."""
    with client.pipeline(transaction=False) as pipe:
        for keys in partitions:
            pipe.hmget(keys.progress, *FIELDS)
        answers = pipe.execute()
    try:
        return sum(read(answer).lag for answer in answers)
    except records.ForeignRecord as what:
        raise OddAnswerError(f"a foreign record: {what}") from None
