"""What a producer is to do next (outbox.py)."""

from typing import Final

from baton.queues.redis.outgoing import Waiting


class ReadTable:
    """See which partition has which slot (`Outbox.routed`)."""


READ_TABLE: Final = ReadTable()
Round = dict[int, list[Waiting]]
"""To be sent in one round trip, by partition (`Outbox.answered` or `failed` for each)."""
