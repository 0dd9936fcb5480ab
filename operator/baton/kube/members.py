"""Who takes part: from pods and sessions to the engine's members. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from baton.engine.observation import ObservedMember
from baton.kube.leases import LeaseView
from baton.kube.pods import ZONE_LABEL, PodView
from baton.model.ids import MemberId
from baton.model.names import driver_lease_name, session_lease_name
from baton.model.session import Release

EXECUTOR, DRIVER = "executor", "driver"
"""Of a pod's Spark role."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What the pods and sessions of one group come to."""

    members: Mapping[MemberId, ObservedMember] = field(default_factory=dict)
    releases: frozenset[Release] = frozenset()
    pods: int = 0
    """Pods with the label that are not terminating, ready or not."""


def membership(
    group: str,
    pods: Iterable[PodView],
    leases: Iterable[LeaseView],
    lapsed: Callable[[LeaseView], bool],
    identity_label: str | None = None,
) -> Membership:
    """A pod is a member when it is Ready and its session, if it has one, has not lapsed; an executor also must be registered with
    the driver that speaks for it. One that terminates remains a member while it can still let go of what it has."""
    sessions = {lease.name: lease for lease in leases}
    driver = sessions.get(driver_lease_name(group))
    members: dict[MemberId, ObservedMember] = {}
    releases: set[Release] = set()
    labelled = [pod for pod in pods if pod.spark_role != DRIVER]
    for pod in labelled:
        session = _session_of(pod, sessions, driver)
        if session is not None:
            releases.update(release for release in session.releases if release.uid == pod.uid)
        if pod.nameable and _takes_part(pod, session, lapsed):
            members[pod.name] = _member(pod, identity_label)
    return Membership(members, frozenset(releases), sum(not pod.terminating for pod in labelled))


def speaks_for(driver: LeaseView, pod: PodView) -> bool:
    """The executor belongs to the driver that holds this Lease: it owns the pod, or (a driver outside the cluster owns no pods)
    both name the same application."""
    if driver.holder is None:
        return False
    if pod.owners:
        return driver.holder in pod.owners
    return driver.spark_app is not None and pod.spark_app == driver.spark_app


def _session_of(pod: PodView, sessions: Mapping[str, LeaseView], driver: LeaseView | None) -> LeaseView | None:
    if pod.spark_role == EXECUTOR:
        return driver if driver is not None and speaks_for(driver, pod) else None
    session = sessions.get(session_lease_name(pod.name))
    # A Lease that an earlier pod of this name held says nothing about this one.
    return session if session is not None and session.holder == pod.uid else None


def _takes_part(pod: PodView, session: LeaseView | None, lapsed: Callable[[LeaseView], bool]) -> bool:
    if session is not None and lapsed(session):
        return False
    if pod.terminating:
        return pod.running and (pod.spark_role != EXECUTOR or session is not None)
    if not pod.ready:
        return False
    if pod.spark_role == EXECUTOR:
        return session is not None and pod.executor_id in session.executors
    return True


def _member(pod: PodView, identity_label: str | None) -> ObservedMember:
    return ObservedMember(
        uid=pod.uid,
        joined=pod.ready_since or 0.0,
        subscribed=pod.subscribed,
        assignors=pod.assignors,
        instance=pod.label(identity_label) if identity_label else None,
        zone=pod.label(ZONE_LABEL),
        capacity=pod.capacity,
        terminating=pod.terminating,
    )
