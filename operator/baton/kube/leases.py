"""Leases with the group's label: the sessions of consumers, by which they also report to the operator.

Their content is untrusted. It is bounded before it is parsed and never makes `view` fail: values that cannot be read count as
absent, and become the Lease's problem.

Sessions expire by the operator's clock. Lease times come from other machines' clocks, so only their changes count: a term begins
when this operator last saw a renewal. After an outage in which it could not see renewals (it was stopped, or the API server was
away) all sessions get a full term. A silent watch may be broken, so a session has lapsed only when a list begun after its term
shows no renewal.
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
"""API group and version of Leases."""

LONGEST_EXECUTORS = 64 * 1024
"""Most characters of the list of executors: about ten thousand of them."""

LONGEST_APP = 63
"""Most characters of an application's id, which executors have as a label."""

LONGEST_TROUBLE = 600
"""Characters shown of a problem that a consumer reports."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The Lease of one session."""

    namespace: str
    name: str
    group: str
    holder: Uid | None
    """UID of the pod that renews the Lease; None: given up."""
    duration: float = DEFAULT_DURATION
    """Seconds after which the session lapses unless renewed."""
    registered: str = ""
    """List of executors' ids, as text: the longest one would take a MiB as a set."""
    spark_app: str | None = None
    own_releases: Mapping[Uid, PodReleases] = field(default_factory=dict)
    """Releases that the holder reports for itself."""
    executor_releases: str = ""
    """Releases that a driver reports for its executors, as text: parsed, those of thousands take MiBs."""
    trouble: str = ""
    """Why the holder cannot use its queues, in the holder's words, on one line."""
    query_failure: str = ""
    """Why a driver's query fails repeatedly, on one line."""
    missing_rights: str = ""
    """Permissions that a driver's account lacks, on one line."""
    problem: str | None = None
    """Parts of the Lease that could not be read."""
    renewal: str = field(default="", compare=False)
    """The last renewTime as text, only compared for equality (clocks differ). A view that differs in it alone compares equal: a
    renewal does not change a group."""

    @property
    def executors(self) -> frozenset[str]:
        """Ids of the executors registered with the driver."""
        return _ids(self.registered)

    @property
    def releases(self) -> Mapping[Uid, PodReleases]:
        """Reported releases by pod UID."""
        return _parsed(self.executor_releases) if self.executor_releases else self.own_releases


@lru_cache(maxsize=16)
def _parsed(text: str) -> Mapping[Uid, PodReleases]:
    return parse_releases(text)


@lru_cache(maxsize=16)
def _ids(text: str) -> frozenset[str]:
    return frozenset(filter(None, (word.strip() for word in text.split(","))))


def leases_path(namespace: str | None, name: str = "") -> str:
    """Path of all Leases, or of one. `namespace` None: all namespaces."""
    return group_path(LEASES, namespace, "leases", name)


def view(lease: Mapping[str, Any]) -> LeaseView | None:
    """Read a Lease's manifest; None if it lacks the group's label."""
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
        own_releases={} if of_driver else _read(partial(parse_releases, releases, Uid(holder)), problems),
        executor_releases=releases if of_driver and _read(partial(_parsed, releases), problems) else "",
        trouble=_message(annotations, TROUBLE_ANNOTATION) if holder else "",
        query_failure=_message(annotations, QUERY_FAILURE_ANNOTATION) if holder and of_driver else "",
        missing_rights=_message(annotations, MISSING_RIGHTS_ANNOTATION) if holder and of_driver else "",
        problem="; ".join(problems) or None,
        renewal=str(spec.get("renewTime") or "")[:64],
    )


def _message(annotations: Mapping[str, str], name: str) -> str:
    return one_line(annotations.get(name) or "", LONGEST_TROUBLE)


_NO_UID = "{} is not the UID of a pod, so no pod holds the session"
_TOO_MANY = f"{{}} has more than {LONGEST_EXECUTORS:,} characters, so it names no executor"
_NO_APP = "{} is not an application's id and is ignored"


def _bounded(text: str | None, most: int, problems: list[str], else_: str) -> str:
    """Return an untrusted text, or "" if it is longer than `most`. `else_`: the problem to report then."""
    if text and len(text) > most:
        problems.append(else_.format(quoted(text)))
        return ""
    return text or ""


def _duration(seconds: int | None, problems: list[str]) -> float:
    if seconds is not None and seconds > LONGEST_DURATION:
        problems.append(f"spec.leaseDurationSeconds is above {LONGEST_DURATION:.0f}, which is used instead: 15 is usual")
        return LONGEST_DURATION
    return float(seconds or DEFAULT_DURATION)


def _read(parse: Callable[[], Mapping[Uid, PodReleases]], problems: list[str]) -> Mapping[Uid, PodReleases]:
    try:
        return parse()
    except ValueError as error:
        problems.append(f"annotation {RELEASES_ANNOTATION}: {error}: its releases are ignored")
        return {}


SessionKey = tuple[str, str, str | None]
"""Namespace, name and holder: another holder is another session."""


class SessionClock:
    """When each session was last seen renewed. All times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[SessionKey, Sighting[str]] = {}
        self._full_term_from: dict[str | None, float] = {}
        """End of the last outage, by namespace; None: of all namespaces."""
        self._listed: dict[str | None, float] = {}
        """When the last complete list of Leases was begun, by namespace; None: of all namespaces."""

    def renewed(self, lease: LeaseView, now: float) -> None:
        key = _key(lease)
        self._seen[key] = sight(self._seen.get(key), lease.renewal, now)

    def forget(self, lease: LeaseView) -> None:
        """Forget a session whose Lease was deleted or has another holder."""
        self._seen.pop(_key(lease), None)

    def listed(self, namespace: str | None, begun: float) -> None:
        """Record that a complete list of the Leases of a namespace (None: of all), begun at `begun`, was processed."""
        self._listed[namespace] = begun

    def outage(self, now: float, namespace: str | None = None) -> None:
        """Record that renewals in this namespace (None: in all) may have been missed until `now`."""
        self._full_term_from[namespace] = now

    def lapses_at(self, lease: LeaseView) -> float:
        """When the session lapses unless it is renewed."""
        seen = self._seen.get(_key(lease))
        return max(_of(self._full_term_from, lease), seen.since if seen else float("-inf")) + lease.duration

    def lapsed(self, lease: LeaseView, now: float) -> bool:
        """Whether the session has lapsed. A session that was given up has no holder and does not lapse."""
        return self.overdue(lease, now) and _of(self._listed, lease) >= self.lapses_at(lease)

    def overdue(self, lease: LeaseView, now: float) -> bool:
        """Whether the term is over without a renewal that this operator saw."""
        return lease.holder is not None and now >= self.lapses_at(lease)


def _of(times: Mapping[str | None, float], lease: LeaseView) -> float:
    return max(times.get(lease.namespace, float("-inf")), times.get(None, float("-inf")))


def _key(lease: LeaseView) -> SessionKey:
    return (lease.namespace, lease.name, lease.holder)
