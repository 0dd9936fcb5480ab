"""The reading of a ledger ConfigMap. Anybody may have written it: the result is a state or a LedgerError, at a bounded cost."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

from baton.api.enums import Protocol
from baton.engine.checked import checked
from baton.engine.ledger import ALIKE, VERSION
from baton.engine.ledger_bounds import Extent
from baton.engine.partition_text import read_grants, read_numbers
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
        member_slots=tuple(_read_member_slot(slot, known, records) for slot in raw.get("member_slots", ())),
        standbys=tuple(_present(member, known) for member in raw.get("standbys", ())),
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
