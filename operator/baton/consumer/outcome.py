"""What became of an entry that was handed out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ack:
    """Finished with."""


@dataclass(frozen=True, slots=True)
class Nack:
    """It failed, and is to be tried again."""

    why: str


Outcome = Ack | Nack

ACK = Ack()
