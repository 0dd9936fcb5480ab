"""Pure functions on Leases of operator leaders and of group drivers: whether a Lease is free, and what its holder writes.

As in client-go's leader election, other machines' clocks are not trusted: a Lease has expired when this process has seen no
renewal for its whole duration. A process takes a Lease with its own identity at once: a restarted container succeeds the one
that was killed in its pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Generic, TypeVar

from baton.model.times import to_micro_text

# How long a record of another process is unchanged, by the reader's clock


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    """A record, and when it was first seen unchanged (seconds, monotonic)."""

    record: T
    since: float


def sight(before: Sighting[T] | None, record: T, now: float) -> Sighting[T]:
    """Return the next sighting, which keeps its time while the record is unchanged.

    `now`: the time after the answer with the record arrived. The record may have been written until then, so the time of the
    request would make a Lease expire too early.
    """
    if before is not None and before.record == record:
        return before
    return Sighting(record, now)


# Leases


DEFAULT_DURATION = 15.0
"""Seconds, for a Lease without a duration."""

LONGEST_DURATION = 3600.0
"""Seconds. Longer durations are cut: they would not show whether the holder is alive."""

TRANSITIONS = 2**31
"""leaseTransitions wraps to 0 here: the API server accepts no higher number."""

Manifest = dict[str, Any]
"""A Lease as JSON."""


@dataclass(slots=True)
class Vacancy:
    """Watches whether a Lease is free: no other process holds it, or this process has seen no renewal for its whole duration."""

    _sighting: Sighting[tuple[str, str]] | None = None
    """The holder and the last renewal."""
    free_at: float | None = None
    """When the Lease becomes free unless it is renewed, as of the last call of `free`; None: it was free."""

    def free(self, lease: Manifest | None, me: str, now: float) -> bool:
        """`now`: seconds of this process's monotonic clock, after the Lease was read."""
        spec, holder = spec_of(lease), holder_of(lease)
        self._sighting = sight(self._sighting, (holder, str(spec.get("renewTime"))), now)
        duration = min(float(spec.get("leaseDurationSeconds") or DEFAULT_DURATION), LONGEST_DURATION)
        free_at = self._sighting.since + duration
        free = holder in ("", me) or now >= free_at
        self.free_at = None if free else free_at
        return free


def held(before: Manifest | None, holder: str, duration: float, now: datetime) -> Manifest:
    """Return the spec as its holder writes it at `now`; `holder` empty: the holder gives it up. The duration is rounded up to
    whole seconds, so that no observer takes the Lease for expired before its holder does. `leaseTransitions` counts the
    holders."""
    spec = spec_of(before)
    mine = spec.get("holderIdentity") == holder
    stamp = to_micro_text(now.timestamp())
    return {
        **spec,
        "holderIdentity": holder,
        "leaseDurationSeconds": ceil(duration),
        "acquireTime": spec["acquireTime"] if mine and "acquireTime" in spec else stamp,
        "renewTime": stamp,
        "leaseTransitions": ((spec.get("leaseTransitions") or 0) + bool(before and holder and not mine)) % TRANSITIONS,
    }


def holder_of(lease: Manifest | None) -> str:
    """Return the holder; empty if there is none."""
    return spec_of(lease).get("holderIdentity") or ""


def spec_of(lease: Mapping[str, Any] | None) -> Manifest:
    """Return the spec; empty if the Lease does not exist."""
    return (lease or {}).get("spec") or {}
