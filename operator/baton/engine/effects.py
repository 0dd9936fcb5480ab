"""The effects of a step: what the caller does at the queues.

Effects are safe to repeat. Every step returns them again until an observation shows them done.

The caller keeps the order: it writes the ledger of the new state first (compare-and-swap). Only after that write succeeded does
it carry out the effects.
"""

from typing import NamedTuple

from baton.model.ids import Epoch, MemberId, Partition, Uid


class Grant(NamedTuple):
    """Make this member the owner at the queue, which fences every earlier owner. The caller reports an Outcome.

    `member` and `uid` None: the partition is withdrawn, and no member owns it.
    """

    partition: Partition
    member: MemberId | None
    uid: Uid | None
    epoch: Epoch
    above: Epoch | None = None
    """The epoch of the last grant that the ledger counts as done. If the queue was seen to have an owner above that, and below
    this grant, it had accepted another grant, and the answer was lost. Then that Outcome is reported first. None: it is not."""


class Pause(NamedTuple):
    """Stop delivery of this partition to its owner, who holds it at `epoch`; acknowledgements stay allowed.

    The caller then reports `Observation.drained` as soon as nothing is outstanding.
    """

    partition: Partition
    epoch: Epoch
    deadline: float
    """When the owner loses it: seconds since 1970, of the same clock as the observations'."""
    then: Grant | None = None
    """To be carried out as soon as nothing is outstanding, unless the owner has granted itself, by a direct hand-off: the ledger
    has it already. None: another step says what comes next."""


Effect = Pause | Grant
