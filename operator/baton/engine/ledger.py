"""The ledger ConfigMap's data: the one record that the operator restarts from and that pods read.

Who owns and revokes what stands only in the members' keys; the key `group` has the rest: seats, hand-offs with their receivers
and deadlines, what has no owner, timers and totals. Partitions are written as ranges (`0-3@12,7@17`) and what is alike shares
one entry, so that 1,000 members with 10,000 partitions fit.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from baton.engine.checked import checked
from baton.engine.observation import Protocol
from baton.engine.spelling import by_queue, grouped, read_grants, read_numbers, spell_grants, spell_numbers
from baton.engine.state import (
    Facts,
    GroupState,
    Holddown,
    KnownMember,
    KnownQueue,
    Move,
    Proposal,
    Rebalance,
    Seat,
    Slot,
    Totals,
)
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry, flat
from baton.model.names import LEDGER_GROUP_KEY

_VERSION = 1
_MOST = 1_000_000
"""Partitions of a queue, as in `baton.model.ranges`."""


def dump(state: GroupState) -> dict[str, str]:
    """The `data` of the ledger ConfigMap. Equal states have equal texts."""
    owned: defaultdict[MemberId, dict[Partition, Epoch]] = defaultdict(dict)
    revoking: defaultdict[MemberId, dict[Partition, Epoch]] = defaultdict(dict)
    for partition, slot in state.slots.items():
        if slot.owner is not None:
            move = state.moves.get(partition)
            (owned if move is None or move.quiet else revoking)[slot.owner][partition] = slot.epoch
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


def load(data: Mapping[str, str]) -> GroupState:
    """The inverse of `dump`. Raises LedgerError, which names the key and the cause, for anything else (a hand edited it)."""
    if LEDGER_GROUP_KEY not in data:
        raise LedgerError(f"the key {LEDGER_GROUP_KEY!r} is missing")
    entries = {}
    for key, text in data.items():
        if key != LEDGER_GROUP_KEY:
            try:
                entries[MemberId(key)] = MemberEntry.from_json(text)
            except LedgerError as error:
                raise LedgerError(f"{key}: {error}") from None
    try:
        return _read(json.loads(data[LEDGER_GROUP_KEY]), entries)
    except LedgerError as error:
        raise LedgerError(f"{LEDGER_GROUP_KEY}: {error}") from None
    except KeyError as error:
        raise LedgerError(f"{LEDGER_GROUP_KEY}: {error} is missing, or names what is not there") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise LedgerError(f"{LEDGER_GROUP_KEY}: {error}") from None
    except RecursionError:
        raise LedgerError(f"{LEDGER_GROUP_KEY}: nested too deeply") from None


def _group(state: GroupState) -> dict[str, Any]:
    facts, held, running = state.facts, state.holddown, state.rebalance
    raw: dict[str, Any] = {
        "version": _VERSION,
        "group": state.group,
        "generation": state.generation,
        "queues": {queue: _slim(state.queues[queue]._asdict()) for queue in sorted(state.queues)},
        "facts": None if facts is None else _slim(_fields(facts)),
        "seats": [seat.member if seat.left is None else _seat(seat) for seat in state.seats],
        "standbys": state.standbys,
        "instances": {m: known.instance for m, known in sorted(state.known.items()) if known.instance is not None},
        "subscribed": _subscriptions(state),
        "capacities": {m: str(known.capacity) for m, known in sorted(state.known.items()) if known.capacity != 1},
        "free": [{"last": last, "of": spell_grants(part)} for last, part in _free(state)],
        "moves": _moves(state),
        "waiting": {m: spell_numbers(part) for m, part in grouped((receiver, p) for p, receiver in state.waiting.items())},
        "proposal": None if state.proposal is None else _proposal(state.proposal),
        "holddown": None if held is None else _fields(held),
        "rebalance": None if running is None else {"full": running.full, "eager": running.eager, "why": running.why},
        "origins": []
        if running is None
        else [{"owner": o, "of": spell_numbers(part)} for o, part in grouped((o, p) for p, o in running.origins.items())],
        "tombs": spell_grants(state.tombs),
        "fenced": sorted(state.fenced),
        "victims": state.victims,
        "scale": None if state.replicas is None else {"replicas": state.replicas, "victims": [name for name, _ in state.victims]},
        "totals": state.totals._asdict(),
    }
    return {"version": _VERSION, **_slim(raw)}


def _read(raw: Mapping[str, Any], entries: Mapping[MemberId, MemberEntry]) -> GroupState:
    if raw["version"] != _VERSION:
        raise LedgerError(f"version: {raw['version']!r} was written by another Baton; this one reads {_VERSION}")
    queues = {QueueName(name): checked(KnownQueue, **facts) for name, facts in raw.get("queues", {}).items()}
    for name, facts in queues.items():
        if not 0 <= facts.partitions <= _MOST:
            raise LedgerError(f"queues.{name}.partitions: {facts.partitions} is not between 0 and {_MOST:,}")
    slots, revoking = _read_slots(raw, queues, entries)
    known = _read_known(raw, entries)
    moves = _read_moves(raw.get("moves", ()), slots, known)
    strays = revoking - {partition for partition, move in moves.items() if not move.quiet}
    strays |= {p for p in slots if p.queue not in queues or (p.number >= queues[p.queue].partitions and p not in moves)}
    if strays:
        raise LedgerError(f"{min(strays)} has an owner but no queue, or a revoke but no deadline")
    running = raw.get("rebalance")
    origins = {p: part.get("owner") for part in raw.get("origins", ()) for p in read_numbers(part["of"])}
    recorded = raw.get("facts")
    return checked(
        GroupState,
        group=str(raw["group"]),
        generation=int(raw["generation"]),
        queues=queues,
        slots=slots,
        tombs=read_grants(raw.get("tombs", {})),
        known=known,
        seats=tuple(_read_seat(seat, known, slots) for seat in raw.get("seats", ())),
        standbys=tuple(_present(member, known) for member in raw.get("standbys", ())),
        moves=moves,
        waiting={_in(p, slots): MemberId(member) for member, of in raw.get("waiting", {}).items() for p in read_numbers(of)},
        proposal=None if raw.get("proposal") is None else _read_proposal(raw["proposal"], slots, known),
        holddown=None if raw.get("holddown") is None else checked(Holddown, **raw["holddown"]),
        rebalance=None if running is None else checked(Rebalance, origins=origins, **running),
        facts=None if recorded is None else checked(Facts, **{**recorded, "protocol": Protocol(recorded["protocol"])}),
        fenced=frozenset((MemberId(name), Uid(uid)) for name, uid in raw.get("fenced", ())),
        replicas=None if raw.get("scale") is None else int(raw["scale"]["replicas"]),
        victims=tuple((MemberId(name), Uid(uid)) for name, uid in raw.get("victims", ())),
        totals=checked(Totals, **raw.get("totals", {})),
    )


def _read_slots(
    raw: Mapping[str, Any], queues: Mapping[QueueName, KnownQueue], entries: Mapping[MemberId, MemberEntry]
) -> tuple[dict[Partition, Slot], set[Partition]]:
    """Who has what, and which of it is being revoked: from the members' keys, and what nobody has from the key `group`."""
    slots = {Partition(name, number): Slot() for name, queue in queues.items() for number in range(queue.partitions)}
    free: set[Partition] = set()
    for part in raw.get("free", ()):
        like = checked(Slot, last=part.get("last"))
        for partition, epoch in read_grants(part["of"]).items():
            slots[partition] = like._replace(epoch=epoch)
            free.add(partition)
    revoking: set[Partition] = set()
    for member, entry in entries.items():
        if entry.group != raw["group"] or entry.member != member:
            raise LedgerError(f"the key {member!r} was written for {entry.member} of {entry.group}")
        for queues_of, gives in ((entry.owned, False), (entry.revoking, True)):
            for partition, epoch in flat(queues_of):
                if partition in free or slots.get(partition, Slot()).owner is not None:
                    raise LedgerError(f"partition {partition.number} of {partition.queue} stands at {member} and elsewhere")
                slots[partition] = Slot(epoch, member, member)
                if gives:
                    revoking.add(partition)
    return slots, revoking


