"""What happened in a step, told to people: events in their words, log lines, and histograms.

What happens to partitions is told in rounds, so that a large rebalance is a few sentences (`baton.controller.sentences`) and not
an event for each partition. A hand-off that begins is told when its queue has said what is still to be waited for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

import structlog

from baton.controller import sentences
from baton.controller.event_reasons import EventReason
from baton.controller.metrics import Metrics
from baton.controller.mirror import GroupKey
from baton.controller.problems import Problem, Reason
from baton.engine.happenings import (
    ApprovalRefused,
    Approved,
    Fenced,
    Granted,
    Happening,
    Proposed,
    Released,
    Revoked,
    StandsBy,
    State,
    StateChanged,
    Turned,
    Withdrawn,
)
from baton.kube.events import Events, Kind, Regarding
from baton.kube.times import to_text
from baton.model.ids import Partition
from baton.model.wording import counted

MOST_SENTENCES = 10
"""Of one kind in one round."""

BURST = 40
"""Sentences about partitions that may be told before they become fewer and rarer."""

REFILL = 0.2
"""Sentences a second in the long run; client-go filters a component's events of one object in the same way."""

ROUND, SLOW_ROUND = 1.0, 10.0
"""Seconds between two rounds: usually, and when the burst is used up."""

PATIENCE = 1.0
"""Seconds for which a hand-off waits to be told until its queue has answered."""

H = TypeVar("H", bound=Happening)


