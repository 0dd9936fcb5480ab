"""Writing and reading the data of the ledger ConfigMap, which the operator restarts from and which pods read.

Each member's key has the partitions that it owns, and those that it has to release. The key `group` has the rest: member slots,
hand-offs with receivers and deadlines, partitions without an owner, timers and totals. Partitions are ranges (`0-3@12,7@17`) and
equal entries are grouped, so that 1,000 members with 10,000 partitions fit.

A ledger is untrusted text. Reading it returns a state or raises a LedgerError, at a bounded cost: a range of a few characters
can name a million partitions, so they are counted before any object is made of them. pydantic checks the type and the bounds of
each field, as `_Group` and the classes of the state declare them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from baton.engine.state import (
    Count,
    Facts,
    GroupState,
    Holddown,
    KnownMember,
    KnownQueue,
    MemberSlot,
    Move,
    PartitionRecord,
    Proposal,
    Rebalance,
    Seconds,
    Totals,
    Unreleased,
)
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry, flat, read_object
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import count_named, format_grants, format_numbers, parse_grants, parse_numbers
from baton.schema.mistakes import first_mistake, in_words

V = TypeVar("V")

# Partitions and grants of several queues in the ledger's format


def grouped(pairs: Iterable[tuple[Any, V]]) -> list[tuple[Any, list[V]]]:
    """Return the values of each key, sorted by key; None comes first."""
    groups: defaultdict[Any, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return sorted(groups.items(), key=lambda group: (group[0] is not None, group[0]))


def by_queue(grants: Mapping[Partition, Epoch]) -> dict[QueueName, dict[int, Epoch]]:
    """Invert `baton.model.ledger.flat`."""
    queues: defaultdict[QueueName, dict[int, Epoch]] = defaultdict(dict)
    for partition, epoch in grants.items():
        queues[partition.queue][partition.number] = epoch
    return queues


def write_grants(grants: Mapping[Partition, Epoch]) -> dict[QueueName, str]:
    """Return grants as `{"orders": "0-3@12,7@17"}`."""
    return {queue: format_grants(part) for queue, part in sorted(by_queue(grants).items())}


def write_numbers(partitions: Iterable[Partition]) -> dict[QueueName, str]:
    """Return partitions as `{"orders": "0-3,7"}`."""
    groups = grouped((partition.queue, partition) for partition in partitions)
    return {queue: format_numbers(partition.number for partition in part) for queue, part in groups}


def read_grants(raw: Mapping[str, str]) -> dict[Partition, Epoch]:
    """Invert `write_grants`. Raises ValueError for anything else."""
    return dict(flat({QueueName(queue): parse_grants(text) for queue, text in raw.items()}))


def read_numbers(raw: Mapping[str, str]) -> list[Partition]:
    """Invert `write_numbers`; sorted within a queue. Raises ValueError for anything else."""
    return [Partition(QueueName(queue), number) for queue, text in raw.items() for number in sorted(parse_numbers(text))]


# Writing


VERSION = 1


def dump(state: GroupState) -> dict[str, str]:
    """Return the ledger's `data`: a JSON text for each member and for the key `group`. Equal states give equal texts."""
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
    """Return a proposal without the UIDs of its receivers, which are in the receivers' keys."""
    to = {m: write_numbers(part) for m, part in grouped((receiver, p) for p, receiver in proposal.receivers.items())}
    return {"id": proposal.id, "why": proposal.why, "created": proposal.created, "to": to}


ALIKE = ("deadline", "length", "since", "why", "quiet", "missed")
"""The fields that hand-offs of one batch share. Givers, and the UIDs of receivers, are in the members' keys."""


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
    """Return the partitions without an owner. `ended`: the last owners' epochs, where a later epoch has been written since."""
    free = [(p, one) for p, one in state.records.items() if one.owner is None and (one.epoch or one.last is not None)]
    ended = dict(grouped((one.last, (p, one.ended)) for p, one in free if one.ended != one.epoch))
    return [
        {"last": last, "of": write_grants(dict(part)), **({"ended": write_grants(dict(ended[last]))} if last in ended else {})}
        for last, part in grouped((one.last, (p, one.epoch)) for p, one in free)
    ]


def _unreleased(state: GroupState) -> list[dict[str, object]]:
    groups = grouped(((last.member, last.uid), (partition, last.epoch)) for partition, last in state.unreleased.items())
    return [{"member": member, "uid": uid, "of": write_grants(dict(part))} for (member, uid), part in groups]


