"""Changes in the order of versions, and their watchers."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.manifests import Json, Manifest
from tests.simulation.api_server.refusals import Refused, expired

Selects = Callable[[Manifest], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """One write of one object; without `before` it was made, without `after` it is gone."""

    version: int
    before: Manifest | None
    after: Manifest | None


class Subscription:
    """One client's watch. It hears of what its selector takes, until it ends."""

    def __init__(
        self, kind: Kind, namespace: str | None, selects: Selects | None, hear: Callable[[Json], None], ended: Callable[[], None]
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self._selects = selects
        self._hear = hear
        self._ended = ended
        self.open = True

    def tell(self, change: Change) -> None:
        """What a change means to this watch: to one that selects by label an object that lost the label is gone."""
        if not self.open:
            return
        was, now = self._shown(change.before), self._shown(change.after)
        if now is not None:
            self._hear({"type": "MODIFIED" if was is not None else "ADDED", "object": now})
        elif was is not None:
            metadata = Manifest({**was["metadata"], "resourceVersion": str(change.version)})
            self._hear({"type": "DELETED", "object": Manifest({**was, "metadata": metadata})})

    def fail(self, refused: Refused) -> None:
        """The server says why, and ends the watch."""
        if self.open:
            self._hear({"type": "ERROR", "object": refused.status})
        self.end()

    def end(self) -> None:
        """The connection is closed, by either side."""
        if self.open:
            self.open = False
            self._ended()

    def _shown(self, manifest: Manifest | None) -> Manifest | None:
        if manifest is None or (self.namespace is not None and manifest["metadata"].get("namespace") != self.namespace):
            return None
        return manifest if self._selects is None or self._selects(manifest) else None


class History:
    """All changes since the last compaction, by kind."""

    def __init__(self) -> None:
        self._changes: dict[Kind, list[Change]] = defaultdict(list)
        self._compacted = 0
        self._subscriptions: dict[Kind, list[Subscription]] = defaultdict(list)

    def add(self, kind: Kind, change: Change) -> None:
        self._changes[kind].append(change)
        subscriptions = self._subscriptions[kind]
        if not subscriptions:
            return
        for one in subscriptions:
            one.tell(change)
        if any(not one.open for one in subscriptions):
            self._subscriptions[kind] = [one for one in subscriptions if one.open]

    def compact(self, version: int) -> None:
        """Forget what was up to this version."""
        self._compacted = version
        for kind, changes in self._changes.items():
            self._changes[kind] = [change for change in changes if change.version > version]

    def subscribe(self, subscription: Subscription, since: int) -> None:
        """What happened after this version, and what will. An ERROR where that is forgotten."""
        if since < self._compacted:
            subscription.fail(expired(since, self._compacted))
            return
        changes = self._changes[subscription.kind]
        for change in changes[bisect_right(changes, since, key=lambda change: change.version) :]:
            subscription.tell(change)
        self._subscriptions[subscription.kind].append(subscription)
