"""The results of a step: effects at the queues, and events for people.

The caller keeps the order: it writes the ledger of the new state first (compare-and-swap). Only after that write succeeded does
it carry out the effects. Effects are safe to repeat. Every step returns them again until an observation shows them done.

Events become the lines of `baton simulate`, Kubernetes events, metrics and logs.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from baton.model.ids import Epoch, MemberId, Partition, Uid


class Grant(NamedTuple):
    """Make this member the owner at the queue, which fences every earlier owner. The caller reports an Outcome.

    `member` and `uid` None: the partition is withdrawn, and gets no owner.
    """

    partition: Partition
    member: MemberId | None
    uid: Uid | None
    epoch: Epoch
    above: Epoch | None = None
    """The epoch of the last grant that the ledger counts as done.

    If the queue's owner record has an epoch above that and below this grant, the queue had accepted another grant, and the answer
    was lost. The caller then reports that record as the Outcome first. None: it does not."""


class Pause(NamedTuple):
    """Stop delivery of this partition to its owner at `epoch`; acknowledgements stay allowed.

    The caller reports the partition in `Observation.drained` as soon as nothing is outstanding.
    """

    partition: Partition
    epoch: Epoch
    deadline: float
    """When the owner loses the partition: Unix seconds, on the clock of the observations."""
    then: Grant | None = None
    """The grant to carry out as soon as nothing is outstanding, unless the owner makes it (direct hand-off). The ledger has the
    grant already. None: a later step decides what follows."""


Effect = Pause | Grant


# Events


class State(StrEnum):
    """A group's state, named as in Solace's rebalancing status."""

    READY = "Ready"
    HOLDDOWN = "Holddown"
    REBALANCING = "Rebalancing"
    PAUSED = "Paused"


class ReleaseCause(StrEnum):
    """The cause of a release."""

    CONSUMER = "consumer"
    DEADLINE = "deadline"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The group has another state, or its holddown another end."""

    state: State
    until: float | None = None
    """The end of a holddown, in seconds."""
    why: str = ""
    unowned: int = 0
    """The number of partitions without an owner."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A hand-off begins: the owner has to release the partition before the deadline (seconds, on the clock of `now`)."""

    partition: Partition
    member: MemberId
    epoch: Epoch
    deadline: float
    why: str = ""
    receiver: MemberId | None = None
    """The next owner; None: the partition is withdrawn, or waits without an owner."""


@dataclass(frozen=True, slots=True)
class Redirected:
    """A running hand-off got another receiver."""

    partition: Partition
    giver: MemberId | None
    """The owner until the grant; None: the partition has no owner."""
    receiver: MemberId | None
    instead_of: MemberId | None
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """An owner released a partition."""

    partition: Partition
    member: MemberId
    how: ReleaseCause


@dataclass(frozen=True, slots=True)
class DeadlineMissed:
    """A member did not release a partition by the deadline of its hand-off. Once per hand-off."""

    partition: Partition
    member: MemberId
    taken: bool
    """Whether the hand-off goes on without the member. Otherwise the member keeps the partition: its queue cannot fence, or
    `again`."""
    again: bool = False
    """Whether the partition is granted to the member again, because the hand-off went back to it."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A queue accepted a grant."""

    partition: Partition
    member: MemberId
    epoch: Epoch
    previous: MemberId | None = None
    """The last owner. A grant to another member is a move."""
    paused_for: float | None = None
    """Seconds from revoke to grant; None if no member had to release the partition."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class StandsBy:
    """A member takes part and owns no partition."""

    member: MemberId


@dataclass(frozen=True, slots=True)
class Fenced:
    """The older of two live pods with one identity was fenced off."""

    member: MemberId
    why: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """A plan waits for approval."""

    id: str
    moves: int
    why: str
    instead_of: str | None = None
    """The proposal that it replaces."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A proposal no longer fits and was withdrawn."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Approved:
    """A proposal was approved and begins."""

    id: str
    moves: int


@dataclass(frozen=True, slots=True)
class ApprovalRefused:
    """The approved id is not that of the current proposal."""

    id: str
    current: str | None
    """The id of the current proposal; None: there is none."""


StepEvent = (
    StateChanged
    | Revoked
    | Redirected
    | Released
    | DeadlineMissed
    | Granted
    | StandsBy
    | Fenced
    | Proposed
    | Withdrawn
    | Approved
    | ApprovalRefused
)
