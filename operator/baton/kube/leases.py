"""Leases with the group's label: the sessions by which consumers speak to the operator.

What stands in them was written by others. Nothing of it can fail `view`: it is bounded before it is read, and what cannot be
read counts as nothing and is told as the Lease's problem.

When a session has lapsed, the operator's own clock says. Lease times are written by other machines' clocks, so only changes
count: expiry runs from when this operator last saw a renewal. What it could not have seen (it was stopped, or the API server was
away) it does not count: after such an outage all sessions get a full term. And a watch that says nothing may be one that is
broken: a session has lapsed when a list that was begun after its term shows it as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from baton.kube.api import group_path
from baton.model.ids import Uid
from baton.model.lease import DEFAULT_DURATION, LONGEST_DURATION, Sighting, sight
from baton.model.names import (
    EXECUTORS_ANNOTATION,
    GROUP_LABEL,
    MISSING_RIGHTS_ANNOTATION,
    QUERY_FAILURE_ANNOTATION,
    RELEASES_ANNOTATION,
    SPARK_APP_ANNOTATION,
    TROUBLE_ANNOTATION,
    driver_lease_name,
)
from baton.model.session import LONGEST_UID, PodReleases, parse_releases
from baton.model.wording import one_line, quoted

LEASES = "coordination.k8s.io/v1"
"""Their API group and version."""

LONGEST_EXECUTORS = 64 * 1024
"""Characters of the list of executors: ten thousand of them."""

LONGEST_APP = 63
"""Characters of an application's id: the executors carry it as a label."""

LONGEST_TROUBLE = 600
"""Characters of what a consumer says is wrong that are shown."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The Lease of one session."""

    namespace: str
    name: str
    group: str
    holder: Uid | None
    """The UID of the pod that renews it; None: given up."""
    duration: float = DEFAULT_DURATION
    """Seconds after which it lapses unless renewed."""
    registered: str = ""
    """The executors' ids as they were told: as a set, a list that is as long as one may be has a MiB."""
    spark_app: str | None = None
    own: Mapping[Uid, PodReleases] = field(default_factory=dict)
    """What the pod that holds it says of itself: what it has released."""
    spoken: str = ""
    """What a driver says of its executors, as text: read, what it says of thousands has MiBs."""
    trouble: str = ""
    """What keeps its holder from its queues, in the holder's words, on one line."""
    query_failure: str = ""
    """Why a driver's query fails again and again, likewise."""
    missing_rights: str = ""
    """What a driver's account may not do, likewise."""
    problem: str | None = None
    """What of it could not be read."""
    renewal: str = field(default="", compare=False)
    """The text of its last renewal, only ever compared with another (clocks differ). A renewal alone makes no difference to a
    group."""

    @property
    def executors(self) -> frozenset[str]:
        """Ids of those that are registered with the driver."""
        return _ids(self.registered)

    @property
    def said(self) -> Mapping[Uid, PodReleases]:
        """What it says was released, by the UIDs of those that it speaks of."""
        return _spoken(self.spoken) if self.spoken else self.own


@lru_cache(maxsize=16)
def _spoken(text: str) -> Mapping[Uid, PodReleases]:
    return parse_releases(text)


@lru_cache(maxsize=16)
def _ids(text: str) -> frozenset[str]:
    return frozenset(filter(None, (word.strip() for word in text.split(","))))


def leases_path(namespace: str | None, name: str = "") -> str:
    """The path of all Leases, or of one. `namespace` None: those of all namespaces."""
    return group_path(LEASES, namespace, "leases", name)


