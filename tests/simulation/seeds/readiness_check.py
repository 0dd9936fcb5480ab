"""Checks that no group is Ready while its ledger is too old."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from baton.controller.relists import BLIND_AFTER
from baton.kube.objects import groups_path
from baton.model.names import LEDGER_GROUP_KEY

if TYPE_CHECKING:
    from tests.simulation.seeds.environment import Environment
    from tests.simulation.seeds.operators import Operator
    from tests.simulation.seeds.tenant import Tenant

EVERY = 1.0
REACTION = 20.0
"""Seconds that a slow network, a full server and attempts that become rarer may take besides."""

_UID = re.compile(r'"uid":"([^"]+)"')


class ReadinessCheck:
    """Looks every second. A ledger is behind while it names a pod that is gone."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._leader: tuple[Operator, float] | None = None
        """The leader at the last look, and since when it has led."""
        self._led_since = 0.0
        self._behind_since: dict[str, float] = {}
        """By namespace."""

    def look(self) -> None:
        environment = self._environment
        leader = None if environment.leader is None or environment.leader.stopped else environment.leader.leads_since
        if leader is None or leader != self._leader:
            self._leader, self._led_since = leader, environment.now
        for tenant in environment.tenants.values():
            if not _behind(tenant) or not self._can_be_said(tenant):
                self._behind_since.pop(tenant.namespace, None)
                continue
            since = self._behind_since.setdefault(tenant.namespace, environment.now)
            lasted = environment.now - max(since, self._led_since)
            if tenant.says_ready and lasted > bound(tenant):
                environment.violated(f"{tenant} says Ready, and its ledger has been behind for {lasted:.0f} s")
        environment.later(EVERY, self.look)

    def _can_be_said(self, tenant: Tenant) -> bool:
        """True if the status can be written, and the leader has seen the group."""
        leader = self._environment.leader
        replica = None if leader is None else leader.replica
        if replica is not None and replica.cache.groups.get(tenant.namespace, tenant.group) is None:
            return False
        status = groups_path(tenant.namespace, tenant.group) + "/status"
        return not any(window.meets("patch", status) for window in self._environment.troubles.windows)


def bound(tenant: Tenant) -> float:
    """Return the seconds for which a ledger may be behind without a problem in the status."""
    return 2 * float(tenant.rebalance["resyncSeconds"]) + BLIND_AFTER + REACTION


def _behind(tenant: Tenant) -> bool:
    """True if the ledger names a pod that is gone. A static member keeps its slot for a while, so it does not count."""
    if tenant.session_timeout:
        return False
    named = (_uid(text) for key, text in tenant.ledger.items() if key != LEDGER_GROUP_KEY)
    return any(uid is not None and uid not in tenant.uids for uid in named)


@lru_cache(maxsize=100)
def _uid(text: str) -> str | None:
    """Return the UID of the pod that a key of the ledger is for."""
    found = _UID.search(text)
    return None if found is None else found[1]


def says_ready(manifest: Mapping[str, Any]) -> bool:
    """True if the condition Ready of a ConsumerGroup is True."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
