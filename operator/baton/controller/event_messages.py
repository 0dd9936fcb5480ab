"""What happens to partitions, in sentences: who, what, why, and until when. Pure.

What is alike shares a sentence, and where there would be more sentences than anybody reads, one sums them up: a rebalance of ten
thousand partitions is not ten thousand events.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from baton.controller.event_reasons import EventReason
from baton.engine.step_events import DeadlineMissed, Granted, Redirected, ReleaseCause, Released, Revoked
from baton.kube.events import Kind
from baton.model.ids import Partition
from baton.model.ranges import format_numbers
from baton.model.times import to_text
from baton.model.wording import counted

OfPartition = Revoked | Redirected | Released | DeadlineMissed | Granted
H = TypeVar("H", Revoked, Redirected, Released | DeadlineMissed, Granted)

LONGEST_LIST = 240
"""Characters of a list of partitions; the ledger has all of them."""


class EventMessage(NamedTuple):
    """An event to be: one word for machines, a sentence for people."""

    reason: str
    note: str
    kind: Kind = Kind.NORMAL


def revoked(those: Sequence[Revoked], unacknowledged: Mapping[Partition, int | None], most: int) -> list[EventMessage]:
    """Hand-offs that have begun. `unacknowledged`: what their queues said is still to be waited for."""

    def sentence(some: list[Revoked]) -> str:
        return f"{_goes(some)}{_because(some)}; {_waits(some, unacknowledged)}"

    pairs = _alike(those, lambda one: (one.member, one.receiver, one.why, one.deadline))
    if len(pairs) > most:
        pairs = _alike(those, lambda one: one.receiver)
    if len(pairs) > most:
        pairs = [list(those)]
    return [EventMessage(EventReason.REVOKING, sentence(some)) for some in pairs]


def redirected(those: Sequence[Redirected], most: int) -> list[EventMessage]:
    """Hand-offs under way that go elsewhere."""
    alike = _alike(those, lambda one: (one.receiver, one.instead_of, one.why))
    if len(alike) > most:
        note = f"{_counted(those)} get other receivers{_because(those)}"
        return [EventMessage(EventReason.REDIRECTED, note)]
    return [
        EventMessage(
            EventReason.REDIRECTED,
            f"{named(some)} {_verb(some, 'goes', 'go')} to {some[0].receiver or 'nobody for now'} instead of "
            f"{some[0].instead_of or 'nobody'}{_because(some)}",
        )
        for some in alike
    ]


def released(those: Sequence[Released | DeadlineMissed], most: int) -> list[EventMessage]:
    """Who let go, who is gone, and who missed the deadline."""
    told: list[EventMessage] = []
    for what, reason, kind, one_did, many_did in _RELEASES:
        of = [one for one in those if (one.how if isinstance(one, Released) else one.taken) == what]
        members = _alike(of, lambda one: one.member)
        if len(members) > most:
            told.append(EventMessage(reason, many_did.format(members=f"{len(members):,} members", what=_counted(of)), kind))
        else:
            told += [EventMessage(reason, one_did.format(member=some[0].member, what=named(some)), kind) for some in members]
    return told


def granted(those: Sequence[Granted], most: int) -> list[EventMessage]:
    """The messages about members that own more partitions now."""
    members = _alike(those, lambda one: one.member)
    if len(members) > most:
        return [EventMessage(EventReason.GRANTED, f"{len(members):,} members own {_counted(those)} more{_paused(those)}")]
    alike = _alike(those, lambda one: (one.member, one.paused_for is None, "" if one.paused_for is not None else one.why))
    if len(alike) > most:
        alike = members
    return [
        EventMessage(EventReason.GRANTED, f"{some[0].member} owns {named(some)}{_paused(some) or _because(some)}")
        for some in alike
    ]


def named(those: Iterable[OfPartition]) -> str:
    """`partition 5 of orders`, `partitions 0-3,7 of orders and 2 of returns`"""
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in sorted({Partition(*one.partition) for one in those}):
        numbers[partition.queue].append(partition.number)
    words = " and ".join(f"{_short(format_numbers(of))} of {queue}" for queue, of in numbers.items())
    return f"{'partition' if sum(map(len, numbers.values())) == 1 else 'partitions'} {words}"


_RELEASES = (
    (
        ReleaseCause.CONSUMER,
        EventReason.RELEASED,
        Kind.NORMAL,
        "{member} has let go of {what}",
        "{members} have let go of {what}",
    ),
    (
        ReleaseCause.GONE,
        EventReason.GONE,
        Kind.NORMAL,
        "{member} is gone, and leaves {what}",
        "{members} are gone, and leave {what}",
    ),
    (
        True,
        EventReason.DEADLINE_MISSED,
        Kind.WARNING,
        "{member} did not let go of {what} in time: the hand-off goes on without its word, and a queue that fences refuses it "
        "from then on. What it left unfinished is delivered again to the next owner; if this happens often, raise "
        "maxHandoffSeconds or make the consumer's batches smaller",
        "{members} did not let go of {what} in time: the hand-offs go on without their word, and a queue that fences refuses "
        "them from then on. What they left unfinished is delivered again; if this happens often, raise maxHandoffSeconds or make "
        "the consumers' batches smaller",
    ),
    (
        False,
        EventReason.DEADLINE_MISSED,
        Kind.WARNING,
        "{member} did not let go of {what} in time, and keeps it until it does: the queue cannot fence it off. If the pod hangs, "
        "stop it, or set spec.source.external.onDeadline to Force",
        "{members} did not let go of {what} in time, and keep them until they do: the queue cannot fence them off. If the pods "
        "hang, stop them, or set spec.source.external.onDeadline to Force",
    ),
)


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
    known = [count for one in those if (count := unacknowledged.get(one.partition)) is not None]
    if len(known) < len(those):
        return f"{'the giver has' if len({one.member for one in those}) == 1 else 'the givers have'} {until}"
    messages = sum(known)
    if not messages:
        return "nothing is unacknowledged"
    waits = _verb(those, "waits", "they wait")
    return f"{waits} for {counted(messages, 'unacknowledged message')}, {until}"


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
