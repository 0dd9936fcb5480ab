"""Parses and checks the source's offsets and options, as users and Spark write them.

An offset is JSON, `{"orders": {"0": 17, "1": 4}}`: queue, partition, position. A position is the number of the last entry that
was read. Beside the partitions of a topic there is its id: `{"orders": {"0": 17, "id": "cD3x…"}}`.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from baton.model.ids import Partition, QueueName
from baton.model.wording import quoted

# -- what is raised instead of an answer to Spark


class SourceError(Exception):
    """Ends the query. The user reads its text, which says what is wrong and how to fix it."""


class AskAgain(Exception):  # noqa: N818 - nothing is wrong
    """No answer yet: Spark's thread asks again after this time, unless its query is stopped."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(milliseconds)
        self.milliseconds = milliseconds


# -- offsets

Positions = Mapping[Partition, int]

LONGEST = 16 * 1024 * 1024
"""Most characters of an offset: a million partitions need fewer."""
_MOST = 2**63
_ID = "id"


@lru_cache(maxsize=8)  # Spark names the same offset several times in a batch
def parse_offset(text: str, what: str = "the offset") -> Positions:
    """Parse an offset. `what`: its name in the message of a SourceError."""
    if len(text) > LONGEST:
        raise SourceError(f"{what} has {len(text):,} characters: expected at most {LONGEST:,}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise SourceError(f'{what} is not JSON, {quoted(text)}: expected {{"queue": {{"0": position}}}}') from None
    if not isinstance(raw, dict) or not all(isinstance(partitions, dict) for partitions in raw.values()):
        raise SourceError(f'{what} is {quoted(text)}: expected {{"queue": {{"0": position}}}}')
    return {
        Partition(QueueName(queue), _number(what, queue, number)): _position(what, queue, number, position)
        for queue, partitions in raw.items()
        for number, position in partitions.items()
        if not (number == _ID and isinstance(position, str))
    }


@lru_cache(maxsize=8)
def log_ids(text: str) -> Mapping[QueueName, str]:
    """The ids of the logs in which an offset, which can be parsed, has positions. Queues without an id are missing."""
    return {QueueName(queue): partitions[_ID] for queue, partitions in json.loads(text).items() if _ID in partitions}


def offset_text(positions: Positions, ids: Mapping[QueueName, str] = MappingProxyType({})) -> str:
    """The JSON of positions, sorted by queue and partition, so that equal positions have equal texts. `ids`: see `log_ids`."""
    made: dict[QueueName, dict[str, int | str]] = {}
    for (queue, number), position in sorted(positions.items()):
        made.setdefault(queue, {})[str(number)] = position
    for queue in made.keys() & ids.keys():
        made[queue][_ID] = ids[queue]
    return json.dumps(made, separators=(",", ":"))


def of_these_queues(positions: Positions, queues: Collection[QueueName], group: str) -> None:
    """Raises SourceError if a checkpoint has positions of a queue that this fleet does not read."""
    foreign = sorted({partition.queue for partition in positions} - set(queues))
    if foreign:
        raise SourceError(
            f"the checkpoint has positions of queue {', '.join(map(quoted, foreign[:5]))}, and the fleet of group {group} reads "
            f"{', '.join(sorted(queues))}: use another checkpoint, or add the queue to the fleet"
        )


def _number(what: str, queue: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 10) or str(int(number)) != number:
        raise SourceError(f"{what} names partition {quoted(number)} of queue {quoted(queue)}: expected a number from 0")
    return int(number)


def _position(what: str, queue: str, number: str, position: object) -> int:
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < _MOST:
        raise SourceError(f"{what} has {quoted(str(position))} for {quoted(queue)}/{number}: expected a position, 0 or more")
    return position


# -- the options of `spark.readStream.format("baton")` and of `spark.read.format("baton")`

MAX_ROWS = 200_000
MAX_BYTES = 256 * 1024 * 1024
_MOST_COUNTED = 2**53

_STREAM = {
    "group": "group",
    "startingoffsets": "startingOffsets",
    "failondataloss": "failOnDataLoss",
    "maxrowspertrigger": "maxRowsPerTrigger",
    "maxbytespertrigger": "maxBytesPerTrigger",
}
_KAFKA_NAMES = {"maxoffsetspertrigger": "maxrowspertrigger", "subscribe": "group"}
"""Names of options in Spark's Kafka source, and of their counterparts here."""
_BATCH = {"group": "group", "startingoffsets": "startingOffsets", "endingoffsets": "endingOffsets"}


class OffsetPlace(StrEnum):
    """Named places to begin or end at."""

    COMMITTED = "committed"
    """After the entries that the queue has as finished."""
    EARLIEST = "earliest"
    """Before the first existing entry."""
    LATEST = "latest"
    """After the last existing entry."""


Offsets = OffsetPlace | Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of `readStream`."""

    starting: Offsets = OffsetPlace.COMMITTED
    """Where a query without a checkpoint begins. Partitions without a position begin at the committed offset."""
    fail_on_data_loss: bool = True
    max_rows: int = MAX_ROWS
    """Rows per batch, over all partitions."""
    max_bytes: int = MAX_BYTES
    """Bytes per batch, over all partitions; each partition in the batch has at least one entry. Approximate for a queue that
    does not know the sizes of its entries."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of `read`."""

    starting: Offsets = OffsetPlace.EARLIEST
    ending: Offsets = OffsetPlace.LATEST


def stream_options(options: Mapping[str, str], group: str, queues: Collection[QueueName]) -> StreamOptions:
    """Check Spark's options, which have lower-case names. Raises SourceError."""
    _all_known(options, _STREAM, group, "a stream")
    return StreamOptions(
        starting=_offsets(options, "startingoffsets", queues, OffsetPlace.COMMITTED, tuple(OffsetPlace)),
        fail_on_data_loss=_switch(options, "failondataloss", default=True),
        max_rows=_count(options, "maxrowspertrigger", MAX_ROWS),
        max_bytes=_count(options, "maxbytespertrigger", MAX_BYTES),
    )


def batch_options(options: Mapping[str, str], group: str, queues: Collection[QueueName]) -> BatchOptions:
    """Check Spark's options, which have lower-case names. Raises SourceError."""
    _all_known(options, _BATCH, group, "a batch read")
    made = BatchOptions(
        starting=_offsets(
            options, "startingoffsets", queues, OffsetPlace.EARLIEST, (OffsetPlace.COMMITTED, OffsetPlace.EARLIEST)
        ),
        ending=_offsets(options, "endingoffsets", queues, OffsetPlace.LATEST, (OffsetPlace.COMMITTED, OffsetPlace.LATEST)),
    )
    if isinstance(made.starting, Mapping) and isinstance(made.ending, Mapping):
        for partition, start in made.starting.items():
            if made.ending.get(partition, start) < start:
                raise SourceError(
                    f"endingOffsets has {made.ending[partition]} for {partition.queue}/{partition.number}, which is before "
                    f"startingOffsets, {start}"
                )
    return made


def _all_known(options: Mapping[str, str], known: Mapping[str, str], group: str, what: str) -> None:
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise SourceError(
            f"{what} has no option {quoted(unknown[0])}{_hint(unknown[0], known)}: it has {', '.join(known.values())}"
        )
    if options.get("group", group) != group:
        raise SourceError(f"the option group is {quoted(options['group'])}, and the fleet's group is {group}")


def _hint(unknown: str, known: Mapping[str, str]) -> str:
    if unknown in _STREAM or unknown in _BATCH:
        return f" (only a {'stream' if unknown in _STREAM else 'batch read'} has it)"
    near = [known[name] for name in get_close_matches(_KAFKA_NAMES.get(unknown, unknown), known, n=1)]
    return f" (did you mean {near[0]}?)" if near else ""


def _offsets(
    options: Mapping[str, str], name: str, queues: Collection[QueueName], default: OffsetPlace, places: Collection[OffsetPlace]
) -> Offsets:
    text = options.get(name)
    if text is None:
        return default
    spelled = {**_STREAM, **_BATCH}[name]
    if text.lower() in {place.value for place in places}:
        return OffsetPlace(text.lower())
    if not text.lstrip().startswith("{"):
        known = ", ".join(place.value for place in places)
        raise SourceError(f'{spelled} is {quoted(text)}: set it to {known}, or {{"queue": {{"0": position}}}}')
    positions = parse_offset(text, spelled)
    if ids := log_ids(text):
        raise SourceError(f"{spelled} has an id for queue {quoted(next(iter(ids)))}, as a checkpoint does: leave it out")
    for partition in positions:
        if partition.queue not in queues:
            raise SourceError(f"{spelled} names queue {quoted(partition.queue)}: the fleet reads {', '.join(sorted(queues))}")
    return positions


def _switch(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise SourceError(f"{_STREAM[name]} is {quoted(text)}: set it to true or false")
    return text == "true"


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 16) or not 0 < int(text) <= _MOST_COUNTED:
        raise SourceError(f"{_STREAM[name]} is {quoted(text)}: set it to a whole number, 1 or more")
    return int(text)
