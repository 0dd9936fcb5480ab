"""What the operator would do with a group now: its own engine, with consumers that let go at once. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from baton.api.enums import Approval
from baton.assignors import Member
from baton.cli.comparison import Comparison
from baton.controller.large_work import LargeWork
from baton.controller.runtime import GroupRuntime
from baton.engine import GroupState, summary
from baton.engine.assignor_inputs import member_input, request_of
from baton.engine.observation import Observation, ObservedMember, ObservedQueue
from baton.engine.state import moment
from baton.model.ids import MemberId, Partition, QueueName, Uid
from baton.model.wording import first_of
from baton.simulation.queue import FencedQueues

LONGEST = 10_000
"""Steps of a rehearsal; a rebalance without bounds and delays takes a handful."""


class WhatIfError(ValueError):
    """It cannot be supposed. The message is one line."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is supposed to be otherwise than it is."""

    assignor: str | None = None
    add: int = 0
    remove: tuple[str, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)


async def compare(group: str, state: GroupState, seen: Observation, what_if: WhatIf, now: float) -> Comparison:
    """The group as the ledger has it, beside what a rebalance that began now would make of it. Raises WhatIfError."""
    now = moment(now if state.holddown is None else max(now, state.holddown.until))
    supposed = _suppose(seen, what_if, now)
    after = await rehearse(state, supposed, now)
    told = summary(after)
    if told.problem is not None:
        raise WhatIfError(f"{group}: {told.problem.message}")
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
    """The group when the rebalance is over, if everybody does at once what is asked. `now` is in unix seconds."""
    rehearsal, queues = _Rehearsal(now), FencedQueues(drains=True)
    runtime = GroupRuntime(state, rehearsal, rehearsal, queues, LargeWork(longest=inf).of(""))
    for _ in range(LONGEST):
        if not (await runtime.advance(seen)).effects:
            return runtime.state
    raise WhatIfError("the rebalance does not come to an end")


def _suppose(seen: Observation, what_if: WhatIf, now: float) -> Observation:
    """Nothing waits: no delay, no approval, no bound; and what is supposed to be otherwise."""
    members = dict(seen.members)
    for name in what_if.remove:
        if members.pop(MemberId(name), None) is None:
            raise WhatIfError(f"--remove {name}: there is no such member; there are {_some(seen.members)}")
    if what_if.assignor is not None:
        members = {name: replace(member, assignors=None) for name, member in members.items()}
    fresh = (MemberId(name) for number in range(1, LONGEST * 2) if (name := f"new-{number}") not in seen.members)
    for name, _ in zip(fresh, range(what_if.add), strict=False):
        members[name] = ObservedMember(Uid(f"supposed-{name}"), joined=now)
    queues = {name: replace(queue, incarnation=None, owners={}) for name, queue in seen.queues.items()}  # nothing is in doubt
    for queue_name, count in what_if.partitions.items():
        name_ = QueueName(queue_name)
        if name_ not in queues:
            raise WhatIfError(f"--partitions {queue_name}={count}: there is no such queue; there are {_some(queues)}")
        queues[name_] = replace(queues[name_], partitions=count)
    spec = replace(
        seen.spec,
        assignors=seen.spec.assignors if what_if.assignor is None else (what_if.assignor,),
        delay=0.0,
        max_concurrent_handoffs=0,
        session_timeout=0.0 if what_if.remove else seen.spec.session_timeout,
        paused=False,
        approval=Approval.AUTOMATIC,
        replicas=None if seen.spec.replicas is None else seen.spec.replicas + what_if.add,
    )
    return replace(seen, spec=spec, queues=queues, members=members, request=f"rehearsal at {now}", approved=None)


def _members(after: GroupState, seen: Observation) -> dict[MemberId, Member]:
    """Those that take part, standbys included."""
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
        one = state.moving == 1
        yield f"{state.moving} {'partition is' if one else 'partitions are'} changing hands just now; NOW is before that."
    if seen.spec.paused:
        yield "The group is paused: none of this happens until it goes on."
    if what_if.assignor is not None:
        deaf = [n for n, m in sorted(seen.members.items()) if m.assignors is not None and what_if.assignor not in m.assignors]
        if deaf:
            yield f"{_some(deaf)} would have to announce {what_if.assignor} first (annotation baton.dev/assignors)."
    if what_if.remove and seen.spec.session_timeout > 0:
        yield f"A static member's partitions wait {seen.spec.session_timeout:.0f} s for it before they move."


def _some(names: Iterable[str]) -> str:
    return first_of(sorted(names), 5) or "none"
