"""`baton explain`: everything about one partition."""

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from baton.api import Handoff
from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group import GroupLook, look_at, observation_of
from baton.cli.group_words import ago, handoff, problems_of
from baton.cli.lag import lag_of
from baton.cli.options import GROUP, PARTITION, ClusterTarget, Form, cluster_options, operator_option, output_option, say_object
from baton.cli.own_assignors import use_own_assignors
from baton.cli.printing import say
from baton.cli.rehearsal import WhatIf, compare
from baton.controller.problems import JOINED, EventReason
from baton.controller.status import handoff_of
from baton.engine import GroupState
from baton.engine.state import PartitionRecord
from baton.engine.state_machine import PartitionState, partition_state
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import ApiError
from baton.kube.events import LONGEST_NOTE, REPORTED_BY
from baton.model.ids import Epoch, MemberId, Partition
from baton.model.times import read_seconds, to_text
from baton.model.wording import counted

MOST_SHOWN = 10

_NUMBERS = re.compile(r"\b(\d[\d,-]{0,300})…? of ([a-z0-9.-]{1,253})")
_BETWEEN = re.compile(r"\bgo(?:es)? from (\S{1,253}) to (\S{1,253}?)[:;]")
_GIVEN = re.compile(r"partitions? (.+?)(?: from (\S{1,253}?))?(?= and partitions? |[,:;] |$)")
"""Partitions of a grant, and their giver."""
_ENDS = (EventReason.RELEASED, EventReason.GONE, EventReason.DEADLINE_MISSED)
_BEGINNINGS = (EventReason.REVOKING, EventReason.REDIRECTED)


