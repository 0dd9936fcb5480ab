"""What happened in a step, told to people: events in their words, log lines, and histograms.

Partitions of one kind that happen to one member in one step share a sentence: a rebalance of a thousand partitions is not a
thousand events.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import structlog

from baton.controller.metrics import Metrics
from baton.controller.mirror import GroupKey
from baton.engine.happenings import Fenced, Granted, Happening, How, Released, Revoked, StandsBy, State, StateChanged
from baton.kube.events import Events, Kind, Regarding
from baton.kube.times import to_text
from baton.model.ids import MemberId, Partition
from baton.model.ranges import format_numbers

H = TypeVar("H", Revoked, Released, Granted)

MOST_SENTENCES = 10
"""Of one kind about single members in one step."""


class Teller:
    """For one group."""

    def __init__(self, key: GroupKey, about: Regarding, events: Events, metrics: Metrics) -> None:
        self._key = key
        self._about = about
        self._events = events
        self._metrics = metrics
        self._held_since: float | None = None
        self._log = structlog.get_logger("baton.group").bind(namespace=key[0], group=key[1])

    def tell(self, happenings: Iterable[Happening], now: float) -> None:
        """All of one step."""
        happenings = list(happenings)
        for state in (one for one in happenings if isinstance(one, StateChanged)):
            self._state(state, now)
        self._revoked([one for one in happenings if isinstance(one, Revoked)])
        self._released([one for one in happenings if isinstance(one, Released)])
        self._granted([one for one in happenings if isinstance(one, Granted)])
        for one in happenings:
            if isinstance(one, StandsBy):
                self._say("StandsBy", f"{one.member} stands by: there is nothing for it to own yet")
            elif isinstance(one, Fenced):
                self._say("Fenced", f"{one.member} is fenced off: {one.why}", Kind.WARNING)

    def warn(self, reason: str, note: str, *, once: bool = False) -> None:
        """Something that a person should look at."""
        self._say(reason, note, Kind.WARNING, once=once)

    def say(self, reason: str, note: str) -> None:
        self._say(reason, note)

    def _state(self, change: StateChanged, now: float) -> None:
        if self._held_since is not None and change.state is not State.HOLDDOWN:
            self._metrics.holddown.labels(*self._key).observe(max(0.0, now - self._held_since))
            self._held_since = None
        because = f": {change.why}" if change.why else ""
        match change.state:
            case State.HOLDDOWN:
                self._held_since = now if self._held_since is None else self._held_since
                until = f" until {to_text(change.until)}" if change.until is not None else ""
                self._say("Holddown", f"waiting{until} before partitions are moved{because}")
            case State.REBALANCING:
                self._say("Rebalancing", f"partitions change hands{because}")
            case State.PAUSED:
                self._say("Paused", f"no new hand-off is begun{because}")
            case State.READY:
                self._say("Ready", f"every partition is where it should be{because}")

    def _revoked(self, revoked: list[Revoked]) -> None:
        if self._too_many("Revoking", "{members} members are to let go of {partitions} partitions", revoked):
            return
        for member, those in _by_member(revoked).items():
            why = f" ({those[0].why})" if those[0].why else ""
            self._say("Revoking", f"{member} is to let go of {_named(those)} until {to_text(those[0].deadline)}{why}")

    def _released(self, released: list[Released]) -> None:
        late = [one for one in released if one.how is How.DEADLINE]
        if self._too_many(
            "DeadlineMissed", "{members} members did not let go of {partitions} partitions in time", late, Kind.WARNING
        ):
            return
        for member, those in _by_member(late).items():
            self._say(
                "DeadlineMissed",
                f"{member} did not let go of {_named(those)} in time: it is fenced off, and what it left unfinished is "
                "delivered again to the next owner; if this happens often, raise maxHandoffSeconds or make the consumer's "
                "batches smaller",
                Kind.WARNING,
            )
        for one in released:
            self._log.debug("released", queue=one.partition.queue, partition=one.partition.number, member=one.member, how=one.how)

    def _granted(self, granted: list[Granted]) -> None:
        for one in granted:
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
        if self._too_many("Granted", "{members} members own {partitions} more partitions", granted):
            return
        for member, those in _by_member(granted).items():
            self._say("Granted", f"{member} owns {_named(those)}")

    def _too_many(
        self, reason: str, sentence: str, those: Sequence[Revoked | Released | Granted], kind: Kind = Kind.NORMAL
    ) -> bool:
        """A sentence for all where a sentence each would be more than anybody reads; who owns what is in the ledger."""
        members = {one.member for one in those}
        if len(members) <= MOST_SENTENCES:
            return False
        self._say(reason, sentence.format(members=len(members), partitions=len(those)), kind)
        return True

    def _say(self, reason: str, note: str, kind: Kind = Kind.NORMAL, *, once: bool = False) -> None:
        (self._log.warning if kind is Kind.WARNING else self._log.info)(note, reason=reason)
        self._events.post(self._about, kind, reason, note, once=once)


def _by_member(those: Iterable[H]) -> dict[MemberId, list[H]]:
    by: dict[MemberId, list[H]] = defaultdict(list)
    for one in those:
        by[one.member].append(one)
    return by


def _named(those: Iterable[Revoked | Released | Granted]) -> str:
    """`orders 0-3,7 and returns 2`"""
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in sorted(Partition(*one.partition) for one in those):
        numbers[partition.queue].append(partition.number)
    return " and ".join(f"{queue} {format_numbers(held)}" for queue, held in numbers.items())
