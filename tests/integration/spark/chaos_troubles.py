"""What befalls two drivers of one group, their executors and their servers, by a seed."""

import random
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    DRIVER_KILLED = "the driver that has the Lease gets SIGKILL, with its executors"
    DRIVER_STOPPED = "the driver that has the Lease gets SIGSTOP, with its executors"
    EXECUTOR_KILLED = "an executor gets SIGKILL"
    EXECUTOR_STOPPED = "an executor gets SIGSTOP"
    QUEUE_RESTARTED = "Redis gets SIGKILL, and starts again"
    QUEUE_FULL = "Redis has no memory for more"
    QUEUE_CUT_OFF = "the driver that has the Lease does not reach Redis"
    API_ANSWERS_LOST = "the API server's answers to the driver that has the Lease are lost, and its ledger stands still"
    GRANTED_ON = "partitions are taken back, and granted on released or not"
    RESIZED = "the queue gets another number of partitions"


class Trouble(NamedTuple):
    at: float
    """Seconds after the first rows."""
    lasts: float
    kind: Kind
    dice: int
    """For whom it befalls and by how much."""


OFTEN = (Kind.GRANTED_ON, Kind.GRANTED_ON, Kind.GRANTED_ON)
_LONGEST = {Kind.DRIVER_STOPPED: 8.0, Kind.EXECUTOR_STOPPED: 8.0, Kind.API_ANSWERS_LOST: 6.0, Kind.GRANTED_ON: 1.5}


def troubles(seed: int, seconds: float) -> Iterator[Trouble]:
    """Each kind once at least, in the order of their times, some while others last."""
    chance = random.Random(seed)
    kinds = [*Kind, *OFTEN]
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        at = seconds * (number + chance.random()) / len(kinds)
        lasts = round(chance.uniform(0.1, 1.0) * _LONGEST.get(kind, 3.0), 2)
        yield Trouble(round(at, 2), lasts, kind, chance.randrange(1 << 30))
