"""An offset of the source: how far each partition of each queue is read.

As text it is JSON, `{"orders": {"0": 17, "1": 4}}`: queue, partition, position. A position is the number of an entry: everything
up to it and with it is read.
"""

import json
from collections.abc import Collection, Mapping

from baton.model.ids import Partition, QueueName
from baton.model.wording import quoted

Positions = Mapping[Partition, int]

LONGEST = 16 * 1024 * 1024
"""Characters of an offset that are parsed: a million partitions have less."""
_MOST = 2**63


class OffsetError(ValueError):
    """What is wrong with the text of an offset, and where it came from."""


_KEPT = 8
_known: dict[str, Positions] = {}
"""Of the last texts: Spark names the same offset several times in a batch."""


def parse_offset(text: str, what: str = "the offset") -> Positions:
    """Positions of the text. `what`: where it stood, the beginning of the message of an OffsetError."""
    if (known := _known.get(text)) is not None:
        return known
    if len(text) > LONGEST:
        raise OffsetError(f"{what} has {len(text):,} characters: expected at most {LONGEST:,}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise OffsetError(f'{what} is no JSON, {quoted(text)}: expected {{"queue": {{"0": position}}}}') from None
    if not isinstance(raw, dict) or not all(isinstance(partitions, dict) for partitions in raw.values()):
        raise OffsetError(f'{what} is {quoted(text)}: expected {{"queue": {{"0": position}}}}')
    positions = {
        Partition(QueueName(queue), _number(what, queue, number)): _position(what, queue, number, position)
        for queue, partitions in raw.items()
        for number, position in partitions.items()
    }
    _keep(text, positions)
    return positions


def offset_text(positions: Positions) -> str:
    """The JSON, in the order of queue and partition: the same positions are the same text."""
    made: dict[str, dict[str, int]] = {}
    for (queue, number), position in sorted(positions.items()):
        made.setdefault(queue, {})[str(number)] = position
    text = json.dumps(made, separators=(",", ":"))
    _keep(text, positions)
    return text


def _keep(text: str, positions: Positions) -> None:
    _known[text] = positions
    for oldest in list(_known)[:-_KEPT]:
        _known.pop(oldest, None)


def of_these_queues(positions: Positions, queues: Collection[QueueName], group: str) -> None:
    """Raises OffsetError where a checkpoint has positions of a queue that this fleet does not read."""
    foreign = sorted({partition.queue for partition in positions} - set(queues))
    if foreign:
        raise OffsetError(
            f"the checkpoint is of queue {', '.join(map(quoted, foreign[:5]))}, and the fleet of group {group} reads "
            f"{', '.join(sorted(queues))}: give the query a checkpoint of its own, or the fleet the queue"
        )


def _number(what: str, queue: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 10) or str(int(number)) != number:
        raise OffsetError(f"{what} names partition {quoted(number)} of queue {quoted(queue)}: expected a number from 0")
    return int(number)


def _position(what: str, queue: str, number: str, position: object) -> int:
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < _MOST:
        raise OffsetError(f"{what} has {quoted(str(position))} for {quoted(queue)}/{number}: expected a position, 0 or more")
    return position
