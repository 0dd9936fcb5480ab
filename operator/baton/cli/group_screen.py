"""A group on one screen: what is going on, why, and how long it can last. What does not fit is summed up. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleRenderable, RenderableType
from rich.table import Table
from rich.text import Text

from baton.cli.group_view import UNKNOWN, is_idle
from baton.cli.printing import table
from baton.engine.partition_state import PartitionState
from baton.kube.times import to_seconds
from baton.model.wording import counted, first_of

Json = Mapping[str, Any]

STATES = [one.value for one in PartitionState]
MOST_HANDOFFS, MOST_QUEUES, MOST_PROPOSED, LEAST_MEMBERS = 5, 5, 4, 3


def screen(one: Json, now: float, console: Console, lines: int | None) -> Iterator[RenderableType]:
    """`lines`: how many there are on the console; None: as many as it takes."""
    top = [*_head(one, now), *_problems(one, now)]
    queues = _queues(one["queues"], None if lines is None else MOST_QUEUES)
    bottom = [*_slots(one, now), *_handoffs(one, now, None if lines is None else MOST_HANDOFFS), *_proposal(one, lines)]
    # Besides: the heading of the members' table, who is left out of it, who stands by, and the prompt.
    fixed: list[ConsoleRenderable] = [*top, queues, *bottom]
    taken = sum(len(console.render_lines(part)) for part in fixed) + 4
    room = None if lines is None else max(LEAST_MEMBERS, lines - taken)
    yield from top
    if one["queues"]:
        yield queues
    yield from _members(one["owners"], room)
    yield from bottom


def partition_table(rows: Iterable[Json]) -> Table:
    """Every partition."""
    fields = ("queue", "partition", "state", "owner", "epoch", "to", "deadline", "reason")
    head = ("QUEUE", "PARTITION", "STATE", "OWNER", "EPOCH", "TO", "UNTIL", "WHY")
    return table(head, ([row[field] for field in fields] for row in rows))


def group_table(views: Iterable[Json], now: float) -> Table:
    """A line for each group."""
    rows = []
    for one in views:
        ready = one["conditions"].get("Ready", {})
        numbers = [one[name] for name in ("partitions", "unowned", "members", "moving")]
        seen = None if one["lastLookTime"] is None else f"{_ago(one['lastLookTime'], now)} ago"
        rows.append((one["namespace"], one["group"], one["state"], *numbers, ready.get("reason"), seen))
    return table(("NAMESPACE", "GROUP", "STATE", "PARTITIONS", "UNOWNED", "MEMBERS", "MOVING", "READY", "SEEN"), rows)


def _head(one: Json, now: float) -> Iterator[Text]:
    until = f" for {_left(one['holdUntil'], now)} more, until {one['holdUntil']}" if one["holdUntil"] else ""
    why = f": {one['why']}" if one["why"] else ""
    yield _line((f"{one['namespace']}/{one['group']}", "bold"), ": ", (one["state"], "bold"), until, why)
    approval = ", approval Manual" if one["approval"] == "Manual" else ""
    unowned = f" ({one['unowned']:,} without an owner)" if one["unowned"] else ""
    yield _line(
        f"{counted(one['partitions'] or 0, 'partition')}{unowned}, {counted(one['members'] or 0, 'member')} "
        f"({one['standbys'] or 0:,} standing by), "
        f"{one['moving'] or 0:,} moving; assignor {one['assignor'] or '-'}{approval}"
    )
    yield _line(
        f"so far {counted(one['moves'] or 0, 'move')} (the least possible: {one['lowerBound'] or 0:,}), "
        f"{counted(one['deadlineMisses'] or 0, 'deadline')} missed"
    )


def _problems(one: Json, now: float) -> Iterator[Text]:
    if one["deletedAt"]:
        yield _line(("Deleted", "yellow"), f" at {one['deletedAt']}; it goes when its partitions are taken back")
    if one["state"] == UNKNOWN:
        looked, as_of = one["lastLookTime"], f"all this is as of then ({one['lastState']})"
        since = " yet" if looked is None else f" since {looked} ({_ago(looked, now)} ago): {as_of}"
        yield _line(("No operator has looked", "red"), f"{since}. Nothing is moved meanwhile.")
        yield _line(
            f"{_leader(one['leader'], now)}Does one run, and does it serve namespace {one['namespace']}? "
            "See kubectl get pods -A -l app.kubernetes.io/component=operator",
        )
    elif not one["specSeen"]:
        yield _line(("Out of date", "red"), ": no operator has seen the last change; does one run and serve this namespace?")
    if one["ledgerProblem"]:
        yield _line(("The ledger does not read as one", "red"), f": {one['ledgerProblem']}")
    for kind, condition in one["conditions"].items():
        if condition["status"] != "True" and _says_more(kind, condition["reason"]):
            colour = "red" if kind == "Ready" else "yellow"
            yield _line((f"{kind} is {condition['status']}: {condition['reason']}", colour), f": {condition['message']}")
    yield from _queue_problems(one["queues"], one["conditions"].get("Ready", {}).get("message", ""))
    rebalancing = one["conditions"].get("Rebalancing", {})
    if "waited for" in rebalancing.get("message", ""):
        yield _line(("Overdue", "yellow"), f": {rebalancing['message']}")


def _queue_problems(queues: Json, told: str) -> Iterator[Text]:
    """What is wrong with queues, besides what the group's condition Ready says (`told`). Those of one server share it."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for name, queue in queues.items():
        for kind, one in queue["conditions"].items():
            if one["status"] != "True" and one["message"] not in told:
                alike.setdefault((kind, one["status"], one["reason"], one["message"]), []).append(name)
    shown, rest = _cut(alike.items(), MOST_QUEUES)
    for (kind, status, reason, message), names in shown:
        yield _line((f"{kind} of {first_of(names, MOST_QUEUES)} is {status}: {reason}", "yellow"), f": {message}")
    if rest:
        yield _line(f"and {counted(len(rest), 'more condition')} of queues (kubectl describe pq)")


