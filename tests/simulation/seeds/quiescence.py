"""The state that a group must reach after the last fault, and the time bound for it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from baton.controller.relists import LEDGERS_EVERY
from baton.engine import GroupState, PartitionState, State, load, partition_states
from baton.engine.state_machine import state_of
from baton.kube.mount_refresh import mark
from baton.model.ledger import LedgerError

if TYPE_CHECKING:
    from tests.simulation.seeds.consumers import Consumer
    from tests.simulation.seeds.tenant import Tenant

REACTION = 6.0
"""Seconds for an operator to write what it has observed, and for a consumer to read it, both several times (a hand-off takes four
writes) over the slowest simulated network, including requests to the queue."""


def bound(tenant: Tenant) -> float:
    """Return the most seconds from the last fault to balance.

    A change is noticed at the next resync at the latest, and a neighbour's edit of its ledger when ledgers are listed next. Then
    the group waits for the session timeout of a static member, for a holddown, or for both in turn. Then hand-offs take at most
    maxHandoffSeconds, once for the current plan and once for the next; if their number is bounded, once per partition. An
    External queue waits for the consumer's release.
    """
    rebalance = tenant.rebalance
    partitions = sum(map(tenant.partitions, tenant.queue_specs))
    at_once = rebalance.get("maxConcurrentHandoffs") or 0
    turns = -(-partitions // at_once) if at_once else 1
    slowest = max((pod.work + pod.pace for pod in tenant.pods.values()), default=0.0) if _waits(tenant) else 0.0
    longest = max(tenant.max_handoff(), slowest) + REACTION
    noticed = float(rebalance["resyncSeconds"])
    if not tenant.strict:
        noticed = max(noticed, LEDGERS_EVERY)
    waits = noticed + 2 * float(rebalance["delaySeconds"])
    return waits + tenant.session_timeout + (1 + turns) * longest


def _waits(tenant: Tenant) -> bool:
    return any(not queue.fenced and not queue.force for queue in tenant.servers.values())


def unrest(tenant: Tenant) -> str | None:
    """Check from the consumers' side that all partitions are served, once and evenly. Returns None, or what is wrong."""
    try:
        state = load(tenant.ledger)
    except LedgerError as error:
        return f"the ledger is invalid: {error}"
    if state_of(state) is not State.READY:
        return f"the state is {state_of(state)}: {list(state.moves.items())[:3]} {state.holddown} {state.member_slots}"
    loads: Counter[str] = Counter()
    live = _members(tenant, state)
    for name, queue in tenant.servers.items():
        readers = [pod for pod in live if pod.subscribed is None or name in pod.subscribed]
        if name not in tenant.named:
            continue
        for number in range(tenant.partitions(name) if readers else 0):
            holders = [
                pod
                for pod in tenant.pods.values()
                if (epoch := pod.owned.get((name, number))) is not None
                and queue.lets_in(number, pod.uid, epoch)
                and pod.may_act((name, number))
            ]
            if not holders and _crowded(tenant, live):
                continue
            if len(holders) != 1 or holders[0] not in readers:
                return f"{name}/{number} is served by {[pod.name for pod in holders]} ({queue.log(number)})"
            loads[holders[0].name] += 0 if tenant.exclusive(name) else 1
    uniform = all(pod.subscribed is None for pod in live)
    shared = sum(tenant.partitions(name) for name in tenant.named if not tenant.exclusive(name))
    replicas = tenant.spec.get("replicas")
    size = len(live) if replicas is None else min(len(live), replicas)
    if uniform and shared and live and tenant.spec["assignors"] == ["solace"]:
        active = [loads[pod.name] for pod in live if loads[pod.name]]
        if len(active) < min(size, shared) or max(active) - min(active) > 1:
            return f"not balanced: {dict(loads)}"
    states = partition_states(state)
    if live and uniform and any(one is not PartitionState.READY for one in states.values()):
        return f"not ready: {states}"
    if live and uniform and state.queues and not tenant.checks.settled:
        return "the group is not settled"
    return _untold(tenant, live)


def _untold(tenant: Tenant, live: list[Consumer]) -> str | None:
    """Check that readers of External queues have read their keys, which reach them only by the kubelet. Returns None if so."""
    if all(tenant.servers[name].fenced for name in tenant.named):
        return None
    lag = [pod.name for pod in live if (entry := tenant.ledger.get(pod.name)) is not None and tenant.mark(pod) != mark(entry)]
    return f"kubelets were not told of the last entries of {lag}" if lag else None


def unserved(tenant: Tenant) -> str | None:
    """Check that every message was processed. Returns None, or what was not."""
    members = _members(tenant, load(tenant.ledger))
    for name, queue in tenant.servers.items():
        readers = [pod for pod in members if pod.subscribed is None or name in pod.subscribed]
        for number in range(tenant.partitions(name) if name in tenant.named and readers else 0):
            log = queue.log(number)
            if not any(pod.owned.get((name, number)) for pod in members) and _crowded(tenant, members):
                continue
            if log.committed != queue.appended(log):
                return f"{name}/{number}: {log.committed} of {queue.appended(log)} messages were processed: {log}"
    return None


def _crowded(tenant: Tenant, live: list[Consumer]) -> bool:
    """True if there are more pods than their desired size. Then any of them may stand by, whatever they read."""
    replicas = tenant.spec.get("replicas")
    return replicas is not None and len(live) > replicas and any(pod.subscribed is not None for pod in live)


def _members(tenant: Tenant, state: GroupState) -> list[Consumer]:
    without = {name for name, _ in state.fenced} | {name for name, _ in state.victims}
    return [
        pod
        for pod in tenant.pods.values()
        if not (pod.terminating or pod.draining or pod.name in without)
        and (pod.session is not None or not tenant.sessions_required)
    ]


def totals(tenant: Tenant) -> None:
    """Raises InvariantError."""
    tenant.checks.moves.total(load(tenant.ledger).totals.moves)


__all__ = ["bound", "totals", "unrest", "unserved"]
