"""What the operator would do with a group now: the present and the planned assignment, compared and explained."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from textwrap import wrap

from rich.console import RenderableType
from rich.text import Text

from baton.api.group import Approval, GroupRebalance
from baton.assignors import Member
from baton.assignors.building_blocks import readable, zones_of
from baton.assignors.request import Request
from baton.assignors.solace import Claims, fair_shares
from baton.cli.cluster import NoAnswerError
from baton.cli.printing import printable, table
from baton.controller.large_work import LargeWork
from baton.controller.runtime import GroupRuntime
from baton.engine import GroupState, summary
from baton.engine.ledger import write_numbers
from baton.engine.observation import Observation, ObservedMember, ObservedQueue
from baton.engine.placement import member_input, request_of
from baton.engine.state import moment
from baton.model.ids import MemberId, Partition, QueueName, Uid
from baton.model.wording import counted, first_of
from baton.simulation.simulated_cluster import FencedQueues


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Partitions that one member would gain and lose."""

    member: MemberId
    before: int
    after: int
    gains: tuple[Partition, ...]
    withheld: tuple[Partition, ...]
    """Gained once another member has released them."""
    loses: tuple[Partition, ...]
    there: bool = True
    """False: not a member afterwards."""

    @property
    def size(self) -> int:
        return len(self.gains) + len(self.withheld) + len(self.loses)


@dataclass(frozen=True)
class Comparison:
    """The present owners of partitions, and those of a plan."""

    assignor: str
    request: Request
    """The queues and members of the plan."""
    before: Mapping[Partition, tuple[MemberId, ...]]
    """The present or last holders of each partition; nearly always one."""
    after: Mapping[Partition, MemberId]
    moves: int
    lower_bound: int
    withheld: frozenset[Partition] = frozenset()
    group: str | None = None
    exclusive: frozenset[QueueName] = frozenset()
    """Queues of which one member owns all partitions."""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def changes(self) -> tuple[MemberChange, ...]:
        """The changes of all members, the largest first."""
        held: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, names in self.before.items():
            for name in names:
                held[name].add(partition)
        gets: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, name in self.after.items():
            gets[name].add(partition)
        made = [
            MemberChange(
                member=name,
                before=len(held[name]),
                after=len(gets[name]),
                gains=tuple(sorted(gets[name] - held[name] - self.withheld)),
                withheld=tuple(sorted((gets[name] & self.withheld) - held[name])),
                loses=tuple(sorted(held[name] - gets[name])),
                there=name in self.request.members,
            )
            for name in sorted({*self.request.members, *held})
        ]
        return tuple(sorted(made, key=lambda change: (-change.size, change.member)))

    @property
    def partitions(self) -> int:
        return sum(self.request.queues.values())

    @cached_property
    def readers(self) -> dict[MemberId, frozenset[QueueName]]:
        """The queues that members read, without exclusive and empty queues; members without any are left out."""
        return {
            name: shared
            for name, queues in readable(self.request).items()
            if (shared := frozenset(queue for queue in queues - self.exclusive if self.request.queues[queue]))
        }

    @cached_property
    def totals(self) -> dict[MemberId, int]:
        """How many partitions of queues that are not exclusive each reader would own."""
        counts = dict.fromkeys(self.readers, 0)
        for partition, name in self.after.items():
            if name in counts and partition.queue not in self.exclusive:
                counts[name] += 1
        return counts

    @cached_property
    def then(self) -> Mapping[QueueName, Mapping[MemberId, int]]:
        """By queue and reader: the partitions that the reader would own."""
        counts = Counter((partition.queue, name) for partition, name in self.after.items())
        return {
            queue: {name: counts[queue, name] for name, queues in self.readers.items() if queue in queues}
            for queue in self.request.queues
        }

    @cached_property
    def now(self) -> Mapping[QueueName, Mapping[MemberId, int]]:
        """By queue and owner: the partitions that the owner holds now."""
        counts: defaultdict[QueueName, Counter[MemberId]] = defaultdict(Counter)
        for partition, names in self.before.items():
            counts[partition.queue].update(names)
        return counts

    @cached_property
    def moved(self) -> Counter[QueueName]:
        """By queue: the partitions that move."""
        return Counter(p.queue for p, name in self.after.items() if p in self.before and name not in self.before[p])

    @cached_property
    def unowned(self) -> tuple[Partition, ...]:
        """Partitions without an owner in the plan, of queues that have readers."""
        read = frozenset().union(*self.readers.values())
        return tuple(
            partition
            for queue in sorted(read)
            for number in range(self.request.queues[queue])
            if (partition := Partition(queue, number)) not in self.after
        )

    @cached_property
    def as_even_as_can_be(self) -> bool:
        """Whether no assignment has more even totals for these subscriptions."""
        queues = {queue: count for queue, count in self.request.queues.items() if queue not in self.exclusive}
        shares = fair_shares(Claims(queues, sorted(self.readers), self.readers, {}))
        best: dict[MemberId, int] = defaultdict(int)
        for counts in shares.counts.values():
            for name, count in counts.items():
                best[name] += count
        return sum(count**2 for count in self.totals.values()) <= sum(count**2 for count in best.values())

    @cached_property
    def weighed(self) -> bool:
        """Whether partitions differ in weight or members in capacity."""
        capacities = {member.capacity for member in self.request.members.values()}
        return len(capacities) > 1 or any(weight != 1 for weights in self.request.weights.values() for weight in weights)

    def loads(self, owners: Iterable[tuple[Partition, MemberId]]) -> dict[MemberId, Fraction]:
        """The load of each member: the weight of its partitions divided by its capacity."""
        loads = dict.fromkeys(self.request.members, Fraction(0))
        for (queue, number), name in owners:
            if name in loads and 0 <= number < self.request.queues.get(queue, 0):
                weights = self.request.weights.get(queue)
                loads[name] += 1 if weights is None else weights[number]
        return {name: load / self.request.members[name].capacity for name, load in loads.items()}

    def owners_now(self) -> list[tuple[Partition, MemberId]]:
        return [(partition, names[0]) for partition, names in self.before.items() if len(names) == 1]

    @cached_property
    def zoned(self) -> bool:
        """Whether zones matter: some members and some partitions have one."""
        return any(member.zone for member in self.request.members.values()) and any(
            zones for of_queue in self.request.zones.values() for zones in of_queue
        )

    def elsewhere(self, owners: Iterable[tuple[Partition, MemberId]]) -> int:
        """The number of partitions without a replica in their member's zone."""
        count = 0
        for partition, name in owners:
            home = self.request.members[name].zone if name in self.request.members else None
            if home and 0 <= partition.number < self.request.queues.get(partition.queue, 0):
                near = zones_of(self.request, partition)
                count += bool(near) and home not in near
        return count