def _read_known(raw: Mapping[str, Any], entries: Mapping[MemberId, MemberEntry]) -> dict[MemberId, KnownMember]:
    subscribed = {MemberId(m): frozenset(wanted) for wanted, members in raw.get("subscribed", ()) for m in members}
    instances = raw.get("instances", {})
    capacities = {MemberId(m): Fraction(text) for m, text in raw.get("capacities", {}).items()}
    return {
        member: checked(
            KnownMember,
            uid=entry.uid,
            active=entry.active,
            generation=entry.generation,
            instance=instances.get(member),
            subscribed=subscribed.get(member),
            capacity=capacities.get(member, Fraction(1)),
        )
        for member, entry in entries.items()
    }


def _seat(seat: Seat) -> dict[str, Any]:
    raw = _fields(seat) | {"left": spell_numbers(seat.left or ())}
    return _slim(raw)


def _read_seat(raw: Any, known: Mapping[MemberId, KnownMember], slots: Mapping[Partition, Slot]) -> Seat:
    if isinstance(raw, str):
        member = _present(MemberId(raw), known)
        return Seat(member, known[member].uid, known[member].instance)
    return checked(Seat, **{**raw, "left": frozenset(_in(p, slots) for p in read_numbers(raw["left"]))})


def _proposal(proposal: Proposal) -> dict[str, Any]:
    """Its receivers have keys, and stand in them with the UIDs that they are meant with."""
    to = {m: spell_numbers(part) for m, part in grouped((receiver, p) for p, receiver in proposal.receivers.items())}
    return {"id": proposal.id, "why": proposal.why, "created": proposal.created, "to": to}


