"""A session's Lease: what it looks like, and what is needed of the place where it is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Protocol

from baton.model.names import GROUP_LABEL
from baton.model.sighting import Sighting, sight

Manifest = dict[str, Any]
"""A Lease as JSON."""


class LeaseStore(Protocol):
    """One Lease. Any method may raise whatever the way to it raises; that is taken as "not now"."""

    def read(self) -> Manifest | None:
        """None: it does not exist."""

    def write(self, lease: Manifest) -> Manifest | None:
        """Replace it if it still is at the manifest's resourceVersion; without one, create it. Answers what stands there then.

        None: it has changed meanwhile.
        """


def renewed(
    before: Manifest | None,
    holder: str,
    group: str,
    duration: float,
    now: datetime,
    annotations: Mapping[str, str],
    owner: Mapping[str, str] | None = None,
) -> Manifest:
    """The Lease as its holder writes it at `now`. What others put on it stays. `holder` empty: given up. It tells `duration` in
    whole seconds, rounded up: nobody takes it for lapsed before its holder does.

    `owner` is a pod's name and uid: the Lease is deleted with it.
    """
    spec: Manifest = (before or {}).get("spec") or {}
    metadata: Manifest = dict((before or {}).get("metadata") or {})
    mine = spec.get("holderIdentity") == holder
    metadata["labels"] = (metadata.get("labels") or {}) | {GROUP_LABEL: group}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **owner}]
    return {
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": ceil(duration),
            "acquireTime": spec["acquireTime"] if mine and "acquireTime" in spec else _micro(now),
            "renewTime": _micro(now),
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (1 if holder and not mine else 0),
        },
    }


@dataclass(slots=True)
class Vacancy:
    """Whether another's Lease has become free: it has no holder, or this process has seen no renewal of it for its whole length.
    Clocks of other machines are not trusted.
    """

    _sighting: Sighting[tuple[str, str]] | None = None
    """Of its holder and its last renewal."""

    def free(self, lease: Manifest | None, me: str, now: float) -> bool:
        """`now`: seconds of this process's monotonic clock, after the Lease was read."""
        spec = (lease or {}).get("spec") or {}
        holder = holder_of(lease)
        self._sighting = sight(self._sighting, (holder, str(spec.get("renewTime"))), now)
        return holder in ("", me) or now >= self._sighting.since + float(spec.get("leaseDurationSeconds") or 0)


def holder_of(lease: Manifest | None) -> str:
    """Empty: nobody's."""
    return ((lease or {}).get("spec") or {}).get("holderIdentity") or ""


def _micro(time: datetime) -> str:
    """metav1.MicroTime wants its six digits, which isoformat() leaves out where they are zero."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
