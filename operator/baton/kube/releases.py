"""Other releases of the operator: installations with a separate leader Lease, which may serve the same group by mistake.

The ledger names the release that wrote it. An operator that finds another release there stands back while that release has a live
leader and serves the namespace, as its Lease shows. So the release that wrote the ledger first keeps it until it is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from re import ASCII, fullmatch
from typing import Any

from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.elector import LONGEST_DURATION, NAMESPACES_ANNOTATION
from baton.kube.errors import ApiError, NotFoundError
from baton.kube.leases import leases_path
from baton.model.lease import DEFAULT_DURATION, Sighting, sight, spec_of

RELEASE_ANNOTATION = "baton.dev/release"
"""Annotation of a ledger: the release that wrote it."""

LOOK_EVERY = 2.0
"""Seconds for which a look at a release's Lease counts."""

PATIENCE = 2.0
"""Terms that may pass without a renewal, even if the leader gave the Lease up: that release's next leader may be starting."""

UNREADABLE_FOR = 600.0
"""Seconds after which a release whose Lease cannot be read counts as gone. If it still exists, it then stands back itself."""


LONGEST_NAMESPACES = 64 * 1024
"""Most characters of a list of namespaces."""

MOST_KNOWN = 100
"""Most releases to remember; any account that may write ledgers can name one."""


@dataclass(frozen=True, slots=True)
class _Record:
    """The content of a leader's Lease."""

    version: str
    """resourceVersion: changes with every renewal."""
    duration: float
    namespaces: frozenset[str] | None
    """Namespaces that its holder serves; None: all, or unknown."""


@dataclass(slots=True)
class _Known:
    looked_at: float
    sighting: Sighting[_Record] | None = None
    unreadable_since: float | None = None


class OperatorReleases:
    """Whether other releases are alive, by their Leases."""

    def __init__(self, api: Api, clock: ApiServerClock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def serves(self, release: str, namespace: str) -> bool:
        """Whether that release has a leader that serves this namespace, as far as this operator can tell. Raises
        UnavailableError."""
        now = self._clock.ticks()
        if release not in self._known and len(self._known) >= MOST_KNOWN:
            del self._known[min(self._known, key=lambda name: self._known[name].looked_at)]
        known = self._known.setdefault(release, _Known(float("-inf")))
        if now >= known.looked_at + LOOK_EVERY:
            await self._look(release, known)
        if known.unreadable_since is not None:
            return now < known.unreadable_since + UNREADABLE_FOR
        if known.sighting is None:
            return False
        record = known.sighting.record
        if namespace not in (record.namespaces or {namespace}):
            return False
        return now < known.sighting.since + PATIENCE * min(record.duration, LONGEST_DURATION)

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
            known.sighting = sight(known.sighting, _record(lease), self._clock.ticks())
            known.unreadable_since = None
        known.looked_at = began


def release_of(ledger: Mapping[str, Any]) -> str | None:
    """The release named by a ledger's manifest: namespace/name of its leader Lease. None: no valid one."""
    text: str | None = (ledger["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION)
    if text is None or len(text) > 320 or fullmatch(r"[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}", text, ASCII) is None:
        return None
    return text


def _record(lease: Mapping[str, Any]) -> _Record:
    serves = (lease["metadata"].get("annotations") or {}).get(NAMESPACES_ANNOTATION, "")
    return _Record(
        version=lease["metadata"]["resourceVersion"],
        duration=float(spec_of(lease).get("leaseDurationSeconds") or DEFAULT_DURATION),
        namespaces=frozenset(serves.split(",")) if 0 < len(serves) <= LONGEST_NAMESPACES else None,
    )