def view(lease: Mapping[str, Any]) -> LeaseView | None:
    """A Lease's manifest as a LeaseView; None without the group's label."""
    metadata, spec = lease["metadata"], lease.get("spec") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    group = (metadata.get("labels") or {}).get(GROUP_LABEL)
    if not group:
        return None
    problems: list[str] = []
    holder = _bounded(spec.get("holderIdentity"), LONGEST_UID, problems, f"spec.holderIdentity {_NO_UID}")
    of_driver = metadata["name"] == driver_lease_name(group)
    releases = annotations.get(RELEASES_ANNOTATION) or "" if holder else ""
    executors, app = annotations.get(EXECUTORS_ANNOTATION) if of_driver else None, annotations.get(SPARK_APP_ANNOTATION)
    return LeaseView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        group=group,
        holder=Uid(holder) if holder else None,
        duration=_duration(spec.get("leaseDurationSeconds"), problems),
        registered=_bounded(executors, LONGEST_EXECUTORS, problems, f"annotation {EXECUTORS_ANNOTATION} {_TOO_MANY}"),
        spark_app=_bounded(app, LONGEST_APP, problems, f"annotation {SPARK_APP_ANNOTATION} {_NO_APP}") or None,
        own={} if of_driver else _read(partial(parse_releases, releases, Uid(holder)), problems),
        spoken=releases if of_driver and _read(partial(_spoken, releases), problems) else "",
        trouble=_words(annotations, TROUBLE_ANNOTATION) if holder else "",
        query_failure=_words(annotations, QUERY_FAILURE_ANNOTATION) if holder and of_driver else "",
        missing_rights=_words(annotations, MISSING_RIGHTS_ANNOTATION) if holder and of_driver else "",
        problem="; ".join(problems) or None,
        renewal=str(spec.get("renewTime") or "")[:64],
    )


def _words(annotations: Mapping[str, str], name: str) -> str:
    return one_line(annotations.get(name) or "", LONGEST_TROUBLE)


_NO_UID = "{} is no UID of a pod, so no pod holds the session"
_TOO_MANY = f"{{}} has more than {LONGEST_EXECUTORS:,} characters, so it names no executor"
_NO_APP = "{} is no application's id, and counts as none"


def _bounded(text: str | None, most: int, problems: list[str], else_: str) -> str:
    """A text of others, or nothing where it is too long. `else_`: what is wrong then."""
    if text and len(text) > most:
        problems.append(else_.format(quoted(text)))
        return ""
    return text or ""


def _duration(seconds: int | None, problems: list[str]) -> float:
    if seconds is not None and seconds > LONGEST_DURATION:
        problems.append(f"spec.leaseDurationSeconds is above {LONGEST_DURATION:.0f} and counts as that: 15 is usual")
        return LONGEST_DURATION
    return float(seconds or DEFAULT_DURATION)


def _read(parse: Callable[[], Mapping[Uid, PodReleases]], problems: list[str]) -> Mapping[Uid, PodReleases]:
    try:
        return parse()
    except ValueError as error:
        problems.append(f"annotation {RELEASES_ANNOTATION}: {error}: nothing of it counts as released")
        return {}


SessionKey = tuple[str, str, str | None]
"""Namespace, name and holder: another holder is another session."""


class SessionClock:
    """Last renewals, as seen. All times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[SessionKey, Sighting[str]] = {}
        self._full_term_from: dict[str | None, float] = {}
        """By namespace; None: all of them."""
        self._listed: dict[str | None, float] = {}
        """When the last list of Leases that came to its end was begun, likewise."""

    def renewed(self, lease: LeaseView, now: float) -> None:
        key = _key(lease)
        self._seen[key] = sight(self._seen.get(key), lease.renewal, now)

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
        return max(_of(self._full_term_from, lease), seen.since if seen else float("-inf")) + lease.duration

    def lapsed(self, lease: LeaseView, now: float) -> bool:
        """A session that was given up has no holder; it has not lapsed."""
        return self.overdue(lease, now) and _of(self._listed, lease) >= self.lapses_at(lease)

    def overdue(self, lease: LeaseView, now: float) -> bool:
        """Its term is over, as far as was seen."""
        return lease.holder is not None and now >= self.lapses_at(lease)


def _of(times: Mapping[str | None, float], lease: LeaseView) -> float:
    return max(times.get(lease.namespace, float("-inf")), times.get(None, float("-inf")))


def _key(lease: LeaseView) -> SessionKey:
    return (lease.namespace, lease.name, lease.holder)
