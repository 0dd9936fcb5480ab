"""Tells kubelets that their pods' keys of the ledger changed, without waiting for it."""

import asyncio
from collections.abc import Iterable, Mapping

from baton.controller.cluster_cache import GroupKey
from baton.controller.supervision import Tasks
from baton.kube.mount_refresh import MountRefresher, due_refreshes
from baton.kube.pods import PodView


class MountRefreshes:
    """The refreshes of one group's pods."""

    def __init__(self, refresher: MountRefresher, tasks: Tasks, key: GroupKey) -> None:
        self._refresher = refresher
        self._tasks = tasks
        self._key = key
        self._under_way: set[asyncio.Task[None]] = set()

    def follow(self, ledger: Mapping[str, str], pods: Iterable[PodView]) -> None:
        """The ledger says so now."""
        wanted = due_refreshes(ledger, pods)
        if wanted:
            task = self._tasks.start(
                "mount-refresh", self._refresher.carry_out(wanted), namespace=self._key[0], group=self._key[1]
            )
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def close(self) -> None:
        for task in self._under_way:
            task.cancel()
