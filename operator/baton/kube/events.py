"""Kubernetes events about groups, queues and pods, as `kubectl describe` shows them."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

import structlog

from baton.kube.api import Api, Json, group_path
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError
from baton.model.times import to_micro_text

EVENTS = "events.k8s.io/v1"
REPORTED_BY = "baton.dev/operator"
MOST_WAITING, MOST_IN_ALL = 200, 10_000
"""Most events waiting to be posted, per namespace and in all. Beyond that, the oldest of the namespace is dropped: the current
state matters more than how it began."""

LONGEST_NOTE = 1024
"""Bytes, as many as Kubernetes takes."""
LONGEST_INSTANCE = 128
"""Bytes."""

log = structlog.get_logger("baton.events")


class Kind(StrEnum):
    """Type of an event, as Kubernetes names them."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def reference(self) -> Json:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


class Events:
    """Posts events in the background and drops those that fail: events are best effort. Namespaces do not wait for each other."""

    def __init__(self, api: Api, instance: str, clock: ApiServerClock) -> None:
        self._clock = clock
        self._api = api
        self._instance = instance
        self._waiting: dict[str, deque[Json]] = {}
        """Events to post, by namespace."""
        self._dropped: Counter[str] = Counter()
        """Events dropped since the namespace last had none waiting, by namespace."""
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def post(self, about: Regarding, kind: Kind, reason: str, note: str, *, action: str = "Rebalance") -> None:
        """Queue an event. `reason`: one word in CamelCase; `note`: a sentence."""
        waiting = self._waiting.setdefault(about.namespace, deque())
        if len(waiting) >= min(MOST_WAITING, MOST_IN_ALL // len(self._waiting)):
            dropped = waiting.popleft() if waiting else {"reason": reason, "note": note}
            log.debug("dropped an event", reason=dropped["reason"], note=dropped["note"])
            self._dropped[about.namespace] += 1
        waiting.append(self._event(about, kind, reason, note, action))
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        posting: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                for namespace in self._waiting.keys() - posting:
                    posting.add(namespace)
                    tasks.create_task(self._post(namespace, posting))
                self._news.clear()
                await self._news.wait()

    async def _post(self, namespace: str, posting: set[str]) -> None:
        waiting = self._waiting[namespace]
        while waiting:
            event = waiting.popleft()
            try:
                await self._api.create(group_path(EVENTS, namespace, "events"), event)
            except (ApiError, UnavailableError) as error:
                log.debug("event not posted", error=str(error), note=event["note"])
        del self._waiting[namespace]
        posting.discard(namespace)
        if dropped := self._dropped.pop(namespace, 0):
            log.warning("dropped events: more happened than could be posted", namespace=namespace, dropped=dropped)
        if not self._waiting:
            self._idle.set()

    async def posted(self, within: float) -> None:
        """Wait until all events are posted or dropped, for `within` seconds at most."""
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            log.warning("not all events were posted", left=sum(map(len, self._waiting.values())))

    def _event(self, about: Regarding, kind: Kind, reason: str, note: str, action: str) -> Json:
        return {
            "apiVersion": EVENTS,
            "kind": "Event",
            "metadata": {"name": f"{about.name[:220].rstrip('-.')}.{uuid4().hex[:16]}", "namespace": about.namespace},
            "eventTime": to_micro_text(self._clock.now()),
            "reportingController": REPORTED_BY,
            "reportingInstance": _at_most(self._instance, LONGEST_INSTANCE),
            "action": action,
            "reason": reason,
            "regarding": about.reference(),
            "note": _at_most(note, LONGEST_NOTE),
            "type": kind.value,
        }


def _at_most(text: str, limit: int) -> str:
    """Cut a text to `limit` bytes of UTF-8."""
    written = text.encode()
    return text if len(written) <= limit else written[: limit - len("…".encode())].decode(errors="ignore") + "…"
