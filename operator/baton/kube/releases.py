"""Other releases of the operator: installations with a leader's Lease of their own, which may serve the same group by mistake.

The ledger names the release that wrote it. Who finds another's name there stands back while that one has a live leader, which its
Lease shows: so whoever had the ledger first keeps it, and is succeeded when it is gone.
"""

from dataclasses import dataclass
from re import ASCII, fullmatch

from baton.kube.api import Api, ApiError, NotFoundError
from baton.kube.clock import Clock
from baton.kube.election import Sighting, sight
from baton.kube.elector import record_of
from baton.kube.leases import leases_path

LOOK_EVERY = 2.0
"""Seconds for which an answer is good."""

PATIENCE = 2.0
"""So many of its terms may pass without a renewal."""

UNREADABLE_FOR = 600.0
"""Seconds after which a release whose Lease may not be read counts as gone. If it is not, it stands back itself from then on."""


@dataclass(slots=True)
class _Known:
    looked_at: float
    sighting: Sighting | None = None
    unreadable_since: float | None = None


class Releases:
    """What is known of them."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def alive(self, release: str) -> bool:
        """Whether one of its replicas leads, as far as anybody can tell. Raises UnavailableError."""
        now = self._clock.ticks()
        known = self._known.setdefault(release, _Known(float("-inf")))
        if now >= known.looked_at + LOOK_EVERY:
            await self._look(release, known)
        if known.unreadable_since is not None:
            return now < known.unreadable_since + UNREADABLE_FOR
        record = None if known.sighting is None else known.sighting.record
        if known.sighting is None or record is None or record.holder is None:
            return False
        return now < known.sighting.since + PATIENCE * record.duration

    async def _look(self, release: str, known: _Known) -> None:
        namespace, _, name = release.partition("/")
        began = self._clock.ticks()
        try:
            lease = await self._api.get(leases_path(namespace, name))
        except NotFoundError:
            known.sighting, known.unreadable_since = None, None
        except ApiError:
            known.unreadable_since = began if known.unreadable_since is None else known.unreadable_since
        else:
            known.sighting, known.unreadable_since = sight(known.sighting, record_of(lease), began), None
        known.looked_at = began


def release_of(text: str | None) -> str | None:
    """A release as an annotation names it, namespace/name of its Lease; None: it names none."""
    if text is None or len(text) > 320 or fullmatch(r"[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}", text, ASCII) is None:
        return None
    return text
