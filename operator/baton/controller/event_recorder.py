"""What happened in a step, told to people: events in their words, log lines, and histograms.

What happens to partitions is told in rounds: a large rebalance is a few sentences (`baton.controller.event_messages`), not an
event for each partition. A hand-off that begins is told when its queue has said what is still to be waited for.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

import structlog

from baton.controller.cluster_cache import GroupKey
from baton.controller.event_messages import EventMessage, OfPartition
from baton.controller.event_reasons import EventReason
from baton.controller.event_rounds import MOST_SENTENCES, EventRounds
from baton.controller.large_work import aside
from baton.controller.metrics import Metrics
from baton.controller.problems import Problem, Reason
from baton.engine.step_events import (
    ApprovalRefused,
    Approved,
    Fenced,
    Granted,
    Proposed,
    Released,
    StandsBy,
    State,
    StateChanged,
    StepEvent,
    Withdrawn,
)
from baton.kube.events import Events, Kind, Regarding
from baton.model.ids import Partition
from baton.model.times import to_text
from baton.model.wording import counted

TROUBLE_APART = 10.0
"""Seconds between two sentences on a trouble whose reason stays: what is said of a thousand pods changes with each of them."""


_LAST = (State.READY, State.HOLDDOWN)
"""States that a step ends with; the others are what its hand-offs begin with."""


class EventRecorder:
    """Records the events of one group."""

    def __init__(self, key: GroupKey, about: Regarding, events: Events, metrics: Metrics) -> None:
        self._key = key
        self._about = about
        self._events = events
        self._metrics = metrics
        self._held_since: float | None = None
        self._trouble: Problem | None = None
        """As it was told last; None: there is none."""
        self._trouble_told_at = 0.0
        self._trouble_due_at: float | None = None
        self._rounds = EventRounds()
        self._log = structlog.get_logger("baton.group").bind(namespace=key[0], group=key[1])

    async def tell(self, events: Sequence[StepEvent], now: float) -> None:
        """Record everything that happened in one step."""
        await aside(len(events), self._measure, events, now)
        last = next((one for one in reversed(events) if isinstance(one, StateChanged)), None)
        for one in events:
            if not isinstance(one, OfPartition) and (one is not last or last.state not in _LAST):
                self._of_group(one)
        await self._turn([one for one in events if isinstance(one, OfPartition)], {}, now)
        self._standbys([one for one in events if isinstance(one, StandsBy)])
        if last is not None and last.state in _LAST:
            self._of_group(last)

    async def hear(self, unacknowledged: Mapping[Partition, int | None], now: float) -> None:
        """What the queues say is still to be acknowledged of partitions that are being handed off (None: they cannot say)."""
        if self._rounds.untold:
            await self._turn((), unacknowledged, now)

    @property
    def due_at(self) -> float | None:
        """When there is something to tell, if nothing else happens; call `hear` and `trouble` then."""
        return min((at for at in (self._rounds.due_at, self._trouble_due_at) if at is not None), default=None)

    def flush(self) -> None:
        """Record what still waits for its turn."""
        self._post(self._rounds.rest())

    def trouble(self, problem: Problem | None, now: float) -> None:
        """Record the group's problem: when its reason changes, when its message changes for the same reason (a Secret was
        missing, and now the server does not answer), and when it is over."""
        if problem is not None and problem.reason is Reason.WAITING_FOR_QUEUE:
            problem = None  # it has not gone wrong
        told, self._trouble_due_at = self._trouble, None
        if problem == told:
            return
        if problem is None:
            assert told is not None
            self._say(EventReason.RECOVERED, f"{told.reason} is over")
        elif told is not None and told.reason is problem.reason and now < self._trouble_told_at + TROUBLE_APART:
            self._trouble_due_at = self._trouble_told_at + TROUBLE_APART
            return
        else:
            self._say(problem.reason, problem.message, Kind.WARNING)
        self._trouble, self._trouble_told_at = problem, now

    def warn(self, reason: EventReason, note: str) -> None:
        """Something that a person should look at."""
        self._say(reason, note, Kind.WARNING)

    def say(self, reason: EventReason, note: str) -> None:
        self._say(reason, note)

    # -- what happened to the group

    def _of_group(self, one: StepEvent) -> None:
        match one:
            case StateChanged():
                self._state(one)
            case Proposed():
                instead = f" (instead of {one.instead_of})" if one.instead_of else ""
                self._say(
                    EventReason.PROPOSED,
                    f"proposal {one.id}{instead} would move {counted(one.moves, 'partition')}: {one.why}; look "
                    f"at it and approve it with `baton approve {self._key[1]} -n {self._key[0]}`",
                )
            case Withdrawn():
                self._say(EventReason.WITHDRAWN, f"proposal {one.id} is withdrawn: {one.why}")
            case Approved():
                self._say(
                    EventReason.APPROVED,
                    f"proposal {one.id} was approved: {counted(one.moves, 'partition changes', 'partitions change')} hands",
                )
            case ApprovalRefused():
                cure = f"the proposal is {one.current} now: look at it" if one.current else "nothing waits for approval"
                self._say(EventReason.APPROVAL_REFUSED, f"there is no proposal {one.id}, or not any more; {cure}", Kind.WARNING)
            case Fenced():
                self._say(EventReason.FENCED, f"{one.member} is fenced off: {one.why}", Kind.WARNING)

    def _state(self, change: StateChanged) -> None:
        because = f": {change.why}" if change.why else ""
        match change.state:
            case State.HOLDDOWN:
                until = f" until {to_text(change.until)}" if change.until is not None else ""
                self._say(EventReason.HOLDDOWN, f"waiting{until} before partitions are moved{because}")
            case State.REBALANCING:
                self._say(EventReason.REBALANCING, f"partitions change hands{because}")
            case State.PAUSED:
                self._say(EventReason.PAUSED, f"no new hand-off is begun{because}")
            case State.READY:
                waits = f"{counted(change.unowned, 'partition')} without an owner" if change.unowned else "nothing is waited for"
                self._say(EventReason.READY, f"nothing moves, and {waits}{because}")

    def _standbys(self, those: list[StandsBy]) -> None:
        if len(those) > MOST_SENTENCES:
            self._say(EventReason.STANDS_BY, f"{len(those):,} members stand by: there is nothing for them to own yet")
            return
        for one in those:
            self._say(EventReason.STANDS_BY, f"{one.member} stands by: there is nothing for it to own yet")

    # -- what happened to partitions

    async def _turn(self, happened: Sequence[OfPartition], unacknowledged: Mapping[Partition, int | None], now: float) -> None:
        much = len(happened) + self._rounds.untold
        self._post(await aside(much, self._rounds.turn, happened, unacknowledged, now))

    def _measure(self, events: Iterable[StepEvent], now: float) -> None:
        verbose, pause = logging.getLogger("baton.group").isEnabledFor(logging.DEBUG), None
        for one in events:
            match one:
                case StateChanged(state=State.HOLDDOWN):
                    self._held_since = now if self._held_since is None else self._held_since
                case StateChanged() if self._held_since is not None:
                    self._metrics.holddown.labels(*self._key).observe(max(0.0, now - self._held_since))
                    self._held_since = None
                case Released() if verbose:
                    self._log.debug(
                        "released", queue=one.partition.queue, partition=one.partition.number, member=one.member, how=one.how
                    )
                case Granted():
                    if one.paused_for is not None:
                        pause = pause or self._metrics.pause.labels(*self._key)  # looked up once: there may be very many
                        pause.observe(one.paused_for)
                    if verbose:
                        self._log.debug(
                            "granted",
                            queue=one.partition.queue,
                            partition=one.partition.number,
                            member=one.member,
                            epoch=one.epoch,
                            why=one.why,
                        )

    def _say(self, reason: str, note: str, kind: Kind = Kind.NORMAL) -> None:
        """In the order in which things happened: what is said of partitions may still wait for its round."""
        message = EventMessage(reason, note, kind)
        if self._rounds.untold:
            self._rounds.behind(message)
        else:
            self._post([message])

    def _post(self, messages: Iterable[EventMessage]) -> None:
        for reason, note, kind in messages:
            (self._log.warning if kind is Kind.WARNING else self._log.info)(note, reason=reason)
            self._events.post(self._about, kind, reason, note)
