"""The data of the ledger ConfigMap, which the operator restarts from and which pods read: how it is written and read.

The members' keys have what each member owns and revokes. The key `group` has the rest: member slots, hand-offs with their
receivers and deadlines, partitions without an owner, timers and totals. Partitions are ranges (`0-3@12,7@17`) and equal entries
are grouped, so that 1,000 members with 10,000 partitions fit.

Anybody may have written a ledger. Reading returns a state or raises a LedgerError, at a bounded cost: a range of a few characters
can name a million partitions, so they are counted before any object is made of them. Each field has the declared type and a
plausible size.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import chain
from math import isfinite
from types import UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from baton.api.group import Protocol
from baton.engine.state import (
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
    Totals,
    Unreleased,
)
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry, flat, read_object
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import count_named, format_grants, format_numbers, parse_grants, parse_numbers

# Partitions and grants of several queues, as the ledger has them


def grouped(pairs: Iterable[tuple[Any, Partition]]) -> list[tuple[Any, list[Partition]]]:
    """The partitions of each key, sorted by key; None comes first."""
    groups: defaultdict[object, list[Partition]] = defaultdict(list)
    for key, partition in pairs:
        groups[key].append(partition)
    return sorted(groups.items(), key=lambda group: group[0] or "")


def by_queue(grants: Mapping[Partition, Epoch]) -> dict[QueueName, dict[int, Epoch]]:
    """The inverse of `baton.model.ledger.flat`."""
    queues: defaultdict[QueueName, dict[int, Epoch]] = defaultdict(dict)
    for partition, epoch in grants.items():
        queues[partition.queue][partition.number] = epoch
    return queues


def write_grants(grants: Mapping[Partition, Epoch]) -> dict[QueueName, str]:
    """`{"orders": "0-3@12,7@17"}`"""
    return {queue: format_grants(part) for queue, part in sorted(by_queue(grants).items())}


def write_numbers(partitions: Iterable[Partition]) -> dict[QueueName, str]:
    """`{"orders": "0-3,7"}`"""
    groups = grouped((partition.queue, partition) for partition in partitions)
    return {queue: format_numbers(partition.number for partition in part) for queue, part in groups}


def read_grants(raw: Mapping[str, str]) -> dict[Partition, Epoch]:
    """The inverse of `write_grants`. Raises ValueError for anything else."""
    return dict(flat({QueueName(queue): parse_grants(text) for queue, text in raw.items()}))


def read_numbers(raw: Mapping[str, str]) -> list[Partition]:
    """The inverse of `write_numbers`, sorted within a queue. Raises ValueError for anything else."""
    return [Partition(QueueName(queue), number) for queue, text in raw.items() for number in sorted(parse_numbers(text))]


# Bounds on what a ledger may name


MOST_PARTITIONS = 100_000
"""The most partitions of all queues of a group together."""

WITHDRAWN_OF_ONE = 4
"""So many epoch tombstones, or owners of partitions that are gone, take as much memory as one partition of the group."""

MOST_WITHDRAWN = MOST_PARTITIONS
"""The most epoch tombstones of a group, and the most partitions that are gone and not released."""

_MOST_NAMED = 8 * MOST_PARTITIONS
"""A ledger names a partition at its owner or as free, and perhaps with the epoch of its last owner, in a move, an origin, a
tombstone, a slot and a plan, and as unreleased."""


def partitions_named(data: Mapping[str, str]) -> int:
    """The partitions that a ledger's data gives a group, and a quarter of those that are gone; 0 if it does not read as a ledger.

    It makes no object per partition.
    """
    try:
        group = json.loads(data.get(LEDGER_GROUP_KEY) or "{}")
        Extent().of_group(group)
        has = sum(facts["partitions"] for facts in group.get("queues", {}).values())
        gone = [group.get("epoch_tombstones", {}), *(part["of"] for part in group.get("unreleased", ()))]
        return int(has) + sum(count_named(text) for of in gone for text in of.values()) // WITHDRAWN_OF_ONE
    except (LedgerError, LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return 0


class Extent:
    """Counts the partitions that one ledger names. The methods raise LedgerError for too many, and other errors for a malformed
    one."""

    def __init__(self) -> None:
        self._named = 0

    def of_group(self, group: Mapping[str, Any]) -> None:
        """Count the key `group`."""
        partitions = 0
        for name, facts in group.get("queues", {}).items():
            if not 0 <= (count := facts["partitions"]) <= MOST_PARTITIONS:
                raise LedgerError(f"queues.{name}.partitions: {count} is not between 0 and {MOST_PARTITIONS:,}")
            partitions += count
        if partitions > MOST_PARTITIONS:
            raise LedgerError(f"queues: {partitions:,} partitions are more than the {MOST_PARTITIONS:,} of a group")
        self._name(chain(_grants(group), _numbers(group)))

    def of_member(self, entry: Mapping[str, Any]) -> None:
        """Count the key of a member."""
        for side in (entry.get("owned"), entry.get("revoking")):
            if isinstance(side, dict):
                self._name(map(str, side.values()))

    def _name(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._named += count_named(text)
            if self._named > _MOST_NAMED:
                raise LedgerError(f"it names partitions more than {_MOST_NAMED:,} times")


def _grants(group: Mapping[str, Any]) -> Iterator[str]:
    yield from group.get("epoch_tombstones", {}).values()
    for part in (*group.get("free", ()), *group.get("unreleased", ())):
        yield from part["of"].values()
        yield from part.get("ended", {}).values()
    for batch in group.get("moves", ()):
        for of in batch["to"].values():
            yield from of.values()


def _numbers(group: Mapping[str, Any]) -> Iterator[str]:
    for of in group.get("waiting", {}).values():
        yield from of.values()
    for part in group.get("origins", ()):
        yield from part["of"].values()
    for of in (group.get("proposal") or {"to": {}})["to"].values():
        yield from of.values()
    for slot in group.get("member_slots", ()):
        if not isinstance(slot, str):
            yield from slot["vacated"].values()


# Writing


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


# Reading: objects made of JSON values


T = TypeVar("T")

LATEST = 253_402_300_799
"""Unix seconds: the end of the year 9999. No time and no duration of a ledger is greater."""

MOST = 2**63 - 1
"""The greatest integer that the API server accepts."""


Test = Callable[[object], bool]


def checked(kind: type[T], **fields: object) -> T:
    """An object of this class. Raises LedgerError, which names the field, for a value of another type or out of range."""
    tests: Mapping[str, Test] = _tests(kind)  # type: ignore[arg-type]  # a class can be hashed, whatever it is of
    for name, value in fields.items():
        fits = tests.get(name)
        if fits is not None and not fits(value):
            raise LedgerError(f"{name}: {str(value)[:40]!r} cannot stand there")
    return kind(**fields)


@cache
def _tests(kind: type[object]) -> dict[str, Test]:
    return {name: _test(hint) for name, hint in get_type_hints(kind).items()}


def _test(hint: object) -> Test:
    """A test of values for this type hint."""
    if isinstance(hint, NewType):
        return _test(hint.__supertype__)
    if get_origin(hint) in (UnionType, Union):
        return _any([_test(one) for one in get_args(hint)])
    if hint is float:
        return _is_time
    if hint is int:
        return _is_count
    if isinstance(hint, type) and not get_args(hint):
        return partial(_is, hint)
    return _collection(get_origin(hint), get_args(hint))


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) <= LATEST


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST


def _any(tests: Sequence[Test]) -> Test:
    first, *others = tests
    if not others:
        return first
    rest = _any(others)
    return lambda value: first(value) or rest(value)


def _each(hint: object) -> Callable[[Iterable[object]], bool]:
    """A test of many values for one type hint. For a class it looks at each distinct type once."""
    if isinstance(hint, NewType):
        return _each(hint.__supertype__)
    if isinstance(hint, type) and hint not in (int, float) and not get_args(hint):
        return lambda values: all(issubclass(found, hint) for found in set(map(type, values)))
    fits = _test(hint)
    return lambda values: all(map(fits, values))


def _collection(kind: Any, of: tuple[Any, ...]) -> Test:
    if issubclass(kind, Mapping):
        keys_fit, values_fit = map(_each, of)
        return lambda value: isinstance(value, kind) and keys_fit(value) and values_fit(value.values())
    if issubclass(kind, tuple) and of[-1] is not Ellipsis:
        parts = [_test(one) for one in of]
        return lambda value: (
            isinstance(value, kind)
            and len(value) == len(parts)
            and all(fits(one) for fits, one in zip(parts, value, strict=True))
        )
    all_fit = _each(of[0])
    return lambda value: isinstance(value, kind) and all_fit(value)


# Reading: the whole ledger


_CAPACITY = re.compile(r"[0-9]{1,20}(/[0-9]{1,20})?")
"""A Fraction as `str` writes it. `Fraction` itself would also accept 1e999999999, a number of a billion digits."""


def load(data: Mapping[str, str]) -> GroupState:
    """The inverse of `dump`. Raises LedgerError, which names the key and the cause, for any other data."""
    if LEDGER_GROUP_KEY not in data:
        raise LedgerError(f"the key {LEDGER_GROUP_KEY!r} is missing")
    extent = Extent()
    with _refused(LEDGER_GROUP_KEY):
        raw = json.loads(data[LEDGER_GROUP_KEY])
        extent.of_group(raw)
    members = {}
    for key, text in data.items():
        if key != LEDGER_GROUP_KEY:
            with _refused(key):
                members[MemberId(key)] = read_object(text)
                extent.of_member(members[MemberId(key)])
    entries = {}
    for member, read in members.items():
        with _refused(member):
            entries[member] = MemberEntry.from_raw(read)
    with _refused(LEDGER_GROUP_KEY):
        return _read(raw, entries)


@contextmanager
def _refused(key: str) -> Iterator[None]:
    """Errors of reading this key become a LedgerError that names it."""
    try:
        yield
    except KeyError as error:
        raise LedgerError(f"{key}: {error} is missing, or names what is not there") from None
    except RecursionError:
        raise LedgerError(f"{key}: nested too deeply") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise LedgerError(f"{key}: {error}") from None


def _read(raw: Mapping[str, Any], entries: Mapping[MemberId, MemberEntry]) -> GroupState:
    if raw["version"] != VERSION:
        raise LedgerError(f"version: {raw['version']!r} was written by another Baton; this one reads {VERSION}")
    queues = {QueueName(name): checked(KnownQueue, **facts) for name, facts in raw.get("queues", {}).items()}
    records, revoking = _read_records(raw, queues, entries)
    known = _read_known(raw, entries)
    moves = _read_moves(raw.get("moves", ()), records, known)
    invalid = revoking - {partition for partition, move in moves.items() if not move.quiet}
    invalid |= {p for p in records if p.queue not in queues or (p.number >= queues[p.queue].partitions and p not in moves)}
    if invalid:
        raise LedgerError(f"{min(invalid)} has an owner but no queue, or a revoke but no deadline")
    running = raw.get("rebalance")
    origins = {p: part.get("owner") for part in raw.get("origins", ()) for p in read_numbers(part["of"])}
    recorded = raw.get("facts")
    return checked(
        GroupState,
        group=str(raw["group"]),
        generation=int(raw["generation"]),
        queues=queues,
        records=records,
        epoch_tombstones=read_grants(raw.get("epoch_tombstones", {})),
        queue_tombstones={QueueName(name): Epoch(epoch) for name, epoch in raw.get("queue_tombstones", {}).items()},
        unreleased={
            partition: checked(Unreleased, member=part["member"], uid=part["uid"], epoch=epoch)
            for part in raw.get("unreleased", ())
            for partition, epoch in read_grants(part["of"]).items()
        },
        known=known,
        member_slots=[_read_member_slot(slot, known, records) for slot in raw.get("member_slots", ())],
        standbys=[_present(member, known) for member in raw.get("standbys", ())],
        moves=moves,
        waiting={_in(p, records): MemberId(member) for member, of in raw.get("waiting", {}).items() for p in read_numbers(of)},
        proposal=None if raw.get("proposal") is None else _read_proposal(raw["proposal"], records, known),
        holddown=None if raw.get("holddown") is None else checked(Holddown, **raw["holddown"]),
        rebalance=None if running is None else checked(Rebalance, origins=origins, **running),
        facts=None if recorded is None else checked(Facts, **{**recorded, "protocol": Protocol(recorded["protocol"])}),
        fenced=frozenset((MemberId(name), Uid(uid)) for name, uid in raw.get("fenced", ())),
        replicas=None if raw.get("scale") is None else int(raw["scale"]["replicas"]),
        victims=tuple((MemberId(name), Uid(uid)) for name, uid in raw.get("victims", ())),
        totals=checked(Totals, **raw.get("totals", {})),
    )


def _read_records(
    raw: Mapping[str, Any], queues: Mapping[QueueName, KnownQueue], entries: Mapping[MemberId, MemberEntry]
) -> tuple[dict[Partition, PartitionRecord], set[Partition]]:
    """The partitions' records, and the partitions that are being revoked.

    Owners come from the members' keys; epochs of partitions without an owner come from the key `group`.
    """
    never = PartitionRecord()
    records = {Partition(name, number): never for name, queue in queues.items() for number in range(queue.partitions)}
    free: set[Partition] = set()
    for part in raw.get("free", ()):
        like = checked(PartitionRecord, last=part.get("last"))
        ended = read_grants(part.get("ended", {}))
        for partition, epoch in read_grants(part["of"]).items():
            records[partition] = like._replace(epoch=epoch, ended=ended.get(partition, epoch))
            free.add(partition)
    revoking: set[Partition] = set()
    for member, entry in entries.items():
        if entry.group != raw["group"] or entry.member != member:
            raise LedgerError(f"the key {member!r} was written for {entry.member} of {entry.group}")
        at: dict[Epoch, PartitionRecord] = {}
        for queues_of, gives in ((entry.owned, False), (entry.revoking, True)):
            for partition, epoch in flat(queues_of):
                if partition in free or records.get(partition, never).owner is not None:
                    raise LedgerError(f"partition {partition.number} of {partition.queue} stands at {member} and elsewhere")
                if (record := at.get(epoch)) is None:
                    record = at[epoch] = PartitionRecord(epoch, member, member)
                records[partition] = record
                if gives:
                    revoking.add(partition)
    return records, revoking


def _read_known(raw: Mapping[str, Any], entries: Mapping[MemberId, MemberEntry]) -> dict[MemberId, KnownMember]:
    subscribed = {MemberId(m): frozenset(wanted) for wanted, members in raw.get("subscribed", ()) for m in members}
    instances = raw.get("instances", {})
    capacities = {MemberId(m): _capacity(text) for m, text in raw.get("capacities", {}).items()}
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


def _read_member_slot(
    raw: Any, known: Mapping[MemberId, KnownMember], records: Mapping[Partition, PartitionRecord]
) -> MemberSlot:
    if isinstance(raw, str):
        member = _present(MemberId(raw), known)
        return MemberSlot(member, known[member].uid, known[member].instance)
    left = frozenset(_in(p, records) for p in read_numbers(raw["vacated"]))
    if not left:
        raise LedgerError(f"slots: that of {raw['member']!r} is vacant, and has no partitions")
    return checked(MemberSlot, **{**raw, "vacated": left})


def _read_proposal(
    raw: Mapping[str, Any], records: Mapping[Partition, PartitionRecord], known: Mapping[MemberId, KnownMember]
) -> Proposal:
    receivers = {_in(p, records): MemberId(member) for member, of in raw["to"].items() for p in read_numbers(of)}
    uids = {member: known[_present(member, known)].uid for member in receivers.values()}
    return checked(Proposal, id=raw["id"], receivers=receivers, uids=uids, why=raw["why"], created=raw["created"])


def _read_moves(
    raw: Iterable[Mapping[str, Any]], records: Mapping[Partition, PartitionRecord], known: Mapping[MemberId, KnownMember]
) -> dict[Partition, Move]:
    moves: dict[Partition, Move] = {}
    for batch in raw:
        alike = {name: batch[name] for name in ALIKE if name in batch}
        like = checked(Move, receiver=None, uid=None, epoch=Epoch(0), **alike)
        for name, of in batch["to"].items():
            receiver = MemberId(name) if name else None
            uid = None if receiver is None else batch.get("uids", {}).get(receiver) or known[receiver].uid
            for partition, epoch in read_grants(of).items():
                record = records[partition]
                if partition in moves or (record.owner is None and record.epoch != epoch):
                    raise LedgerError(f"{partition} is on its way twice, or at two epochs")
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
        raise LedgerError(f"capacities: {text[:40]!r} is no number above 0")
    return made