WIDTH = 100
MOST_ROWS = 20
"""The most members, and the most queues, in a table. Of more, those that change most are shown."""
LONGEST_NAME = 40
LEAST_CELL = len("10,000 partitions")


def explanation(of: Comparison) -> Iterator[RenderableType]:
    """The parts of the explanation, in order."""
    said = [("bold", _title(of)), *(("" if good else "yellow", sentence) for good, sentence in sentences(of))]
    yield from (Text(printable(line), style) for style, sentence in said for line in wrap(sentence, WIDTH))
    if len(of.request.queues) > 1:
        yield ""
        yield from _queue_table(of)
    if of.changes:
        yield ""
        yield from _member_table(of)


def sentences(of: Comparison) -> Iterator[tuple[bool, str]]:
    """The result in sentences, each with whether it is good news."""
    yield True, _moves(of)
    yield from _balance(of)
    yield from ((False, note) for note in of.notes)


def _title(of: Comparison) -> str:
    before = {name for names in of.before.values() for name in names}
    new = sum(name not in before for name in of.request.members) if before else 0
    gone = len(before - of.request.members.keys())
    change = ", ".join(f"{count} {what}" for count, what in ((new, "without partitions so far"), (gone, "gone")) if count)
    queues = "" if len(of.request.queues) == 1 else f" of {len(of.request.queues)} queues"
    who = f"{of.group} by {of.assignor}" if of.group else of.assignor
    return (
        f"{who}: {counted(of.partitions, 'partition')}{queues}, {counted(len(of.request.members), 'member')}"
        f"{f' ({change})' if change else ''}"
    )


