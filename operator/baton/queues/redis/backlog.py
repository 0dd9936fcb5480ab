"""How much there is to do in partitions, asked past the scripts: whoever asks need not own them."""

from collections.abc import Iterable, Sequence
from typing import Any

from baton.queues.redis import records
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.server_answers import OddAnswerError

FIELDS = ("last", "done", "staged")
"""Of a partition's progress, which say it."""


def lag(found: Sequence[object]) -> int:
    """Entries added and not finished with, of what stands in these fields. Raises ForeignRecord."""
    last, done, staged = map(records.number, found, FIELDS)
    return last - done + staged


def finished(found: Sequence[object]) -> int:
    """Entries finished with since the partition was made, of what stands in these fields. Raises ForeignRecord."""
    _, done, staged = map(records.number, found, FIELDS)
    return done - staged


def unfinished(client: Any, partitions: Iterable[PartitionKeys]) -> int:
    """Of all of these partitions. Raises OddAnswerError for what Baton did not write."""
    with client.pipeline(transaction=False) as pipe:
        for keys in partitions:
            pipe.hmget(keys.progress, *FIELDS)
        answers = pipe.execute()
    try:
        return sum(map(lag, answers))
    except records.ForeignRecord as what:
        raise OddAnswerError(f"a foreign record: {what}") from None
