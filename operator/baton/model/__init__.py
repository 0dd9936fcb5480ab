"""Values that all layers share. No I/O, no clock."""

from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ranges import Grants, format_grants, format_numbers, parse_grants, parse_numbers

__all__ = [
    "Epoch",
    "Grants",
    "MemberId",
    "Partition",
    "QueueName",
    "Uid",
    "format_grants",
    "format_numbers",
    "parse_grants",
    "parse_numbers",
]