def _moves(of: Comparison) -> str:
    first = sum(partition not in of.before for partition in of.after)
    fresh = f" {counted(first, 'partition gets', 'partitions get')} a first owner." if first else ""
    if of.moves == of.lower_bound == 0:
        return f"Nothing moves.{fresh}"
    moved = f"{counted(of.moves, 'partition moves', 'partitions move')}" if of.moves else "Nothing moves"
    if of.moves == of.lower_bound:
        return f"{moved}, the fewest possible for a balance.{fresh}"
    if of.moves > of.lower_bound:
        return f"{moved}; {of.lower_bound} would suffice for a balance (solace).{fresh}"
    return f"{moved}; a balance in total and of each queue would take {of.lower_bound} (solace).{fresh}"


def _balance(of: Comparison) -> Iterator[tuple[bool, str]]:
    if not of.readers:
        yield False, "The group has no members." if not of.request.members else "No member reads any of these queues."
        return
    if of.unowned:
        yield False, f"Unowned: {_cell(of.unowned, WIDTH - 10)}."
    if of.weighed:
        loads = of.loads(of.after.items())
        yield True, f"Load per capacity: {_span(loads)}; now {_span(of.loads(of.owners_now()))}."
    yield _even(of)
    if of.zoned:
        then, now = of.elsewhere(of.after.items()), of.elsewhere(of.owners_now())
        yield then <= now, f"Without a replica in their member's zone: {counted(then, 'partition')}; now {now}."
    for queue in sorted(of.exclusive):
        yield True, f"{queue} is Exclusive: one member has all of it."


def _even(of: Comparison) -> tuple[bool, str]:
    """Whether members are within one partition of each other, in total and for each queue; and a sentence."""
    low, high = min(of.totals.values()), max(of.totals.values())
    each = f"{low} each" if low == high else f"{low} or {high} each"
    if high - low <= 1:
        for queue in sorted(frozenset().union(*of.readers.values())):
            counts = of.then[queue]
            if max(counts.values()) - min(counts.values()) > 1:
                return False, f"Balanced in total ({each}), but not within {queue}: {_span(counts)}."
        return True, f"Balanced: {each}."
    if of.as_even_as_can_be:
        return True, f"As even as the subscriptions allow: {_span(of.totals)}."
    why = " in number" if of.weighed else ""
    cure = "" if of.weighed else f"; solace would balance them with {counted(of.lower_bound, 'move')}"
    return False, f"Not balanced{why}: {_span(of.totals)}{cure}."


def _span(counts: Mapping[MemberId, int] | Mapping[MemberId, Fraction]) -> str:
    """`from 2 (b) to 4 (a)`"""
    if not counts:
        return "none"
    ranked = sorted(counts, key=lambda name: (counts[name], name))
    low, high = ranked[0], next(name for name in ranked if counts[name] == counts[ranked[-1]])
    if counts[low] == counts[high]:
        return f"{_number(counts[low])} each"
    return f"from {_number(counts[low])} ({_short(low, 24)}) to {_number(counts[high])} ({_short(high, 24)})"


def _queue_table(of: Comparison) -> Iterator[RenderableType]:
    queues = sorted(of.request.queues, key=lambda queue: (-of.moved[queue], queue))
    rows = [
        (
            _short(queue, LONGEST_NAME),
            of.request.queues[queue],
            _range(of.now[queue]),
            _range(of.then[queue]) if queue not in of.exclusive else of.request.queues[queue],
            of.moved[queue],
        )
        for queue in sorted(queues[:MOST_ROWS])
    ]
    yield table(("QUEUE", "PARTITIONS", "EACH NOW", "EACH THEN", "MOVE"), rows, right=("PARTITIONS", "MOVE"))
    if len(queues) > MOST_ROWS:
        rest = sum(of.moved[queue] for queue in queues[MOST_ROWS:])
        moving = counted(rest, "partition moves", "partitions move")
        yield Text(f"and {counted(len(queues) - MOST_ROWS, 'more queue')}, of which {moving}", "bright_black")


def _range(counts: Mapping[MemberId, int]) -> str:
    if not counts:
        return "-"
    low, high = min(counts.values()), max(counts.values())
    return str(low) if low == high else f"{low} to {high}"


