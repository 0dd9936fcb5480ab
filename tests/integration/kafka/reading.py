"""Reading until there is something."""

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.kafka.reader import KafkaReader
from tests.waiting import until


def read(reader: KafkaReader, partition: int, epoch: int, count: int) -> list[Entry]:
    """So many entries, in the order in which they came."""
    found: list[Entry] = []

    def enough() -> bool:
        found.extend(reader.read(partition, Epoch(epoch), count - len(found)))
        return len(found) == count

    until(enough, f"there are {count} entries in partition {partition}")
    return found