@dataclass(frozen=True, slots=True)
class PartitionEvent:
    """An event of the operator about a partition."""

    at: float
    """Unix seconds."""
    reason: str
    note: str

    @property
    def why(self) -> str:
        """The cause in the note: after the first colon, up to the first semicolon; empty without a colon."""
        return self.note.partition("; ")[0].partition(": ")[2]

    def to_json(self) -> Mapping[str, str]:
        """For programs."""
        return {"time": to_text(self.at), "reason": self.reason, "note": self.note}


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The past of a partition, as far as events are kept: usually for an hour."""

    since: float | None = None
    """When the owner got the partition, in Unix seconds; None: no event has it."""
    before: str | None = None
    """The previous owner."""
    why: str = ""
    """Why the partition moved to its owner."""
    events: tuple[PartitionEvent, ...] = ()
    """The last events, the oldest first."""


def history(partition: Partition, owner: MemberId | None, events: Iterable[Mapping[str, Any]]) -> PartitionHistory:
    """Read the partition's history from the group's `events` (core/v1)."""
    told = sorted((one for event in events for one in _read(event) if mentions(one.note, partition)), key=lambda one: one.at)
    grants = [at for at, one in enumerate(told) if one.reason == EventReason.GRANTED and one.note.startswith(f"{owner} owns ")]
    shown = tuple(told[-MOST_SHOWN:])
    if owner is None or not grants:
        return PartitionHistory(before=_giver(told), events=shown)
    # The events that led to the last grant: all since the grant before it.
    others = [at for at, one in enumerate(told[: grants[-1]]) if one.reason == EventReason.GRANTED]
    led = told[others[-1] + 1 if others else 0 : grants[-1]]
    grant = told[grants[-1]]
    why = grant.why or next((one.why for one in reversed(led) if one.reason in _BEGINNINGS and one.why), "")
    named = _GIVEN.findall(re.split("[:;] ", grant.note, maxsplit=1)[0])
    giver = next((giver for partitions, giver in named if giver and mentions(partitions, partition)), None)
    return PartitionHistory(grant.at, giver or _giver(led), why, shown)


def mentions(note: str, partition: Partition) -> bool:
    """Whether the note names the partition, alone or in a range."""
    for numbers, queue in _NUMBERS.findall(note):
        if queue.rstrip(".") == partition.queue and any(_within(part, partition.number) for part in numbers.split(",")):
            return True
    return False


def _within(part: str, number: int) -> bool:
    first, dash, last = part.partition("-")
    if not first.isdigit() or len(part) > 20 or (dash and not last.isdigit()):
        return False
    return int(first) <= number <= int(last or first)


def _giver(events: list[PartitionEvent]) -> str | None:
    """The member that last released the partition, by these events."""
    for one in reversed(events):
        if one.reason in _ENDS and not re.match(r"[\d,]+ members ", one.note):
            return one.note.partition(" ")[0]
        if one.reason == EventReason.REVOKING and (found := _BETWEEN.search(one.note)):
            return found[1]
    return None


def _read(event: Mapping[str, Any]) -> list[PartitionEvent]:
    """The sentences of an event of the operator."""
    if event.get("reportingComponent") != REPORTED_BY:
        return []
    metadata = event.get("metadata") or {}
    for text in (event.get("eventTime"), event.get("lastTimestamp"), metadata.get("creationTimestamp")):
        if text and (at := read_seconds(text, None)) is not None:
            notes = str(event.get("message"))[:LONGEST_NOTE].split(JOINED)
            return [PartitionEvent(at, str(event.get("reason"))[:128], note) for note in notes]
    return []


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition of a group, as read at one moment."""

    group: GroupLook
    partition: Partition
    record: PartitionRecord
    doing: PartitionState
    handoff: Handoff | None
    """The hand-off in progress."""
    history: PartitionHistory = field(default_factory=PartitionHistory)
    next_owner: MemberId | None = None
    """The owner by a plan made now; None: no owner, or unknown because of `next_problem`."""
    next_problem: str | None = None
    lag: int | None = None
    lag_problem: str | None = None
    unfinished: tuple[str, int] | None = None
    """The oldest unfinished entry, and how often it was handed out, if more than once."""
    events_problem: str | None = None

    @property
    def title(self) -> str:
        return f"{self.group.group.full_name}, partition {self.partition.number} of {self.partition.queue}: {self.doing}"

    def sentences(self) -> Iterator[str]:
        """The partition in sentences for people, without the title and the events."""
        yield self._owned()
        waits = list(self.waits())
        yield from waits or ["No hand-off pending."]
        yield self._planned()
        yield from map(str, problems_of(self.group))
        if self.lag is not None:
            yield f"Lag: {counted(self.lag, 'entry', 'entries')} not acknowledged or committed yet."
        else:
            yield f"Lag: unknown{f': {self.lag_problem}' if self.lag_problem else ''}."
        if self.unfinished is not None:
            offset, times = self.unfinished
            yield f"Entry {offset} was handed out {times} times and never acknowledged."

    def waits(self) -> Iterator[str]:
        """What the partition waits for, and pending changes."""
        state, look, partition = self.group.state, self.group, self.partition
        if state is None:
            yield "The group waits for an operator to write its ledger."
            return
        move = state.moves.get(partition)
        if self.handoff is not None:
            yield handoff(self.handoff, look.now)
        if move is not None and not move.quiet and move.giver is None:
            what = f"the grant to {move.receiver}" if move.receiver else "the release"
            yield f"Waiting for {partition.queue} to accept {what} at epoch {move.epoch}."
        if move is not None and move.quiet:
            yield f"{partition.queue} has to record the owner again, at epoch {move.epoch}; the owner keeps working."
        if partition in state.waiting:
            running = counted(len(state.moves), "hand-off is running", "hand-offs are running")
            turn = f"{running}, as many as spec.rebalance allows, and {counted(len(state.waiting), 'waits', 'wait')}"
            yield f"It will move to {state.waiting[partition]}: {turn}."
        if state.proposal is not None and partition in state.proposal.receivers:
            name = f"{look.group.name} -n {look.group.namespace}"
            to = f"It would move to {state.proposal.receivers[partition]} by proposal {state.proposal.id}"
            yield f"{to}, which waits for approval: baton approve {name}"
        yield from self._slot(state)
        if look.group.spec is not None and look.group.spec.paused:
            yield f"The group is paused, so no hand-offs begin: baton resume {look.group.name} -n {look.group.namespace}"
        elif state.holddown is not None:
            left = max(0.0, state.holddown.until - look.now)
            yield f"A plan follows in {left:.0f} s, at {to_text(state.holddown.until)}: {state.holddown.why}"
        if self.doing is PartitionState.UNASSIGNED and not state.known:
            yield "The group has no members."

    def _slot(self, state: GroupState) -> Iterator[str]:
        for slot in state.member_slots:
            if slot.vacated and self.partition in slot.vacated:
                kept = "another member" if slot.expires is None else f"its return until {to_text(slot.expires)}"
                yield f"It is in the slot of {slot.member}, which waits for {kept}."

    def _owned(self) -> str:
        record, history = self.record, self.history
        if record.owner is None:
            last = record.last or history.before
            epoch = f", at epoch {record.granted_at}" if record.last and record.granted_at else ""
            return "It has no owner" + (f". {last} had it last{epoch}." if last else ", and never had one.")
        since = "since before the first event that is still kept"
        if history.since is not None:
            since = f"since {to_text(history.since)} ({ago(history.since, self.group.now)} ago)"
        before = f" Before that {history.before} had it." if history.before and history.before != record.owner else ""
        why = f" Why: {history.why}." if history.why else ""
        return f"{record.owner} owns it at epoch {record.epoch}, {since}.{before}{why}"

    def _planned(self) -> str:
        owner = self.record.owner
        if self.next_problem is not None:
            return f"Its owner in a new plan is unknown: {self.next_problem}"
        if self.next_owner is None:
            return f"A new plan would leave it without an owner: no member reads {self.partition.queue}."
        if self.next_owner == owner:
            return f"A new plan would keep it on {owner}."
        return f"A new plan would {'move it from ' + owner if owner else 'give it'} to {self.next_owner}."

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        look, move, history = self.group, self.handoff, self.history
        return {
            "namespace": look.group.namespace,
            "group": look.group.name,
            "queue": self.partition.queue,
            "partition": self.partition.number,
            "state": self.doing,
            "owner": self.record.owner,
            "epoch": self.record.epoch,
            "since": None if history.since is None else to_text(history.since),
            "why": history.why,
            "before": history.before or (self.record.last if self.record.owner is None else None),
            "handoff": None if move is None else move.model_dump(mode="json", by_alias=True),
            "waits": list(self.waits()),
            "nextOwner": self.next_owner,
            "nextProblem": self.next_problem,
            "lag": self.lag,
            "lagProblem": self.lag_problem,
            "unfinished": self.unfinished and {"offset": self.unfinished[0], "handedOut": self.unfinished[1]},
            "problems": [str(one) for one in problems_of(look)],
            "events": [dict(one.to_json()) for one in history.events],
            "eventsProblem": self.events_problem,
        }