def _member_table(of: Comparison) -> Iterator[RenderableType]:
    whole = len(of.changes) <= MOST_ROWS
    shown = of.changes if whole else [change for change in of.changes if change.size][:MOST_ROWS]
    shown = sorted(shown, key=lambda change: change.member)
    names = [_short(change.member, LONGEST_NAME) + ("" if change.there else " (gone)") for change in shown]
    loads = [of.loads(of.owners_now()), of.loads(of.after.items())] if of.weighed else []
    head = ["MEMBER", "NOW", "THEN", *(["LOAD NOW", "THEN"] if loads else [])]
    numbers = [
        [
            *(name, str(change.before), str(change.after) if change.there else "-"),
            *(_number(of_all[change.member]) if change.member in of_all else "-" for of_all in loads),
        ]
        for change, name in zip(shown, names, strict=True)
    ]
    room = WIDTH - sum(max(map(len, column)) + 2 for column in zip(head, *numbers, strict=True)) - 2
    cells = [(_gains(change, WIDTH), _cell(change.loses, WIDTH)) for change in shown]
    gains, loses = _share(room, max((len(one) for one, _ in cells), default=0), max((len(one) for _, one in cells), default=0))
    rows = [[*row, _gains(change, gains), _cell(change.loses, loses)] for row, change in zip(numbers, shown, strict=True)]
    yield table([*head, "GAINS", "LOSES"], rows, right=head[1:])
    if any(change.withheld for change in shown):
        yield Text("* once its holder has released it", "bright_black")
    if not whole:
        changed = sum(change.size > 0 for change in of.changes)
        more = f"and {changed - len(shown):,} more that change; " if changed > len(shown) else ""
        yield Text(f"{more}{len(of.changes) - changed:,} of {counted(len(of.changes), 'member')} unchanged", "bright_black")


def _share(room: int, gains: int, loses: int) -> tuple[int, int]:
    """Divide the width between GAINS and LOSES: half each, or what the other column does not need."""
    half = room // 2
    left = max(LEAST_CELL, min(gains, max(half, room - loses), room - LEAST_CELL))
    return left, room - left


