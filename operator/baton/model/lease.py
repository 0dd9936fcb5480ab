"""Who may take a Lease, and what its holder writes: for leaders of the operator and for drivers of groups. Pure.

As in client-go's leader election: other machines' clocks are not trusted, so a Lease has expired when this process has seen no
renewal of it for its whole duration. The same identity takes its own Lease at once: a container that was restarted in its pod is
the successor of the one that was killed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Generic, TypeVar

from baton.model.times import to_micro_text

# The time since which a record of others is unchanged, by the reader's own clock. Clocks of others are not trusted. Pure.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    """A record, and since when it has been seen unchanged (seconds, monotonic)."""

    record: T
    since: float


def sight(before: Sighting[T] | None, record: T, now: float) -> Sighting[T]:
    """The next sighting. Its time stays while the record is the same.

    `now`: the time after the answer that has the record, because the record may have been written until then. The time of the
    request would make a Lease lapse too early.
    """
    if before is not None and before.record == record:
        return before
    return Sighting(record, now)


# Leases


DEFAULT_DURATION = 15.0
"""Seconds, for a Lease that does not say."""

LONGEST_DURATION = 3600.0
"""Seconds. Who is to hold a Lease longer without a renewal says nothing about whether it lives."""

TRANSITIONS = 2**31
"""How far a Lease counts: the API server takes no higher number, and the next holder counts from 0."""

Manifest = dict[str, Any]
"""A Lease as JSON."""


@dataclass(slots=True)
class Vacancy:
    """Whether a Lease has become free: no other process holds it, or this process has seen no renewal for its whole duration."""

    _sighting: Sighting[tuple[str, str]] | None = None
    """Of its holder and its last renewal."""
    free_at: float | None = None
    """When it becomes free unless it is renewed, as of the last look; None: it was free."""

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
    """The spec as its holder writes it at `now`; `holder` empty: given up. It tells `duration` in whole seconds, rounded up:
    no observer takes it for lapsed before its holder does. `leaseTransitions` counts how often it changed hands."""
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
    """Empty: without a holder."""
    return spec_of(lease).get("holderIdentity") or ""


def spec_of(lease: Mapping[str, Any] | None) -> Manifest:
    """Empty: there is none."""
    return (lease or {}).get("spec") or {}
