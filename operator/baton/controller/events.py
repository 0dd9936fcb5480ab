"""Kubernetes events of a group: their reasons and sentences, the rounds in which they are posted, log lines, and histograms.

Events about partitions are posted in rounds: similar ones share a sentence, and one sentence sums up what would be too many to
read. A hand-off that begins and ends in one round has one event, that of its grant.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import structlog

from baton.controller.large_work import aside
from baton.controller.metrics import Metrics
from baton.controller.problems import JOINED, PASSING, EventReason, Problem, Reason
from baton.engine.results import (
    ApprovalRefused,
    Approved,
    DeadlineMissed,
    Fenced,
    Granted,
    Proposed,
    Redirected,
    ReleaseCause,
    Released,
    Revoked,
    StandsBy,
    State,
    StateChanged,
    StepEvent,
    Withdrawn,
)
from baton.kube.events import LONGEST_NOTE, Events, Kind, Regarding
from baton.model.ids import MemberId, Partition
from baton.model.ranges import format_numbers
from baton.model.times import to_text
from baton.model.wording import counted

log = structlog.get_logger("baton.group")

OfPartition = Revoked | Redirected | Released | DeadlineMissed | Granted
H = TypeVar("H", Revoked, Redirected, Released | DeadlineMissed, Granted)

LONGEST_LIST = 240
"""Characters of a list of partitions; the ledger has all of them."""

MOST_GIVERS = 3
"""Most givers named in one sentence."""


class EventMessage(NamedTuple):
    """An event to be posted: a reason for programs, a sentence for people."""

    reason: str
    note: str
    kind: Kind = Kind.NORMAL


def revoked(those: Sequence[Revoked], unacknowledged: Mapping[Partition, int | None], most: int) -> list[EventMessage]:
    """Return messages about hand-offs that have begun. `unacknowledged`: outstanding messages, as their queues report them."""

    def sentence(some: list[Revoked]) -> str:
        return f"{_goes(some)}{_because(some)}; {_waits(some, unacknowledged)}"

    alike = _alike(those, lambda one: (one.member, one.receiver, one.why, one.deadline))
    if len(alike) > most:
        alike = _alike(those, lambda one: one.receiver)
    if len(alike) > most:
        alike = [list(those)]
    return [EventMessage(EventReason.REVOKING, sentence(some)) for some in alike]


def redirected(those: Sequence[Redirected], most: int) -> list[EventMessage]:
    """Return messages about hand-offs that got another receiver."""
    alike = _alike(those, lambda one: (one.receiver, one.instead_of, one.why))
    if len(alike) > most:
        return [EventMessage(EventReason.REDIRECTED, f"{_counted(those)} get other receivers{_because(those)}")]
    return [
        EventMessage(
            EventReason.REDIRECTED,
            f"{named(some)} {_verb(some, 'goes', 'go')} to {some[0].receiver or 'no member for now'} instead of "
            f"{some[0].instead_of or 'no member'}{_because(some)}",
        )
        for some in alike
    ]


def released(those: Sequence[Released | DeadlineMissed], most: int) -> list[EventMessage]:
    """Return messages about members that released partitions, are gone, or missed a deadline."""
    messages: list[EventMessage] = []
    for how, (reason, kind, sentence) in _RELEASES.items():
        of = [one for one in those if _how(one) == how]
        members = _alike(of, lambda one: one.member)
        if len(members) > most:
            note = sentence.format(who=f"{len(members):,} members", are="are", leave="leave", what=_counted(of))
            messages.append(EventMessage(reason, note, kind))
            continue
        for some in members:
            note = sentence.format(who=some[0].member, are="is", leave="leaves", what=named(some))
            messages.append(EventMessage(reason, note, kind))
    return messages


def _how(one: Released | DeadlineMissed) -> str:
    if isinstance(one, Released):
        return one.how
    return "again" if one.again else "taken" if one.taken else "kept"


def granted(those: Sequence[Granted], most: int) -> list[EventMessage]:
    """Return messages about members that got partitions."""
    members = _alike(those, lambda one: one.member)
    if len(members) > most:
        note = f"{len(members):,} members own {_counted(those)} more{_paused(those)}{_because(those)}"
        return [EventMessage(EventReason.GRANTED, note)]
    alike = _alike(those, lambda one: (one.member, one.previous, one.paused_for is None, one.why))
    notes = (
        f"{some[0].member} owns {_from_givers(some)}{_paused(some)}{_because(some)}"
        for some in (alike if len(alike) <= most else members)
    )
    return [EventMessage(EventReason.GRANTED, note) for note in notes]


def name_givers(those: Sequence[Granted], most: int) -> bool:
    """Whether the messages of `granted` name the previous owner of each partition."""
    members = _alike(those, lambda one: one.member)
    return len(members) <= most and all(len(_by_giver(some)) <= MOST_GIVERS for some in members)


def named(those: Iterable[OfPartition]) -> str:
    """Name the partitions: `partition 5 of orders`, `partitions 0-3,7 of orders and 2 of returns`."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in sorted({Partition(*one.partition) for one in those}):
        numbers[partition.queue].append(partition.number)
    parts = " and ".join(f"{_short(format_numbers(of))} of {queue}" for queue, of in numbers.items())
    return f"{'partition' if sum(map(len, numbers.values())) == 1 else 'partitions'} {parts}"