def _gains(change: MemberChange, width: int) -> str:
    if not change.withheld:
        return _cell(change.gains, width)
    if not change.gains:
        return "*" + _cell(change.withheld, width - 1)
    first = _cell(change.gains, width // 2)
    return f"{first} *{_cell(change.withheld, width - len(first) - 2)}"


def _cell(partitions: Sequence[Partition], width: int) -> str:
    """`orders 0-3,7 returns 2`; if that is too wide, cut and with the number of partitions."""
    words = " ".join(f"{queue} {numbers}" for queue, numbers in write_numbers(partitions).items())
    if len(words) <= width:
        return words
    count = f"… {len(partitions)} in all"
    kept = words[: max(0, width - len(count))]
    cut = kept.rpartition(",")[0] if "," in kept else kept.rstrip("0123456789- ")
    return f"{cut}{count}" if cut else counted(len(partitions), "partition")


def _short(name: str, width: int) -> str:
    """The name, shortened in the middle: pods' names differ at the end."""
    if len(name) <= width:
        return name
    return f"{name[: width // 2 - 1]}…{name[-(width - width // 2) :]}"


def _number(value: Fraction | int) -> str:
    """The number with at most two decimals."""
    return str(value) if value == int(value) else f"{float(value):.2f}"


LONGEST = 10_000
"""The most steps of a rehearsal; a rebalance without limits and delays takes a handful."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The supposed changes of a group."""

    assignor: str | None = None
    add: int = 0
    remove: tuple[str, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)


async def compare(group: str, state: GroupState, seen: Observation, what_if: WhatIf, now: float) -> Comparison:
    """Compare the group in the ledger with the result of a rebalance that began now. Raises NoAnswerError."""
    now = moment(now if state.holddown is None else max(now, state.holddown.until))
    supposed = _suppose(seen, what_if, now)
    after = await rehearse(state, supposed, now)
    told = summary(after)
    if told.problem is not None:
        raise NoAnswerError(f"{group}: {told.problem.message}")
    members = _members(after, supposed)
    return Comparison(
        assignor=told.assignor or supposed.spec.assignors[0],
        request=request_of(supposed, {name: _all(name, queue) for name, queue in supposed.queues.items()}, members),
        before={partition: (record.last,) for partition, record in state.records.items() if record.last is not None},
        after={partition: record.owner for partition, record in after.records.items() if record.owner is not None},
        moves=told.numbers.moves - state.totals.moves,
        lower_bound=told.numbers.lower_bound - state.totals.lower_bound,
        group=group,
        exclusive=frozenset(name for name, queue in supposed.queues.items() if queue.exclusive),
        notes=tuple(_notes(state, seen, what_if)),
    )


class _Rehearsal:
    """The clock and the ledger of a rehearsal: no time passes, and nothing is written."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    async def write(self, data: Mapping[str, str]) -> None:
        pass


async def rehearse(state: GroupState, seen: Observation, now: float) -> GroupState:
    """The state after the rebalance if members and queues respond at once. `now`: Unix seconds."""
    rehearsal, queues = _Rehearsal(now), FencedQueues(drains=True)
    runtime = GroupRuntime(state, rehearsal, rehearsal, queues, LargeWork(longest=inf).of(""))
    for _ in range(LONGEST):
        if not (await runtime.advance(seen)).effects:
            return runtime.state
    raise NoAnswerError("the rebalance does not end")


def _suppose(seen: Observation, what_if: WhatIf, now: float) -> Observation:
    """The observation with the supposed changes, and without delay, approval and limits."""
    members = dict(seen.members)
    for name in what_if.remove:
        if members.pop(MemberId(name), None) is None:
            raise NoAnswerError(f"--remove {name}: there is no such member; the members are {_some(seen.members)}")
    if what_if.assignor is not None:
        members = {name: replace(member, assignors=None) for name, member in members.items()}
    fresh = (MemberId(name) for number in range(1, LONGEST * 2) if (name := f"new-{number}") not in seen.members)
    for name, _ in zip(fresh, range(what_if.add), strict=False):
        members[name] = ObservedMember(Uid(f"supposed-{name}"), joined=now)
    queues = {
        name: replace(queue, incarnation=None, owners={}) for name, queue in seen.queues.items()
    }  # skip the comparison with the queue's owner records
    for queue_name, count in what_if.partitions.items():
        name_ = QueueName(queue_name)
        if name_ not in queues:
            raise NoAnswerError(f"--partitions {queue_name}={count}: there is no such queue; the queues are {_some(queues)}")
        queues[name_] = replace(queues[name_], partitions=count)
    spec = replace(
        seen.spec,
        assignors=seen.spec.assignors if what_if.assignor is None else (what_if.assignor,),
        delay=0.0,
        rebalance=GroupRebalance(),
        session_timeout=0.0 if what_if.remove else seen.spec.session_timeout,
        paused=False,
        approval=Approval.AUTOMATIC,
        replicas=None if seen.spec.replicas is None else seen.spec.replicas + what_if.add,
    )
    return replace(seen, spec=spec, queues=queues, members=members, request=f"rehearsal at {now}", approved=None)


def _members(after: GroupState, seen: Observation) -> dict[MemberId, Member]:
    """The members of the plan, standbys included."""
    gone = {name for name, _ in after.victims}
    queues = frozenset(seen.queues)
    return {
        name: member_input(member, queues)
        for name, member in seen.members.items()
        if not member.leaving and name not in gone and (name, member.uid) not in after.fenced
    }


def _all(name: QueueName, queue: ObservedQueue) -> list[Partition]:
    return [Partition(name, number) for number in range(queue.partitions)]


def _notes(state: GroupState, seen: Observation, what_if: WhatIf) -> Iterable[str]:
    if state.moving:
        yield f"{counted(state.moving, 'hand-off is', 'hand-offs are')} in progress; NOW shows the owners before."
    if seen.spec.paused:
        yield "The group is paused: none of this happens until it is resumed."
    if what_if.assignor is not None:
        deaf = [n for n, m in sorted(seen.members.items()) if m.assignors is not None and what_if.assignor not in m.assignors]
        if deaf:
            yield f"{_some(deaf)} would first have to announce {what_if.assignor} (annotation baton.dev/assignors)."
    if what_if.remove and seen.spec.session_timeout > 0:
        yield f"The partitions of a static member wait {seen.spec.session_timeout:.0f} s for it before they move."


def _some(names: Iterable[str]) -> str:
    return first_of(sorted(names), 5) or "none"
