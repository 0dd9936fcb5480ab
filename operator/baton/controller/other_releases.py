"""Groups that another release of the operator serves. This release leaves them alone, posts an event, and takes over once the
other no longer serves them."""

import asyncio
from collections import Counter
from collections.abc import Callable

import structlog

from baton.controller.cluster_cache import GroupKey
from baton.controller.problems import EventReason
from baton.kube.errors import UnavailableError
from baton.kube.events import Events, Kind, Regarding
from baton.kube.ledger_configmap import Stored
from baton.kube.objects import GROUP_VERSION, GroupView
from baton.kube.releases import OperatorReleases

LOOK_EVERY = 5.0
"""Seconds between checks whether the other release is alive."""

log = structlog.get_logger("baton.releases")


class OtherReleases:
    """The groups that other releases serve, for one replica while it leads. Calls `free` with a group that is no longer
    served."""

    def __init__(
        self,
        own: str,
        releases: OperatorReleases,
        events: Events,
        ledger: Callable[[GroupKey], Stored | None],
        free: Callable[[GroupKey], None],
    ) -> None:
        """`ledger`: returns a group's ledger as last listed; None: the group has no ledger."""
        self._own = own
        self._ledger = ledger
        self._releases = releases
        self._events = events
        self._free = free
        self._groups: dict[GroupKey, str] = {}
        self._told: dict[GroupKey, tuple[str, str]] = {}
        """The group's UID and the release in the last event about the group."""

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._groups

    def counts(self) -> Counter[str]:
        """Return the number of groups by the release that serves them. For any thread."""
        return Counter(self._groups.copy().values())

    def stand_back(self, group: GroupView, release: str) -> None:
        """Leave a group to another release, with an event."""
        key = (group.namespace, group.name)
        self._groups[key] = release
        if self._told.get(key) == (group.uid, release):
            return
        self._told[key] = (group.uid, release)
        note = (
            f"release {self._own} of the operator does not serve this group, because release {release} does: give each release "
            "different namespaces (watchNamespaces), or uninstall one of them"
        )
        log.warning(note, namespace=group.namespace, group=group.name)
        about = Regarding(GROUP_VERSION, "ConsumerGroup", group.namespace, group.name, group.uid)
        self._events.post(about, Kind.WARNING, EventReason.SERVED_ELSEWHERE, note)

    def forget(self, key: GroupKey) -> None:
        self._groups.pop(key, None)
        self._told.pop(key, None)

    def clear(self) -> None:
        """Forget all groups, because this replica no longer leads."""
        self._groups.clear()

    def ledgers_listed(self, namespace: str | None) -> None:
        """Free the groups that have no ledger, or one of another release than the one that served them (this release or a third).
        A claim then finds out who serves them. Call it right after the ledgers of this namespace (None: of all) were listed,
        because an older list may lack a new ledger."""
        for key, release in list(self._groups.items()):
            if namespace in (None, key[0]) and ((ledger := self._ledger(key)) is None or ledger.release != release):
                self._free_group(key)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for release, namespace in {(release, key[0]) for key, release in self._groups.items()}:
                try:
                    serves = await self._releases.serves(release, namespace)
                except UnavailableError:
                    continue
                if not serves:
                    log.warning(
                        "another release of the operator is gone, or no longer serves the namespace; taking over its groups",
                        release=release,
                        namespace=namespace,
                    )
                    for key in [key for key, by in self._groups.items() if (by, key[0]) == (release, namespace)]:
                        self._free_group(key)

    def _free_group(self, key: GroupKey) -> None:
        del self._groups[key]
        self._free(key)