_OFTEN = "if this happens often, raise maxHandoffSeconds or make the consumer's batches smaller"

_RELEASES: Mapping[ReleaseCause | Literal["taken", "again", "kept"], tuple[EventReason, Kind, str]] = {
    ReleaseCause.CONSUMER: (EventReason.RELEASED, Kind.NORMAL, "{who} released {what}"),
    ReleaseCause.GONE: (EventReason.GONE, Kind.NORMAL, "{who} {are} gone, and {leave} {what}"),
    "taken": (
        EventReason.DEADLINE_MISSED,
        Kind.WARNING,
        "{who} did not release {what} in time. The hand-off goes on, and a queue that fences rejects the former owner from then "
        f"on. Unfinished entries are delivered again to the next owner; {_OFTEN}",
    ),
    "again": (
        EventReason.DEADLINE_MISSED,
        Kind.WARNING,
        "{who} did not release {what} in time, and {are} granted the same again with a higher epoch. A queue that fences "
        f"delivers unfinished entries again; {_OFTEN}",
    ),
    "kept": (
        EventReason.DEADLINE_MISSED,
        Kind.WARNING,
        "{who} did not release {what} in time. The queue cannot fence a former owner off, so the hand-off waits for the release. "
        "If the pod hangs, stop it, or set spec.source.external.onDeadline to Force",
    ),
}
"""By what happened: reason, kind and sentence of the event."""


def _goes(those: Sequence[Revoked]) -> str:
    givers, receivers = {one.member for one in those}, {one.receiver for one in those}
    if len(receivers) > 1:
        return f"{_counted(those)} go from {len(givers):,} members to {len(receivers):,}"
    receiver = those[0].receiver
    if len(givers) > 1:
        where = "are taken back" if receiver is None else f"go to {receiver}"
        return f"{_counted(those)} {where} from {len(givers):,} members ({named(those)})"
    giver = those[0].member
    if receiver is None:
        return f"{named(those)} {_verb(those, 'is', 'are')} taken back from {giver}"
    if receiver == giver:
        return f"{named(those)} {_verb(those, 'pauses, and stays', 'pause, and stay')} with {giver}"
    return f"{named(those)} {_verb(those, 'goes', 'go')} from {giver} to {receiver}"


def _waits(those: Sequence[Revoked], unacknowledged: Mapping[Partition, int | None]) -> str:
    until = f"until {to_text(max(one.deadline for one in those))} at most"
    waits = _verb(those, "waits", "they wait")
    known = [count for one in those if (count := unacknowledged.get(one.partition)) is not None]
    if len(known) < len(those):
        giver = those[0].member if len({one.member for one in those}) == 1 else "their givers"
        return f"{waits} for {giver} to release {_verb(those, 'it', 'them')}, {until}"
    messages = sum(known)
    if not messages:
        return "nothing is unacknowledged"
    return f"{waits} for {counted(messages, 'unacknowledged message')}, {until}"


def _from_givers(those: Sequence[Granted]) -> str:
    """Name the partitions by their givers: `partition 0 of orders from a and partitions 2-5 of orders from b`."""
    givers = _by_giver(those)
    if len(givers) > MOST_GIVERS:
        return named(those)
    return " and ".join(f"{named(some)}{f' from {giver}' if giver else ''}" for giver, some in givers.items())


