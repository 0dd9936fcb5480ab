"""How much there is to do in partitions, asked past the scripts: whoever asks need not own them."""

from collections.abc import Iterable
from typing import Any

from baton.queues.redis import records
from baton.queues.redis.answers import OddAnswerError
from baton.queues.redis.keys import PartitionKeys


def unfinished(client: Any, partitions: Iterable[PartitionKeys]) -> int:
    """Entries of all of them that are not finished with. Raises OddAnswerError for what Baton did not write."""
    with client.pipeline(transaction=False) as pipe:
        for keys in partitions:
            pipe.hmget(keys.progress, "last", "done")
        found = pipe.execute()
    try:
        return sum(records.number(last, "last") - records.number(done, "done") for last, done in found)
    except records.ForeignRecord as what:
        raise OddAnswerError(f"a foreign record: {what}") from None
