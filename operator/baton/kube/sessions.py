"""When a session has lapsed, by this operator's own clock.

Lease times are written by other machines' clocks, so only changes count: expiry runs from when this operator last saw a
renewal. What it could not have seen (it was stopped, or the API server was away) it does not hold against anybody: after such
an outage all get a full term.
"""

from collections.abc import Iterable
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
        self._full_term_from = float("-inf")

    def renewed(self, lease: LeaseView, now: float) -> None:
        """A Lease was seen."""
        key = _key(lease)
        before = self._seen.get(key)
        if before is None or before.renewal != lease.renewal:
            self._seen[key] = _Seen(lease.renewal, now)

    def outage(self, now: float) -> None:
        """This operator may have missed renewals until now."""
        self._full_term_from = now

    def lapses_at(self, lease: LeaseView) -> float:
        """When the session lapses unless it is renewed."""
        seen = self._seen.get(_key(lease))
        since = max(seen.at if seen else self._full_term_from, self._full_term_from)
        return since + lease.duration

    def lapsed(self, lease: LeaseView, now: float) -> bool:
        """A session that was given up has no holder and is nobody's; it has not lapsed."""
        return lease.holder is not None and now >= self.lapses_at(lease)

    def keep_only(self, leases: Iterable[LeaseView]) -> None:
        """Forget all other sessions."""
        keys = {_key(lease) for lease in leases}
        self._seen = {key: seen for key, seen in self._seen.items() if key in keys}


def _key(lease: LeaseView) -> Key:
    return (lease.namespace, lease.name, lease.holder)