def _by_giver(those: Sequence[Granted]) -> dict[MemberId | None, list[Granted]]:
    by: dict[MemberId | None, list[Granted]] = defaultdict(list)
    for one in those:
        by[None if one.previous == one.member else one.previous].append(one)
    return by


def _paused(those: Sequence[Granted]) -> str:
    pauses = [one.paused_for for one in those if one.paused_for is not None]
    if not pauses:
        return ""
    return f", paused for {max(pauses):.1f} s" + (" at most" if len(pauses) > 1 else "")


def _because(those: Sequence[Revoked | Redirected | Granted]) -> str:
    why = sorted({one.why for one in those if one.why})
    more = f" and {counted(len(why) - 1, 'more cause')}" if len(why) > 1 else ""
    return f": {why[0]}{more}" if why else ""


def _counted(those: Sequence[OfPartition]) -> str:
    queues = sorted({one.partition.queue for one in those})
    of = f" of {queues[0]}" if len(queues) == 1 else f" of {len(queues)} queues"
    return f"{counted(len(those), 'partition')}{of}"


def _verb(those: Sequence[object], one: str, many: str) -> str:
    return one if len(those) == 1 else many


def _short(numbers: str) -> str:
    return numbers if len(numbers) <= LONGEST_LIST else numbers[: numbers.rindex(",", 0, LONGEST_LIST) + 1] + "…"


def _alike(those: Iterable[H], key: Callable[[H], Hashable]) -> list[list[H]]:
    by: dict[Hashable, list[H]] = defaultdict(list)
    for one in those:
        by[key(one)].append(one)
    return list(by.values())


MOST_SENTENCES = 3
"""Most sentences of one kind in one round."""

BURST = 40
"""Messages before those about partitions become fewer and rarer."""

REFILL = 0.2
"""Messages per second in the long run; client-go limits a component's events about one object in the same way."""

ROUND, SLOW_ROUND = 1.0, 10.0
"""Seconds between two rounds: usually, and when the burst is used up."""

PATIENCE = 1.0
"""Seconds for which the first event of a round waits: for the answers of queues, and for what follows."""

Happened = TypeVar("Happened", bound=OfPartition)


def _joined(messages: Iterable[EventMessage]) -> list[EventMessage]:
    """Join messages of one reason that are not warnings, because posting an event costs as much as writing the ledger. And the
    group is Ready at the end of the grant that made it so."""
    made: list[EventMessage] = []
    for one in messages:
        reason = made[-1].reason if made and made[-1].kind is Kind.NORMAL else None
        between = JOINED if one.reason == reason else "; " if (reason, one.reason) == _END else None
        if between and one.kind is Kind.NORMAL and len((note := f"{made[-1].note}{between}{one.note}").encode()) <= LONGEST_NOTE:
            made[-1] = made[-1]._replace(note=note)
        else:
            made.append(one)
    return made


_END = (EventReason.GRANTED, EventReason.READY)


def _of(those: Iterable[OfPartition], kind: type[Happened]) -> list[Happened]:
    return [one for one in those if isinstance(one, kind)]


TROUBLE_APART = 10.0
"""Seconds between two events about a problem with the same reason, because a message about a thousand pods changes often."""


_LAST = (State.READY, State.HOLDDOWN)
"""Changes to these states are posted after the events of their step, others before them."""


