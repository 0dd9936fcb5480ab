"""Kubernetes events about groups, queues and pods: what `kubectl describe` shows at the bottom."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

import structlog

from baton.kube.api import Api, ApiError, Json, UnavailableError, group_path
from baton.kube.clock import Clock
from baton.kube.times import to_micro_text

EVENTS = "events.k8s.io/v1"
REPEAT_AFTER = 600.0
"""Seconds in which the same sentence about the same object is posted once."""

QUEUED_AT_MOST = 1000
LONGEST_NOTE = 1024

log = structlog.get_logger("baton.events")


class Kind(StrEnum):
    """An event's type, as Kubernetes has them."""

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
    """Posts in the background and drops what it cannot post: an event is a courtesy, no record."""

    def __init__(self, api: Api, instance: str, clock: Clock) -> None:
        self._clock = clock
        self._api = api
        self._instance = instance
        self._waiting: asyncio.Queue[tuple[Regarding, Json]] = asyncio.Queue(maxsize=QUEUED_AT_MOST)
        self._said: dict[tuple[Regarding, str, str], float] = {}

    def post(
        self, about: Regarding, kind: Kind, reason: str, note: str, *, action: str = "Rebalance", once: bool = False
    ) -> None:
        """`reason` is one word in CamelCase, `note` a sentence. `once`: not again within ten minutes."""
        if once and self._recently(about, reason, note):
            return
        try:
            self._waiting.put_nowait((about, self._event(about, kind, reason, note, action)))
        except asyncio.QueueFull:
            log.warning("too many events waiting; dropped one", reason=reason, note=note)

    async def run(self) -> None:
        """Post what waits, one after the other."""
        while True:
            about, event = await self._waiting.get()
            try:
                await self._api.create(group_path(EVENTS, about.namespace, "events"), event)
            except (ApiError, UnavailableError) as error:
                log.debug("event not posted", error=str(error), note=event["note"])

    def _recently(self, about: Regarding, reason: str, note: str) -> bool:
        now = self._clock.ticks()
        self._said = {key: at for key, at in self._said.items() if now < at + REPEAT_AFTER}
        key = (about, reason, note)
        known = key in self._said
        self._said.setdefault(key, now)
        return known

    def _event(self, about: Regarding, kind: Kind, reason: str, note: str, action: str) -> Json:
        return {
            "apiVersion": EVENTS,
            "kind": "Event",
            "metadata": {"name": f"{about.name[:220]}.{uuid4().hex[:16]}", "namespace": about.namespace},
            "eventTime": to_micro_text(self._clock.now()),
            "reportingController": "baton.dev/operator",
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason,
            "regarding": about.reference(),
            "note": note if len(note) <= LONGEST_NOTE else note[: LONGEST_NOTE - 1] + "…",
            "type": kind.value,
        }
