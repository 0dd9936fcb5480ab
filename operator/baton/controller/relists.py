"""Lays lists over what the watches showed, for a watch that had to start anew says nothing of what vanished meanwhile.

All groups share the lists: where there are a thousand of them, each listing for itself would be most of the operator's work.
"""

import asyncio
from collections.abc import Sequence

from baton.controller.mirror import GroupKey, Mirror
from baton.kube.api import Api, core_path
from baton.kube.clock import Clock
from baton.kube.leases import leases_path
from baton.kube.objects import groups_path, queues_path
from baton.model.names import GROUP_LABEL, ledger_name


class Relists:
    """Everything that this operator serves: pods, sessions, queues and groups, and the versions of their ledgers."""

    def __init__(self, api: Api, mirror: Mirror, clock: Clock, namespaces: Sequence[str]) -> None:
        """Namespaces empty: all of them."""
        self._api = api
        self._mirror = mirror
        self._clock = clock
        self._scopes: list[str | None] = list(namespaces) or [None]
        self._begun = float("-inf")
        self._under_way: asyncio.Task[None] | None = None
        self._ledgers: dict[tuple[str, str], str] = {}

    async def since(self, at: float) -> None:
        """List, unless that was begun since then (monotonic seconds). Raises what `Api` raises."""
        while self._begun < at:
            # One that has just ended may have been begun too early, and to await it would let nobody else go on.
            if self._under_way is None or self._under_way.done():
                self._under_way = asyncio.create_task(self._list(), name="relist")
                self._under_way.add_done_callback(_heard)
            await asyncio.shield(self._under_way)

    def ledger_version(self, key: GroupKey) -> str | None:
        """The resourceVersion of a group's ledger as last listed; None: there was none with Baton's label."""
        return self._ledgers.get((key[0], ledger_name(key[1])))

    async def _list(self) -> None:
        begun = self._clock.ticks()
        ledgers = {}
        for namespace in self._scopes:
            await self._lay_over(namespace)
            found = await self._api.list_metadata(core_path(namespace, "configmaps"), labelSelector=GROUP_LABEL)
            for item in found["items"] or ():  # null where there is none
                metadata = item["metadata"]
                ledgers[metadata["namespace"], metadata["name"]] = metadata["resourceVersion"]
        self._ledgers = ledgers
        self._begun = begun

    async def _lay_over(self, namespace: str | None) -> None:
        mirror = self._mirror
        for shelf, path, selector in (
            (mirror.pods, core_path(namespace, "pods"), {"labelSelector": GROUP_LABEL}),
            (mirror.leases, leases_path(namespace), {"labelSelector": GROUP_LABEL}),
            (mirror.queues, queues_path(namespace), {}),
            (mirror.groups, groups_path(namespace), {}),
        ):
            found = await self._api.get(path, **selector)
            shelf.listed(namespace, found["items"], found["metadata"]["resourceVersion"])


def _heard(task: asyncio.Task[None]) -> None:
    """Whoever waits has the failure; asyncio need not report it as one that nobody looked at."""
    if not task.cancelled():
        task.exception()
