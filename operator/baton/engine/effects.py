"""What the engine wants done.

Effects are safe to carry out twice, and are asked for again until an observation shows them done.

The order is the caller's duty: the ledger of the new state is written first (compare-and-swap); only when that write
succeeded are the effects carried out.
"""

from typing import NamedTuple

from baton.model.ids import Epoch, MemberId, Partition, Uid


class Pause(NamedTuple):
    """Stop delivery of this partition to its owner, who holds it at `epoch`; acknowledgements stay allowed.

    The caller then reports `Observation.drained` as soon as nothing is outstanding.
    """

    partition: Partition
    epoch: Epoch
    deadline: float
    """When the owner loses it: seconds since 1970, of the same clock as the observations'."""


class Grant(NamedTuple):
    """Make this member the owner at the queue, which fences everybody before. The caller reports an Outcome.

    `member` and `uid` None: nobody (a partition that is withdrawn).
    """

    partition: Partition
    member: MemberId | None
    uid: Uid | None
    epoch: Epoch


Effect = Pause | Grant