def find(look: GroupLook, partition: Partition) -> tuple[PartitionRecord, PartitionState, Handoff | None]:
    """The partition's record, state and hand-off by the ledger. Raises NoAnswerError."""
    queue = look.queues.get(partition.queue)
    full = look.group.full_name
    if queue is None:
        raise NoAnswerError(f"{full} has no queue {partition.queue}: it has {', '.join(look.queues) or 'none'}")
    if look.state is None or partition not in look.state.records:
        if queue.partitions is None or partition.number >= queue.partitions:
            there = f"it has 0 to {queue.partitions - 1}" if queue.partitions else "their number is not known yet"
            raise NoAnswerError(f"{full} has no partition {partition.number} of {partition.queue}: {there}")
        if not queue.states:
            raise NoAnswerError(
                f"the owner of {partition.queue}/{partition.number} in {full} is unknown: its queue has to answer first"
            )
        return PartitionRecord(Epoch(0)), PartitionState.UNASSIGNED, None
    return look.state.records[partition], partition_state(look.state, partition), _handoff(look, look.state, partition)


def _handoff(look: GroupLook, state: GroupState, partition: Partition) -> Handoff | None:
    """The hand-off by the ledger, which has all. Unacknowledged messages are only in the status, for the first hand-offs."""
    move = state.moves.get(partition)
    if move is None or move.quiet or move.giver is None:
        return None
    told = [one for one in look.status.handoffs if (one.queue, one.partition) == partition and one.epoch == move.epoch]
    return handoff_of(partition, move, told[0].unacknowledged if told else None)


MOST_EVENTS = "500"
"""The most events of the group to read; the operator posts a few per minute."""


@click.command()
@click.argument("group", type=GROUP)
@click.argument("partition", metavar="QUEUE/PARTITION", type=PARTITION)
@cluster_options
@operator_option
@output_option()
def explain(group: str, partition: Partition, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Explain one partition of a ConsumerGroup: its owner and since when, the previous owner and why it moved, what it waits for,
    its owner in a new plan, and its lag.
    """
    use_own_assignors()
    seen = ask(_look(group, partition, target, url))
    if form.for_programs:
        say_object(seen.to_json(), form)
        return
    say(seen.title)
    for sentence in seen.sentences():
        say(sentence)
    if seen.events_problem:
        say(f"The events are unknown: {seen.events_problem}")
    for event in seen.history.events:
        say(f"  {to_text(event.at)}  {event.reason:14}  {event.note}")


async def _look(group: str, partition: Partition, target: ClusterTarget, url: str | None) -> PartitionLook:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        if seen.ledger_problem:
            raise NoAnswerError(f"the ledger of {where}/{group} is invalid: {seen.ledger_problem}")
        record, doing, move = find(seen, partition)
        (events, events_problem), lag, (next_owner, next_problem) = await asyncio.gather(
            _events(api, where, group), lag_of(api, where, group, seen.leader, url), _plan(api, seen, partition)
        )
    known = lag.of(partition)
    return PartitionLook(
        seen,
        partition,
        record,
        doing,
        move,
        history(partition, record.owner, events),
        next_owner,
        next_problem,
        lag=known,
        lag_problem=lag.problem or (None if known is not None else f"{partition.queue} does not report it"),
        unfinished=lag.unfinished_in(partition),
        events_problem=events_problem,
    )


async def _events(api: Api, namespace: str, name: str) -> tuple[list[Json], str | None]:
    """The group's events, and why they could not be read."""
    about = f"involvedObject.kind=ConsumerGroup,involvedObject.name={name}"
    try:
        return (await api.get(core_path(namespace, "events"), fieldSelector=about, limit=MOST_EVENTS))["items"], None
    except ApiError as error:
        return [], error.message


async def _plan(api: Api, seen: GroupLook, partition: Partition) -> tuple[MemberId | None, str | None]:
    """The partition's owner by a plan made now, or why it is unknown."""
    try:
        state, observed = await observation_of(api, seen)
        planned = await compare(seen.group.full_name, state, observed, WhatIf(), time.time())
    except NoAnswerError as error:
        return None, str(error)
    except ApiError as error:
        return None, error.message
    return planned.after.get(partition), None