class Teller:
    """For one group."""

    def __init__(self, key: GroupKey, about: Regarding, events: Events, metrics: Metrics) -> None:
        self._key = key
        self._about = about
        self._events = events
        self._metrics = metrics
        self._held_since: float | None = None
        self._trouble: Problem | None = None
        self._untold: list[tuple[float, Happening]] = []
        """What happened to partitions since the last round, and when."""
        self._answers: dict[Partition, int | None] = {}
        """What queues said of hand-offs that are not yet told."""
        self._round_at = float("-inf")
        self._tokens = float(BURST)
        self._log = structlog.get_logger("baton.group").bind(namespace=key[0], group=key[1])

    def tell(self, happenings: Iterable[Happening], now: float) -> None:
        """All of one step."""
        happenings = list(happenings)
        self._measure(happenings, now)
        for one in happenings:
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
                        f"proposal {one.id} was approved: {counted(one.moves, 'partition')} change hands",
                    )
                case ApprovalRefused():
                    cure = f"the proposal is {one.current} now: look at it" if one.current else "nothing waits for approval"
                    self._say(
                        EventReason.APPROVAL_REFUSED, f"there is no proposal {one.id}, or not any more; {cure}", Kind.WARNING
                    )
                case Fenced():
                    self._say(EventReason.FENCED, f"{one.member} is fenced off: {one.why}", Kind.WARNING)
                case Revoked() | Turned() | Released() | Granted():
                    self._untold.append((now, one))
        self._standbys([one for one in happenings if isinstance(one, StandsBy)])
        self._go_round(now)

    def hear(self, unacknowledged: Mapping[Partition, int | None], now: float) -> None:
        """What the queues say is still to be acknowledged of partitions that are being handed over (None: they cannot say)."""
        for _, one in self._untold:
            if isinstance(one, Revoked) and one.partition in unacknowledged:
                self._answers.setdefault(one.partition, unacknowledged[one.partition])
        self._go_round(now)

    @property
    def due_at(self) -> float | None:
        """When there is something to tell, if nothing else happens; call `hear` then."""
        if not self._untold:
            return None
        return max(self._next_round(), min(self._ripe()))

    def flush(self) -> None:
        """Tell what is left."""
        self._round(self._untold)

    def trouble(self, problem: Problem | None) -> None:
        """What is wrong with the group; told when its reason changes, and when it is over."""
        if problem is not None and problem.reason is Reason.WAITING_FOR_QUEUE:
            problem = None  # it has not gone wrong
        before, self._trouble = self._trouble, problem
        if problem is not None and (before is None or before.reason is not problem.reason):
            self._say(problem.reason, problem.message, Kind.WARNING)
        elif problem is None and before is not None:
            self._say(EventReason.RECOVERED, f"{before.reason} is over")

    def warn(self, reason: EventReason, note: str) -> None:
        """Something that a person should look at."""
        self._say(reason, note, Kind.WARNING)

    def say(self, reason: EventReason, note: str) -> None:
        self._say(reason, note)

    # -- what happened to the group

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
                self._say(EventReason.READY, f"nothing moves, and nothing is waited for{because}")

    def _standbys(self, those: list[StandsBy]) -> None:
        if len(those) > MOST_SENTENCES:
            self._say(EventReason.STANDS_BY, f"{len(those):,} members stand by: there is nothing for them to own yet")
            return
        for one in those:
            self._say(EventReason.STANDS_BY, f"{one.member} stands by: there is nothing for it to own yet")

    # -- what happened to partitions

    def _go_round(self, now: float) -> None:
        due = self.due_at
        if due is None or now < due:
            return
        self._tokens = min(BURST, self._tokens + (now - self._round_at) * REFILL)
        self._round_at = now
        ripe = [at <= now for at in self._ripe()]
        self._round([entry for entry, is_ripe in zip(self._untold, ripe, strict=True) if is_ripe])
        self._untold = [entry for entry, is_ripe in zip(self._untold, ripe, strict=True) if not is_ripe]

    def _round(self, entries: Iterable[tuple[float, Happening]]) -> None:
        those = [one for _, one in entries]
        most = MOST_SENTENCES if self._tokens >= MOST_SENTENCES else 1
        told = sentences.revoked(_of(those, Revoked), self._answers, most)
        told += sentences.turned(_of(those, Turned), most)
        told += sentences.released(_of(those, Released), most)
        told += sentences.granted(_of(those, Granted), most)
        for sentence in told:
            self._say(*sentence)
        self._tokens = max(0.0, self._tokens - len(told))
        for partition in {_partition(one) for one in those}:
            self._answers.pop(partition, None)

    def _next_round(self) -> float:
        return self._round_at + (ROUND if self._tokens >= MOST_SENTENCES else SLOW_ROUND)

    def _ripe(self) -> list[float]:
        """From when each can be told. Where more has happened to a partition there is no answer to wait for any more."""
        happened = Counter(_partition(one) for _, one in self._untold)
        return [
            at + PATIENCE
            if isinstance(one, Revoked) and one.partition not in self._answers and happened[one.partition] == 1
            else at
            for at, one in self._untold
        ]

    def _measure(self, happenings: Iterable[Happening], now: float) -> None:
        for one in happenings:
            match one:
                case StateChanged(state=State.HOLDDOWN):
                    self._held_since = now if self._held_since is None else self._held_since
                case StateChanged() if self._held_since is not None:
                    self._metrics.holddown.labels(*self._key).observe(max(0.0, now - self._held_since))
                    self._held_since = None
                case Released():
                    self._log.debug(
                        "released", queue=one.partition.queue, partition=one.partition.number, member=one.member, how=one.how
                    )
                case Granted():
                    if one.paused_for is not None:
                        self._metrics.pause.labels(*self._key).observe(one.paused_for)
                    self._log.debug(
                        "granted",
                        queue=one.partition.queue,
                        partition=one.partition.number,
                        member=one.member,
                        epoch=one.epoch,
                        why=one.why,
                    )

    def _say(self, reason: str, note: str, kind: Kind = Kind.NORMAL) -> None:
        (self._log.warning if kind is Kind.WARNING else self._log.info)(note, reason=reason)
        self._events.post(self._about, kind, reason, note)


def _of(those: Iterable[Happening], kind: type[H]) -> list[H]:
    return [one for one in those if isinstance(one, kind)]


def _partition(one: Happening) -> Partition:
    assert isinstance(one, Revoked | Turned | Released | Granted)
    return one.partition