def _leader(one: Json | None, now: float) -> str:
    """Of the operator that looked last."""
    if one is None:
        return ""
    namespace, _, name = one["lease"].partition("/")
    if not one["readable"]:
        return f"Look at the Lease of its leader: kubectl get lease -n {namespace} {name}. "
    ago = None if one["renewTime"] is None else _ago(one["renewTime"], now)
    if ago is None:
        how = "does not exist any more"
    elif one["holder"] is None:
        how = f"was given up, and last renewed {ago} ago"
    else:
        how = f"was last renewed {ago} ago, by {one['holder']}"
    return f"The Lease of its leader, {name} in namespace {namespace}, {how}. "


def _says_more(kind: str, reason: str) -> bool:
    """Than the state does, and the counts below it."""
    if kind == "Settled":
        return reason == "Scaling"
    return kind not in ("Rebalancing", "ProposalReady") and reason != "ScaledToZero"


def _queues(queues: Json, most: int | None) -> Table:
    shown, rest = _cut(list(queues.items()), most)
    rows = [
        [name, of["partitions"], *(of["states"].get(state, 0) for state in STATES), of["scaleStatus"] or "-"]
        for name, of in shown
    ]
    if rest:
        sums = [sum(of["states"].get(state, 0) for _, of in rest) for state in STATES]
        rows.append([f"{len(rest)} more", sum(of["partitions"] for _, of in rest), *sums, None])
    return table(("QUEUE", "PARTITIONS", *(state.upper() for state in STATES), "SCALE"), rows)