class EventRecorder:
    """Records the events of one group."""

    def __init__(self, about: Regarding, events: Events, metrics: Metrics) -> None:
        self._key = (about.namespace, about.name)
        self._about, self._events, self._metrics = about, events, metrics
        self._held_since: float | None = None
        self._trouble: Problem | None = None
        """The problem of the last event; None: no problem."""
        self._trouble_posted_at = 0.0
        self._trouble_due_at: float | None = None
        self._absent_since: float | None = None
        """Since when a queue has been missing."""
        self._waiting: list[tuple[float, OfPartition | EventMessage]] = []
        """Times and events that wait for a round, in order. Messages about the group itself keep their place among them."""
        self._answers: dict[Partition, int | None] = {}
        """Outstanding messages of hand-offs whose event waits, as their queues reported them."""
        self._round_at = float("-inf")
        self._round_due_at: float | None = None
        """When the next round is due, if nothing else happens."""
        self._tokens = float(BURST)

    async def record(self, events: Sequence[StepEvent], now: float) -> None:
        """Record the events of a step."""
        await aside(len(events), self._measure, events, now)
        last = next((one for one in reversed(events) if isinstance(one, StateChanged)), None)
        for one in events:
            if not isinstance(one, OfPartition) and (one is not last or last.state not in _LAST):
                self._of_group(one)
        await self._play_round([one for one in events if isinstance(one, OfPartition)], {}, now)
        self._standbys([one for one in events if isinstance(one, StandsBy)])
        if last is not None and last.state in _LAST:
            self._of_group(last)

    async def post_due(self, unacknowledged: Mapping[Partition, int | None], now: float) -> None:
        """Post events that are due. `unacknowledged`: the outstanding messages of partitions that are being handed off, as their
        queues report them (None: the owner has not released the partition, and the queue gives no number)."""
        if self._waiting:
            await self._play_round((), unacknowledged, now)

    @property
    def due_at(self) -> float | None:
        """When to call `post_due` and `record_problem` next, if nothing else happens; None: no event waits."""
        return min((at for at in (self._round_due_at, self._trouble_due_at) if at is not None), default=None)

    def flush(self) -> None:
        """Post all events that wait."""
        self._post(self._messages())

    def record_problem(self, problem: Problem | None, now: float) -> None:
        """Record the group's problem. An event is posted when the reason or the message changes (a Secret was missing, and now
        the server does not answer), and when the problem is over."""
        if problem is not None and problem.reason is Reason.WAITING_FOR_QUEUE:
            problem = None  # nothing has gone wrong yet
        before, self._trouble_due_at = self._trouble, None
        if problem is None or problem.reason is not Reason.QUEUE_NOT_FOUND:
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = now
        if problem == before:
            return
        if self._absent_since is not None and now < self._absent_since + PASSING:  # applied together, the group may come first
            self._trouble_due_at = self._absent_since + PASSING
            return
        if problem is None:
            assert before is not None
            self.record_message(EventReason.RECOVERED, f"{before.reason} is over")
        elif before is not None and before.reason is problem.reason and now < self._trouble_posted_at + TROUBLE_APART:
            self._trouble_due_at = self._trouble_posted_at + TROUBLE_APART
            return
        else:
            self.record_message(problem.reason, problem.message, Kind.NORMAL if problem.expected else Kind.WARNING)
        self._trouble, self._trouble_posted_at = problem, now

    def warn(self, reason: EventReason, note: str) -> None:
        """Record a warning."""
        self.record_message(reason, note, Kind.WARNING)

    def record_message(self, reason: str, note: str, kind: Kind = Kind.NORMAL) -> None:
        """Record a message. It is posted after the events about partitions that still wait for a round."""
        message = EventMessage(reason, note, kind)
        if self._waiting:
            self._waiting.append((self._waiting[-1][0], message))
        else:
            self._post([message])

    # -- events about the group

    def _of_group(self, one: StepEvent) -> None:
        match one:
            case StateChanged():
                self._state(one)
            case Proposed():
                instead = f" (instead of {one.instead_of})" if one.instead_of else ""
                self.record_message(
                    EventReason.PROPOSED,
                    f"proposal {one.id}{instead} would move {counted(one.moves, 'partition')}: {one.why}; look "
                    f"at it and approve it with `baton approve {self._key[1]} -n {self._key[0]}`",
                )
            case Withdrawn():
                self.record_message(EventReason.WITHDRAWN, f"proposal {one.id} is withdrawn: {one.why}")
            case Approved():
                self.record_message(
                    EventReason.APPROVED,
                    f"proposal {one.id} was approved: {counted(one.moves, 'partition changes', 'partitions change')} hands",
                )
            case ApprovalRefused():
                cure = f"the current proposal is {one.current}: review it" if one.current else "nothing waits for approval"
                self.record_message(EventReason.APPROVAL_REFUSED, f"there is no proposal {one.id}; {cure}", Kind.WARNING)
            case Fenced():
                self.record_message(EventReason.FENCED, f"{one.member} is fenced off: {one.why}", Kind.WARNING)

    def _state(self, change: StateChanged) -> None:
        because = f": {change.why}" if change.why else ""
        match change.state:
            case State.HOLDDOWN:
                until = f" until {to_text(change.until)}" if change.until is not None else ""
                self.record_message(EventReason.HOLDDOWN, f"waiting{until} before partitions are moved{because}")
            case State.PAUSED:
                self.record_message(EventReason.PAUSED, f"no new hand-off begins{because}")
            case State.READY:
                unowned = f"; {counted(change.unowned, 'partition has', 'partitions have')} no owner" if change.unowned else ""
                self.record_message(EventReason.READY, f"no hand-offs in progress{unowned}{because}")

    def _standbys(self, those: list[StandsBy]) -> None:
        notes = [f"{one.member} stands by: there is no partition for it yet" for one in those]
        if len(those) > MOST_SENTENCES:
            notes = [f"{len(those):,} members stand by: there are no partitions for them yet"]
        for note in notes:
            self.record_message(EventReason.STANDS_BY, note)

    # -- events about partitions

    async def _play_round(
        self, happened: Sequence[OfPartition], unacknowledged: Mapping[Partition, int | None], now: float
    ) -> None:
        much = len(happened) + len(self._waiting)
        self._post(await aside(much, self._round, happened, unacknowledged, now))

    def _round(
        self, happened: Iterable[OfPartition], unacknowledged: Mapping[Partition, int | None], now: float
    ) -> list[EventMessage]:
        """Return the messages that are due. `unacknowledged`: see `post_due`."""
        self._waiting += [(now, one) for one in happened]
        for _, one in self._waiting:
            if isinstance(one, Revoked) and one.partition in unacknowledged:
                self._answers.setdefault(one.partition, unacknowledged[one.partition])
        if not self._waiting:
            return []
        apart = ROUND if self._tokens >= MOST_SENTENCES else SLOW_ROUND
        self._round_due_at = max(self._waiting[0][0] + PATIENCE, self._round_at + apart)
        if now < self._round_due_at:
            return []
        self._tokens = min(BURST, self._tokens + (now - self._round_at) * REFILL)
        self._round_at = now
        return self._messages()

    def _messages(self) -> list[EventMessage]:
        """Return the messages about all that waits, which waits no longer."""
        those, self._waiting, self._round_due_at = [one for _, one in self._waiting], [], None
        messages: list[EventMessage] = []
        some: list[OfPartition] = []
        for one in those:
            if isinstance(one, EventMessage):
                messages += [*self._of_partitions(some), one]
                some = []
            else:
                some.append(one)
        messages = _joined(messages + self._of_partitions(some))
        self._answers.clear()
        self._tokens = max(0.0, self._tokens - len(messages))
        return messages

    def _of_partitions(self, those: list[OfPartition]) -> list[EventMessage]:
        """Return the messages about partitions. The last grant of a partition has the giver and the cause, so it stands for the
        steps before it, but for a missed deadline, and for a release where too many givers would have to be named."""
        last = {one.partition: place for place, one in enumerate(those) if isinstance(one, Granted)}
        kept: tuple[type[OfPartition], ...] = (DeadlineMissed,)
        if not name_givers([one for place in last.values() if isinstance(one := those[place], Granted)], self._most):
            kept = (DeadlineMissed, Released)
        before: list[OfPartition] = []
        after: list[OfPartition] = []
        for place, one in enumerate(those):
            grant = last.get(one.partition, place)
            if place > grant:
                after.append(one)
            elif place == grant or isinstance(one, kept):
                before.append(one)
        return [*self._sentences(before), *self._sentences(after)]

    @property
    def _most(self) -> int:
        """Most sentences of one kind now."""
        return MOST_SENTENCES if self._tokens >= MOST_SENTENCES else 1

    def _sentences(self, those: list[OfPartition]) -> list[EventMessage]:
        most = self._most
        messages = revoked(_of(those, Revoked), self._answers, most)
        messages += redirected(_of(those, Redirected), most)
        messages += released([one for one in those if isinstance(one, Released | DeadlineMissed)], most)
        return messages + granted(_of(those, Granted), most)

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
                    log.debug(
                        "released", queue=one.partition.queue, partition=one.partition.number, member=one.member, how=one.how
                    )
                case Granted():
                    if one.paused_for is not None:
                        pause = pause or self._metrics.pause.labels(*self._key)  # looked up once: there may be very many
                        pause.observe(one.paused_for)
                    if verbose:
                        log.debug(
                            "granted",
                            queue=one.partition.queue,
                            partition=one.partition.number,
                            member=one.member,
                            epoch=one.epoch,
                            why=one.why,
                        )

    def _post(self, messages: Iterable[EventMessage]) -> None:
        for reason, note, kind in messages:
            (log.warning if kind is Kind.WARNING else log.info)(note, reason=reason)
            self._events.post(self._about, kind, reason, note)