def _subscriptions(state: GroupState) -> list[tuple[list[QueueName], list[MemberId]]]:
    known = [(m, one.subscribed) for m, one in sorted(state.known.items()) if one.subscribed is not None]
    return [(list(queues), members) for queues, members in grouped((tuple(sorted(reads)), m) for m, reads in known)]


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _slim(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping without empty values. A number is never empty, not even 0."""
    return {name: value for name, value in raw.items() if value or (isinstance(value, int | float) and value is not False)}


# Reading: the JSON of the key `group`

Texts = dict[str, str]
"""Partitions, or grants of partitions, by queue."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Hand-offs that share the fields of `Move` named here."""

    to: dict[str, Texts]
    """The hand-offs by receiver; "" for those without a receiver."""
    uids: dict[MemberId, Uid] = field(default_factory=dict)
    deadline: Seconds = 0.0
    length: Seconds = 0.0
    since: Seconds | None = None
    why: str = ""
    quiet: bool = False
    missed: bool = False


class _Free(NamedTuple):
    of: Texts
    last: MemberId | None = None
    ended: Texts | None = None


@dataclass(frozen=True, slots=True)
class _Vacant:
    member: MemberId
    uid: Uid
    vacated: Texts
    instance: str | None = None
    expires: Seconds | None = None
    length: Seconds = 0.0
    late: bool = False
    overtaken: bool = False


class _Origins(NamedTuple):
    of: Texts
    owner: MemberId | None = None


class _Unreleased(NamedTuple):
    member: MemberId
    uid: Uid
    of: Texts


class _Proposal(NamedTuple):
    id: str
    why: str
    created: Seconds
    to: dict[MemberId, Texts]


class _Scale(NamedTuple):
    replicas: Count
    victims: list[str]


class _Group(BaseModel):
    """The key `group`, with ranges of partitions still as text."""

    model_config = ConfigDict(strict=True)

    version: int
    group: str
    generation: Count
    queues: dict[QueueName, KnownQueue] = {}
    facts: Facts | None = None
    member_slots: list[MemberId | _Vacant] = []
    standbys: list[MemberId] = []
    instances: dict[MemberId, str] = {}
    subscribed: list[tuple[list[QueueName], list[MemberId]]] = []
    capacities: dict[MemberId, str] = {}
    free: list[_Free] = []
    moves: list[_Batch] = []
    waiting: dict[MemberId, Texts] = {}
    proposal: _Proposal | None = None
    holddown: Holddown | None = None
    rebalance: Rebalance | None = None
    origins: list[_Origins] = []
    epoch_tombstones: Texts = {}
    queue_tombstones: dict[QueueName, Count] = {}
    unreleased: list[_Unreleased] = []
    fenced: list[tuple[MemberId, Uid]] = []
    victims: list[tuple[MemberId, Uid]] = []
    scale: _Scale | None = None
    totals: Totals = Totals()

    @classmethod
    def read(cls, text: str) -> "_Group":
        """Validate the JSON. Raises LedgerError, which names the field."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            mistake = first_mistake(error)
            field = ".".join(map(str, mistake["loc"]))
            raise LedgerError(f"{field}: {in_words(mistake)}" if field else mistake["msg"]) from None

    def check_size(self) -> int:
        """Return how often the texts name a partition. Raises LedgerError for more than a group may have."""
        partitions = sum(facts.partitions for facts in self.queues.values())
        if partitions > MOST_PARTITIONS:
            raise LedgerError(f"queues: {partitions:,} partitions are more than the {MOST_PARTITIONS:,} of a group")
        return _count(self._texts(), 0)

    def _texts(self) -> Iterator[str]:
        for of in (one.of for part in (self.free, self.unreleased, self.origins) for one in part):
            yield from of.values()
        for free in self.free:
            yield from (free.ended or {}).values()
        for slot in self.member_slots:
            yield from () if isinstance(slot, str) else slot.vacated.values()
        for named in (self.waiting, *(batch.to for batch in self.moves), *([self.proposal.to] if self.proposal else ())):
            for of in named.values():
                yield from of.values()
        yield from self.epoch_tombstones.values()


# Reading: the bounds on what a ledger may name


MOST_PARTITIONS = 100_000
"""The most partitions of all queues of a group together."""

WITHDRAWN_OF_ONE = 4
"""Epoch tombstones, or unreleased partitions, that take as much memory as one partition of the group."""

MOST_WITHDRAWN = MOST_PARTITIONS
"""The most epoch tombstones of a group, and the most unreleased partitions."""

_MOST_NAMED = 8 * MOST_PARTITIONS
"""A ledger names a partition once with its owner or as free, and at most once each with the last owner's epoch, in a move, an
origin, a tombstone, a slot and a plan, and as unreleased."""


def partitions_named(data: Mapping[str, str]) -> int:
    """Return the number of partitions in a ledger's data, plus a quarter of those that are gone; 0 if the data is no ledger.

    Makes no object per partition.
    """
    try:
        group = _Group.read(data.get(LEDGER_GROUP_KEY, ""))
        group.check_size()
    except LedgerError:
        return 0
    has = sum(facts.partitions for facts in group.queues.values())
    gone = [group.epoch_tombstones, *(part.of for part in group.unreleased)]
    return has + sum(count_named(text) for of in gone for text in of.values()) // WITHDRAWN_OF_ONE


def _count(texts: Iterable[str], named: int) -> int:
    for text in texts:
        named += count_named(text)
        if named > _MOST_NAMED:
            raise LedgerError(f"more than {_MOST_NAMED:,} mentions of partitions")
    return named


# Reading: the whole ledger


_CAPACITY = re.compile(r"[0-9]{1,20}(/[0-9]{1,20})?")
"""A Fraction as `str` writes it. `Fraction()` would also accept 1e999999999, a number of a billion digits."""


def load(data: Mapping[str, str]) -> GroupState:
    """Invert `dump`. Raises LedgerError, which names the key and the cause, for any other data."""
    if LEDGER_GROUP_KEY not in data:
        raise LedgerError(f"the key {LEDGER_GROUP_KEY!r} is missing")
    with _refused(LEDGER_GROUP_KEY):
        group = _Group.read(data[LEDGER_GROUP_KEY])
        if group.version != VERSION:
            raise LedgerError(f"version: {group.version!r} was written by another Baton; this one reads {VERSION}")
        named = group.check_size()
    members: dict[str, dict[str, object]] = {}
    for key, text in data.items():
        if key != LEDGER_GROUP_KEY:
            with _refused(key):
                raw = members[key] = read_object(text)
                sides = [side for side in (raw.get("owned"), raw.get("revoking")) if isinstance(side, dict)]
                named = _count((str(text) for side in sides for text in side.values()), named)
    entries: dict[MemberId, MemberEntry] = {}
    for key, raw in members.items():
        with _refused(key):
            entries[MemberId(key)] = MemberEntry.from_raw(raw)
    with _refused(LEDGER_GROUP_KEY):
        return _read(group, entries)


@contextmanager
def _refused(key: str) -> Iterator[None]:
    """Turn errors of reading this key into a LedgerError that names the key."""
    try:
        yield
    except KeyError as error:
        raise LedgerError(f"{key}: {error} is missing, or named but not defined") from None
    except (ValueError, ArithmeticError) as error:
        raise LedgerError(f"{key}: {error}") from None


def _read(group: _Group, entries: Mapping[MemberId, MemberEntry]) -> GroupState:
    records, revoking = _read_records(group, entries)
    known = _read_known(group, entries)
    moves = _read_moves(group.moves, records, known)
    queues = group.queues
    invalid = revoking - {partition for partition, move in moves.items() if not move.quiet}
    invalid |= {p for p in records if p.queue not in queues or (p.number >= queues[p.queue].partitions and p not in moves)}
    if invalid:
        raise LedgerError(f"{min(invalid)} has an owner but no queue, or a revoke but no deadline")
    origins = {p: part.owner for part in group.origins for p in read_numbers(part.of)}
    return GroupState(
        group=group.group,
        generation=group.generation,
        queues=queues,
        records=records,
        epoch_tombstones=read_grants(group.epoch_tombstones),
        queue_tombstones={queue: Epoch(epoch) for queue, epoch in group.queue_tombstones.items()},
        unreleased={
            partition: Unreleased(part.member, part.uid, epoch)
            for part in group.unreleased
            for partition, epoch in read_grants(part.of).items()
        },
        known=known,
        member_slots=[_read_member_slot(slot, known, records) for slot in group.member_slots],
        standbys=[_present(member, known) for member in group.standbys],
        moves=moves,
        waiting=_read_receivers(group.waiting, records),
        proposal=None if group.proposal is None else _read_proposal(group.proposal, records, known),
        holddown=group.holddown,
        rebalance=None if group.rebalance is None else replace(group.rebalance, origins=origins),
        facts=group.facts,
        fenced=frozenset(group.fenced),
        replicas=None if group.scale is None else group.scale.replicas,
        victims=tuple(group.victims),
        totals=group.totals,
    )


def _read_records(
    group: _Group, entries: Mapping[MemberId, MemberEntry]
) -> tuple[dict[Partition, PartitionRecord], set[Partition]]:
    """Return the partitions' records, and the partitions that are being revoked.

    Owners come from the members' keys; epochs of partitions without an owner come from the key `group`.
    """
    never = PartitionRecord()
    records = {Partition(name, number): never for name, queue in group.queues.items() for number in range(queue.partitions)}
    free: set[Partition] = set()
    for part in group.free:
        ended = read_grants(part.ended or {})
        for partition, epoch in read_grants(part.of).items():
            records[partition] = PartitionRecord(epoch, None, part.last, ended.get(partition, epoch))
            free.add(partition)
    revoking: set[Partition] = set()
    for member, entry in entries.items():
        if entry.group != group.group or entry.member != member:
            raise LedgerError(f"the key {member!r} was written for {entry.member} of {entry.group}")
        at: dict[Epoch, PartitionRecord] = {}
        for queues_of, gives in ((entry.owned, False), (entry.revoking, True)):
            for partition, epoch in flat(queues_of):
                if partition in free or records.get(partition, never).owner is not None:
                    raise LedgerError(f"partition {partition.number} of {partition.queue} is listed for {member} and elsewhere")
                if (record := at.get(epoch)) is None:
                    record = at[epoch] = PartitionRecord(epoch, member, member)
                records[partition] = record
                if gives:
                    revoking.add(partition)
    return records, revoking


def _read_known(group: _Group, entries: Mapping[MemberId, MemberEntry]) -> dict[MemberId, KnownMember]:
    subscribed = {member: frozenset(wanted) for wanted, members in group.subscribed for member in members}
    capacities = {member: _capacity(text) for member, text in group.capacities.items()}
    return {
        member: KnownMember(
            uid=entry.uid,
            active=entry.active,
            generation=entry.generation,
            instance=group.instances.get(member),
            subscribed=subscribed.get(member),
            capacity=capacities.get(member, Fraction(1)),
        )
        for member, entry in entries.items()
    }


def _read_member_slot(
    slot: MemberId | _Vacant, known: Mapping[MemberId, KnownMember], records: Mapping[Partition, PartitionRecord]
) -> MemberSlot:
    if isinstance(slot, str):
        member = _present(slot, known)
        return MemberSlot(member, known[member].uid, known[member].instance)
    left = frozenset(_in(p, records) for p in read_numbers(slot.vacated))
    if not left:
        raise LedgerError(f"slots: the slot of {slot.member!r} is vacant and has no partitions")
    return MemberSlot(slot.member, slot.uid, slot.instance, left, slot.expires, slot.length, slot.late, slot.overtaken)


def _read_proposal(
    raw: _Proposal, records: Mapping[Partition, PartitionRecord], known: Mapping[MemberId, KnownMember]
) -> Proposal:
    receivers = _read_receivers(raw.to, records)
    uids = {member: known[_present(member, known)].uid for member in receivers.values()}
    return Proposal(raw.id, receivers, uids, raw.why, raw.created)


def _read_receivers(to: Mapping[MemberId, Texts], records: Mapping[Partition, PartitionRecord]) -> dict[Partition, MemberId]:
    return {_in(partition, records): member for member, of in to.items() for partition in read_numbers(of)}


def _read_moves(
    batches: Iterable[_Batch], records: Mapping[Partition, PartitionRecord], known: Mapping[MemberId, KnownMember]
) -> dict[Partition, Move]:
    moves: dict[Partition, Move] = {}
    for batch in batches:
        like = Move(None, None, Epoch(0), **{name: getattr(batch, name) for name in ALIKE})
        for name, of in batch.to.items():
            receiver = MemberId(name) if name else None
            uid = None if receiver is None else batch.uids.get(receiver) or known[receiver].uid
            for partition, epoch in read_grants(of).items():
                record = records[partition]
                if partition in moves or (record.owner is None and record.epoch != epoch):
                    raise LedgerError(f"{partition} has two hand-offs, or two epochs")
                moves[partition] = replace(like, receiver=receiver, uid=uid, epoch=epoch, giver=record.owner)
    return moves


def _present(member: MemberId, known: Mapping[MemberId, KnownMember]) -> MemberId:
    if member not in known:
        raise LedgerError(f"the key of {member!r} is missing")
    return member


def _in(partition: Partition, records: Mapping[Partition, PartitionRecord]) -> Partition:
    if partition not in records:
        raise LedgerError(f"{partition} is not a partition of the group")
    return partition


def _capacity(text: str) -> Fraction:
    if not _CAPACITY.fullmatch(text) or (made := Fraction(text)) <= 0:
        raise LedgerError(f"capacities: {text[:40]!r} is not a number above 0")
    return made