def _members(owners: Json, most: int | None) -> Iterator[RenderableType]:
    if not owners:
        return
    active = {name: entry for name, entry in owners.items() if not is_idle(entry)}
    standbys = [name for name in owners if name not in active]
    busy = sorted(active, key=lambda name: (not active[name].get("revoking") and "problem" not in active[name], name))
    shown, rest = _cut(busy, most)
    rows = [
        (name, "?", entry["problem"], None)
        if "problem" in entry
        else (name, entry["count"], _ranges(entry["owned"]), _ranges(entry["revoking"]))
        for name, entry in ((name, active[name]) for name in sorted(shown))
    ]
    if rows:
        yield table(("MEMBER", "N", "OWNS", "LETS GO OF"), rows)
    if rest:
        counts = [active[name].get("count", 0) for name in rest]
        yield _line(
            f"and {len(rest):,} more, with {min(counts):,} to {counted(max(counts), 'partition')} each (--members shows all)"
        )
    if standbys:
        names, others = _cut(standbys, 5)
        yield _line("standing by: ", ", ".join(names) + (f" and {len(others):,} more" if others else ""))


def _slots(one: Json, now: float) -> Iterator[Text]:
    slots, rest = _cut(one["vacantSlots"], 3)
    for slot in slots:
        until = f" for {_left(slot['until'], now)} more" if slot["until"] else ""
        yield _line(f"the slot of {slot['member']} is kept{until}: {_ranges(slot['partitions'])}")
    if rest:
        yield _line(f"and {counted(len(rest), 'more slot')}")


def _handoffs(one: Json, now: float, most: int | None) -> Iterator[Text]:
    shown, rest = _cut(one["handoffs"], most)
    for move in shown:
        yield _line(handoff(move, now))
    hidden = len(rest) + max(0, (one["moving"] or 0) - len(one["handoffs"]))
    if hidden:
        yield _line(f"and {hidden:,} more on their way or planned (--partitions shows all)")


def handoff(move: Json, now: float) -> str:
    """`partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for 2 unacknowledged messages, 3 s left`"""
    why = f": {move['reason']}" if move.get("reason") else ""
    waits = []
    if (messages := move.get("unacknowledged")) is not None:
        waits.append(f"waits for {counted(messages, 'unacknowledged message')}")
    if move.get("deadline"):
        left = to_seconds(move["deadline"]) - now
        waits.append(f"{left:.0f} s left" if left > 0 else "overdue")
    way = f"from {move.get('from', 'nobody')} to {move.get('to', 'nobody')}"
    return f"partition {move['partition']} of {move['queue']} goes {way}{why}" + (f"; {', '.join(waits)}" if waits else "")


def _proposal(one: Json, lines: int | None) -> Iterator[Text]:
    proposal = one["proposal"]
    if not proposal:
        return
    longest = proposal.get("longestPauseSeconds")
    pause = "until the consumer lets go" if longest is None else f"for {longest} s at most"
    yield _line(
        (f"proposal {proposal['id']}", "bold"),
        f": {proposal['moves']:,} would move, {proposal['pausedAtOnce']:,} at once, each paused {pause} "
        f"({proposal.get('reason', '')})",
    )
    shown, _ = _cut(proposal.get("handoffs") or [], None if lines is None else MOST_PROPOSED)
    for move in shown:
        yield _line(f"  {move['queue']} {move['partitions']}: {move['from']} -> {move['to']}")
    yield _line(f"  to carry it out: baton approve {one['group']} -n {one['namespace']}")


def _line(*parts: str | tuple[str, str]) -> Text:
    """Words, or words and their style."""
    return Text.assemble(*parts, no_wrap=False, overflow="ellipsis")


def _cut(those: Any, most: int | None) -> tuple[list[Any], list[Any]]:
    """The first of them, and the rest; a rest of one is shown instead of counted."""
    those = list(those)
    return (those, []) if most is None or len(those) <= most + 1 else (those[:most], those[most:])


def _left(until: str, now: float) -> str:
    return f"{max(0.0, to_seconds(until) - now):.0f} s"


def _ago(then: str, now: float) -> str:
    """`12 s`, `7 min`, `3 h`, `5 d`"""
    seconds = max(0.0, now - to_seconds(then))
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _ranges(of: Mapping[str, str]) -> str:
    return "  ".join(f"{queue} {numbers}" for queue, numbers in of.items())
