"""The size of the fleet: what the ledger wants, and what the driver therefore asks of Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baton.model.ids import MemberId
from baton.model.ledger import LedgerError, MemberEntry, read_object
from baton.spark.locality import Executor

_MOST = 2**31 - 1
"""Executors: Spark counts no more."""


@dataclass(frozen=True, slots=True)
class RequestedScale:
    """What the ledger's `group` key asks for: so many executors, and these are to go."""

    replicas: int
    victims: frozenset[MemberId] = frozenset()


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask of Spark: a target for its allocator, and the executors to end."""

    target: int | None
    """None: no size was asked for."""
    kill: tuple[str, ...] = ()
    dismiss: tuple[str, ...] = ()
    """To end as soon as they are idle: their pods are asked to stop, and have handed off everything."""


def parse_scale(text: str | None) -> RequestedScale | None:
    """From the text of the ledger's `group` key; None: no size was asked for. Raises LedgerError for what cannot be one."""
    if not text:
        return None
    try:
        wanted = read_object(text).get("scale")
    except LedgerError as error:
        raise LedgerError(f"group: {error}") from None
    if wanted is None:
        return None
    if not isinstance(wanted, dict):
        raise LedgerError("group: scale: expected replicas and victims")
    replicas, victims = wanted.get("replicas"), wanted.get("victims", [])
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas <= _MOST:
        raise LedgerError("group: scale.replicas: expected a number of executors")
    if not isinstance(victims, list) or not all(isinstance(name, str) for name in victims):
        raise LedgerError("group: scale.victims: expected names of executors' pods")
    return RequestedScale(replicas, frozenset(map(MemberId, victims)))


def order(
    wanted: RequestedScale | None,
    executors: Iterable[Executor],
    entries: Mapping[MemberId, MemberEntry],
    busy: frozenset[MemberId],
    leaving: Mapping[MemberId, float] | None = None,
    last: float = 0.0,
) -> Order:
    """What follows from the ledger's wish, and from the pods that are asked to stop (`leaving`: the seconds that each has left).

    A victim goes once its key owns and revokes nothing and the batch that runs has nothing of it (`busy`). Until then it counts
    towards the target, so that an executor that crashes meanwhile is replaced at once. One that leaves goes likewise, and is
    replaced right away; in its `last` seconds it does not wait for its key.
    """
    fleet, leaving = list(executors), leaving or {}
    chosen = wanted.victims if wanted is not None else frozenset()
    victims = [executor for executor in fleet if executor.pod in chosen and executor.pod not in leaving]
    stopping = [executor for executor in fleet if executor.pod in leaving]
    free = {one.id for one in fleet if one.pod not in busy and _idle(entries.get(one.pod))}
    kill = [executor.id for executor in victims if executor.id in free]
    short = {one.id for one in stopping if one.pod not in busy and leaving[one.pod] <= last}
    dismiss = [executor.id for executor in stopping if executor.id in free | short]
    target = None if wanted is None else wanted.replicas + len(victims) - len(kill) + len(stopping)
    return Order(target, tuple(sorted(kill)), tuple(sorted(dismiss)))


def _idle(entry: MemberEntry | None) -> bool:
    return entry is None or not (any(entry.owned.values()) or any(entry.revoking.values()))