def _read_proposal(raw: Mapping[str, Any], slots: Mapping[Partition, Slot], known: Mapping[MemberId, KnownMember]) -> Proposal:
    receivers = {_in(p, slots): MemberId(member) for member, of in raw["to"].items() for p in read_numbers(of)}
    uids = {member: known[_present(member, known)].uid for member in receivers.values()}
    return checked(Proposal, id=raw["id"], receivers=receivers, uids=uids, why=raw["why"], created=raw["created"])


_ALIKE = ("deadline", "length", "since", "why", "quiet", "missed")
"""What hand-offs that began together have in common. Their givers stand in the members' keys, and their receivers' UIDs too."""


def _moves(state: GroupState) -> list[dict[str, Any]]:
    batches: defaultdict[tuple[Any, ...], defaultdict[MemberId | None, dict[Partition, Epoch]]]
    batches = defaultdict(lambda: defaultdict(dict))
    uids: dict[MemberId, Uid | None] = {}
    for partition, move in sorted(state.moves.items()):
        alike = tuple(getattr(move, name) for name in _ALIKE)
        batches[alike][move.receiver][partition] = move.epoch
        if move.receiver is not None and (move.receiver not in state.known or state.known[move.receiver].uid != move.uid):
            uids[move.receiver] = move.uid
    return [
        {
            **_slim(dict(zip(_ALIKE, alike, strict=True))),
            "to": {receiver or "": spell_grants(part) for receiver, part in receivers.items()},
            **({"uids": found} if (found := {m: uid for m, uid in uids.items() if m in receivers}) else {}),
        }
        for alike, receivers in batches.items()
    ]


def _read_moves(
    raw: Iterable[Mapping[str, Any]], slots: Mapping[Partition, Slot], known: Mapping[MemberId, KnownMember]
) -> dict[Partition, Move]:
    moves: dict[Partition, Move] = {}
    for batch in raw:
        alike = {name: batch[name] for name in _ALIKE if name in batch}
        like = checked(Move, receiver=None, uid=None, epoch=Epoch(0), **alike)
        for name, of in batch["to"].items():
            receiver = MemberId(name) if name else None
            uid = None if receiver is None else batch.get("uids", {}).get(receiver) or known[receiver].uid
            for partition, epoch in read_grants(of).items():
                slot = slots[partition]
                if partition in moves or (slot.owner is None and slot.epoch != epoch):
                    raise LedgerError(f"{partition} is on its way twice, or at two epochs")
                moves[partition] = replace(like, receiver=receiver, uid=uid, epoch=epoch, giver=slot.owner)
    return moves


def _free(state: GroupState) -> list[tuple[MemberId | None, dict[Partition, Epoch]]]:
    groups: defaultdict[MemberId | None, dict[Partition, Epoch]] = defaultdict(dict)
    for partition, slot in sorted(state.slots.items()):
        if slot.owner is None and (slot.epoch or slot.last is not None):
            groups[slot.last][partition] = slot.epoch
    return sorted(groups.items(), key=lambda group: group[0] or "")


def _subscriptions(state: GroupState) -> list[tuple[list[QueueName], list[MemberId]]]:
    groups: defaultdict[tuple[QueueName, ...], list[MemberId]] = defaultdict(list)
    for member, known in sorted(state.known.items()):
        if known.subscribed is not None:
            groups[tuple(sorted(known.subscribed))].append(member)
    return [(list(queues), members) for queues, members in sorted(groups.items())]


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _slim(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says nothing. A number always says something."""
    return {name: value for name, value in raw.items() if value or (isinstance(value, int | float) and value is not False)}


def _present(member: MemberId, known: Mapping[MemberId, KnownMember]) -> MemberId:
    if member not in known:
        raise LedgerError(f"the key of {member!r} is missing")
    return member


def _in(partition: Partition, slots: Mapping[Partition, Slot]) -> Partition:
    if partition not in slots:
        raise LedgerError(f"{partition} is not a partition of the group")
    return partition
