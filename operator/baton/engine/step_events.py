"""What happened in a step, for people: the lines of `baton simulate`, Kubernetes events, metrics and logs all come from here."""

from dataclasses import dataclass
from enum import StrEnum

from baton.model.ids import Epoch, MemberId, Partition


class State(StrEnum):
    """A group's state, in the words of Solace's rebalancing status."""

    READY = "Ready"
    HOLDDOWN = "Holddown"
    REBALANCING = "Rebalancing"
    PAUSED = "Paused"


class How(StrEnum):
    """How a partition came free."""

    CONSUMER = "consumer"
    DEADLINE = "deadline"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The group is in another state, or in the same with another end."""

    state: State
    until: float | None = None
    """Holddown: when it ends."""
    why: str = ""
    unowned: int = 0
    """Partitions that nobody owns."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A hand-off begins: its owner has to let go until the deadline (seconds, on the clock of `now`)."""

    partition: Partition
    member: MemberId
    epoch: Epoch
    deadline: float
    why: str = ""
    receiver: MemberId | None = None
    """To whom it goes; None: the partition is withdrawn, or waits without an owner."""


@dataclass(frozen=True, slots=True)
class Redirected:
    """A hand-off under way goes to another than was meant."""

    partition: Partition
    giver: MemberId | None
    """Who still has it; None: nobody."""
    receiver: MemberId | None
    instead_of: MemberId | None
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """A partition came free."""

    partition: Partition
    member: MemberId
    how: How


@dataclass(frozen=True, slots=True)
class Granted:
    """A queue has taken a grant."""

    partition: Partition
    member: MemberId
    epoch: Epoch
    previous: MemberId | None = None
    """Its last owner; a grant to another than this is a move."""
    paused_for: float | None = None
    """Seconds from revoke to grant; None for a grant that nobody had to release."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class StandsBy:
    """A member takes part and has nothing to own."""

    member: MemberId


@dataclass(frozen=True, slots=True)
class Fenced:
    """One of two live pods with the same identity was fenced off."""

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
    """A proposal was overtaken."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Approved:
    """A proposal is carried out."""

    id: str
    moves: int


@dataclass(frozen=True, slots=True)
class ApprovalRefused:
    """Somebody approved what is no proposal, or none any more."""

    id: str
    current: str | None
    """The proposal there is."""


StepEvent = (
    StateChanged
    | Revoked
    | Redirected
    | Released
    | Granted
    | StandsBy
    | Fenced
    | Proposed
    | Withdrawn
    | Approved
    | ApprovalRefused
)
