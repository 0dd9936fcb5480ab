"""When a session has lapsed, by this operator's own clock.

Lease times are written by other machines' clocks, so only changes count: expiry runs from when this operator last saw a
renewal. What it could not have seen (it was stopped, or the API server was away) it does not hold against anybody: after such
an outage all get a full term. And a watch that says nothing may be one that is broken: a session has lapsed when a list that was
begun after its term shows it as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from baton.kube.leases import LeaseView

Key = tuple[str, str, str | None]
"""Namespace, name and holder: another holder is another session."""


@dataclass(slots=True)
class _Seen:
    renewal: str
    at: float


class SessionClock:
    """Last renewals, as seen. All times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[Key, _Seen] = {}
        self._full_term_from: dict[str | None, float] = {}
        """By namespace; None: all of them."""
        self._listed: dict[str | None, float] = {}
        """When the last list of Leases that came to its end was begun, likewise."""

    def renewed(self, lease: LeaseView, now: float) -> None:
        """Take in a Lease that was seen."""
        key = _key(lease)
        before = self._seen.get(key)
        if before is None or before.renewal != lease.renewal:
            self._seen[key] = _Seen(lease.renewal, now)

    def forget(self, lease: LeaseView) -> None:
        """It is gone, or another's."""
        self._seen.pop(_key(lease), None)

    def listed(self, namespace: str | None, begun: float) -> None:
        """A list of all Leases of a namespace (None: of all), begun then, has been taken in."""
        self._listed[namespace] = begun

    def outage(self, now: float, namespace: str | None = None) -> None:
        """This operator may have missed renewals in this namespace (None: in all) until now."""
        self._full_term_from[namespace] = now

    def lapses_at(self, lease: LeaseView) -> float:
        """When the session lapses unless it is renewed."""
        seen = self._seen.get(_key(lease))
        return max(_of(self._full_term_from, lease), seen.at if seen else float("-inf")) + lease.duration

    def lapsed(self, lease: LeaseView, now: float) -> bool:
        """A session that was given up has no holder and is nobody's; it has not lapsed."""
        return self.overdue(lease, now) and _of(self._listed, lease) >= self.lapses_at(lease)

    def overdue(self, lease: LeaseView, now: float) -> bool:
        """Its term is over, as far as was seen."""
        return lease.holder is not None and now >= self.lapses_at(lease)


def _of(times: Mapping[str | None, float], lease: LeaseView) -> float:
    return max(times.get(lease.namespace, float("-inf")), times.get(None, float("-inf")))


def _key(lease: LeaseView) -> Key:
    return (lease.namespace, lease.name, lease.holder)
