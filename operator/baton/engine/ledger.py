"""The data of the ledger ConfigMap, which the operator restarts from and which pods read.

The members' keys have what each member owns and revokes. The key `group` has the rest: member slots, hand-offs with their
receivers and deadlines, partitions without an owner, timers and totals. Partitions are ranges (`0-3@12,7@17`) and equal entries
are grouped, so that 1,000 members with 10,000 partitions fit.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from baton.engine.partition_text import by_queue, grouped, write_grants, write_numbers
from baton.engine.state import (
    GroupState,
    MemberSlot,
    Proposal,
)
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY

VERSION = 1


def dump(state: GroupState) -> dict[str, str]:
    """The `data` of the ledger ConfigMap: a JSON text for each member and for the key `group`. Equal states give equal texts."""
    owned: defaultdict[MemberId, dict[Partition, Epoch]] = defaultdict(dict)
    revoking: defaultdict[MemberId, dict[Partition, Epoch]] = defaultdict(dict)
    for partition, record in state.records.items():
        if record.owner is not None:
            move = state.moves.get(partition)
            (owned if move is None or move.quiet else revoking)[record.owner][partition] = record.epoch
    data: dict[str, str] = {
        member: MemberEntry(
            group=state.group,
            member=member,
            uid=known.uid,
            generation=known.generation,
            active=known.active,
            owned=by_queue(owned[member]),
            revoking=by_queue(revoking[member]),
        ).to_json()
        for member, known in sorted(state.known.items())
    }
    return {**data, LEDGER_GROUP_KEY: json.dumps(_group(state), separators=(",", ":"), ensure_ascii=False)}


def _group(state: GroupState) -> dict[str, object]:
    facts, held, running = state.facts, state.holddown, state.rebalance
    raw: dict[str, object] = {
        "version": VERSION,
        "group": state.group,
        "generation": state.generation,
        "queues": {queue: _slim(state.queues[queue]._asdict()) for queue in sorted(state.queues)},
        "facts": None if facts is None else _slim(_fields(facts)),
        "member_slots": [slot.member if slot.vacated is None else _slot(slot) for slot in state.member_slots],
        "standbys": state.standbys,
        "instances": {m: known.instance for m, known in sorted(state.known.items()) if known.instance is not None},
        "subscribed": _subscriptions(state),
        "capacities": {m: str(known.capacity) for m, known in sorted(state.known.items()) if known.capacity != 1},
        "free": _free(state),
        "moves": _moves(state),
        "waiting": {m: write_numbers(part) for m, part in grouped((receiver, p) for p, receiver in state.waiting.items())},
        "proposal": None if state.proposal is None else _proposal(state.proposal),
        "holddown": None if held is None else _fields(held),
        "rebalance": None if running is None else {"full": running.full, "eager": running.eager, "why": running.why},
        "origins": []
        if running is None
        else [{"owner": o, "of": write_numbers(part)} for o, part in grouped((o, p) for p, o in running.origins.items())],
        "epoch_tombstones": write_grants(state.epoch_tombstones),
        "queue_tombstones": dict(sorted(state.queue_tombstones.items())),
        "unreleased": _unreleased(state),
        "fenced": sorted(state.fenced),
        "victims": state.victims,
        "scale": None if state.replicas is None else {"replicas": state.replicas, "victims": [name for name, _ in state.victims]},
        "totals": state.totals._asdict(),
    }
    return {"version": VERSION, **_slim(raw)}


def _slot(slot: MemberSlot) -> dict[str, object]:
    raw = _fields(slot) | {"vacated": write_numbers(slot.vacated or ())}
    return _slim(raw)


def _proposal(proposal: Proposal) -> dict[str, object]:
    """A proposal without its receivers' UIDs, which stand in the receivers' keys."""
    to = {m: write_numbers(part) for m, part in grouped((receiver, p) for p, receiver in proposal.receivers.items())}
    return {"id": proposal.id, "why": proposal.why, "created": proposal.created, "to": to}


ALIKE = ("deadline", "length", "since", "why", "quiet", "missed")
"""The fields that hand-offs of one batch share. The members' keys have their givers and their receivers' UIDs."""


def _moves(state: GroupState) -> list[dict[str, object]]:
    batches: defaultdict[tuple[object, ...], defaultdict[MemberId | None, dict[Partition, Epoch]]]
    batches = defaultdict(lambda: defaultdict(dict))
    uids: dict[MemberId, Uid | None] = {}
    for partition, move in sorted(state.moves.items()):
        alike = tuple(getattr(move, name) for name in ALIKE)
        batches[alike][move.receiver][partition] = move.epoch
        if move.receiver is not None and (move.receiver not in state.known or state.known[move.receiver].uid != move.uid):
            uids[move.receiver] = move.uid
    return [
        {
            **_slim(dict(zip(ALIKE, alike, strict=True))),
            "to": {receiver or "": write_grants(part) for receiver, part in receivers.items()},
            **({"uids": found} if (found := {m: uid for m, uid in uids.items() if m in receivers}) else {}),
        }
        for alike, receivers in batches.items()
    ]


def _free(state: GroupState) -> list[dict[str, object]]:
    """The partitions without an owner. `ended` has those of which later epochs were written than that of the last owner."""
    groups: defaultdict[MemberId | None, dict[Partition, Epoch]] = defaultdict(dict)
    ended: defaultdict[MemberId | None, dict[Partition, Epoch]] = defaultdict(dict)
    for partition, record in sorted(state.records.items()):
        if record.owner is None and (record.epoch or record.last is not None):
            groups[record.last][partition] = record.epoch
            if record.ended != record.epoch:
                ended[record.last][partition] = record.ended
    return [
        {"last": last, "of": write_grants(part), **({"ended": write_grants(ended[last])} if last in ended else {})}
        for last, part in sorted(groups.items(), key=lambda group: group[0] or "")
    ]


def _unreleased(state: GroupState) -> list[dict[str, object]]:
    groups: defaultdict[tuple[MemberId, Uid], dict[Partition, Epoch]] = defaultdict(dict)
    for partition, last in sorted(state.unreleased.items()):
        groups[last.member, last.uid][partition] = last.epoch
    return [{"member": member, "uid": uid, "of": write_grants(part)} for (member, uid), part in sorted(groups.items())]


def _subscriptions(state: GroupState) -> list[tuple[list[QueueName], list[MemberId]]]:
    groups: defaultdict[tuple[QueueName, ...], list[MemberId]] = defaultdict(list)
    for member, known in sorted(state.known.items()):
        if known.subscribed is not None:
            groups[tuple(sorted(known.subscribed))].append(member)
    return [(list(queues), members) for queues, members in sorted(groups.items())]


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _slim(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping without empty values. A number is never empty, not even 0."""
    return {name: value for name, value in raw.items() if value or (isinstance(value, int | float) and value is not False)}
