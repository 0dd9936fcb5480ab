"""Batches of records, as brokers take them: which partition an output goes to, and how many go into one batch. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka.partitioner import murmur2
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from baton.queues.kafka.record import Token
from baton.queues.output import Output

MOST_BYTES = 900_000
"""Of a batch of several: brokers take a megabyte by default."""
_MAGIC = 2
_UNCOMPRESSED = 0
_SEQUENCES = 2**31


def partition_of(output: Output, partitions: int, source: int) -> int:
    """The number of the partition that an output goes to; `source` is the one that it came of."""
    if output.partition is not None:
        return output.partition
    if output.key is None:
        return source % partitions
    return int((murmur2(output.key) & 0x7FFFFFFF) % partitions)


def shared_out(
    outputs: Iterable[Output], partitions: Mapping[str, int], source: int
) -> dict[tuple[str, int], list[Sequence[Output]]]:
    """By topic and partition: batches, in the order in which they are to be sent. `partitions`: how many a topic has."""
    found: defaultdict[tuple[str, int], list[list[Output]]] = defaultdict(list)
    sizes: dict[tuple[str, int], int] = {}
    for output in outputs:
        place = (output.topic, partition_of(output, partitions[output.topic], source))
        size = output.size + _OVERHEAD + _OVERHEAD * len(output.headers)
        if not found[place] or sizes[place] + size > MOST_BYTES:
            found[place].append([])
            sizes[place] = 0
        found[place][-1].append(output)
        sizes[place] += size
    return {place: list(batches) for place, batches in found.items()}


_OVERHEAD = 30
"""Bytes of a record, or a header, beside what the program gave, at most."""


def encoded(outputs: Sequence[Output], token: Token, sequence: int) -> bytes:
    """One batch of a transaction under this token; `sequence` is that of its first record in this partition."""
    builder: Any = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=_UNCOMPRESSED,
        is_transactional=1,
        producer_id=token.producer,
        producer_epoch=token.epoch,
        base_sequence=sequence % _SEQUENCES,
        batch_size=2**31 - 1,
    )
    for number, output in enumerate(outputs):
        builder.append(number, None, output.key, output.value, list(output.headers.items()))
    return bytes(builder.build())
