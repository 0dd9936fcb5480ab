"""Random faults for two drivers of one group, their executors and their servers, by a seed."""

import random
from collections.abc import Iterable, Iterator
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
    kind: Kind
    pause: float
    """Seconds after the previous fault."""
    at_work: bool
    """Whether to wait until the fleet has recovered from the previous fault: rows have been written since."""
    lasts: float
    dice: int
    """Chooses the affected process, and the extent."""

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.lasts:g} s)" if self.kind in _LAST else self.kind.value


_LAST = frozenset(Kind) - {Kind.DRIVER_KILLED, Kind.EXECUTOR_KILLED, Kind.RESIZED}
_OFTEN = (Kind.GRANTED_ON, Kind.GRANTED_ON, Kind.GRANTED_ON)
_AT_WORK = 0.7
_LONGEST = {Kind.DRIVER_STOPPED: 8.0, Kind.EXECUTOR_STOPPED: 8.0, Kind.API_ANSWERS_LOST: 6.0, Kind.GRANTED_ON: 1.5}


_FEW = (Kind.DRIVER_KILLED, Kind.EXECUTOR_KILLED, Kind.API_ANSWERS_LOST, Kind.GRANTED_ON)


def troubles(seed: int) -> Iterator[Trouble]:
    """Each kind of fault at least once. Some hit a fleet at work, others a fleet that has not recovered."""
    return _by_seed(seed, (*Kind, *_OFTEN))


def a_few_troubles(seed: int) -> Iterator[Trouble]:
    """The most important faults, in a minute and a half."""
    return _by_seed(seed, _FEW)


def _by_seed(seed: int, kinds: Iterable[Kind]) -> Iterator[Trouble]:
    chance, shuffled = random.Random(seed), list(kinds)
    chance.shuffle(shuffled)
    for kind in shuffled:
        lasts = round(chance.uniform(0.1, 1.0) * _LONGEST.get(kind, 3.0), 2)
        yield Trouble(kind, round(chance.uniform(0.0, 3.0), 2), chance.random() < _AT_WORK, lasts, chance.randrange(1 << 30))
