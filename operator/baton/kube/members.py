"""Membership: from pods and sessions to the engine's members. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from baton.engine.observation import ObservedMember
from baton.kube.leases import LeaseView
from baton.kube.pods import ZONE_LABEL, PodView
from baton.model.ids import MemberId, Uid
from baton.model.names import RELEASES_ANNOTATION, driver_lease_name, session_lease_name
from baton.model.session import PodReleases, Releases

EXECUTOR, DRIVER = "executor", "driver"
"""Values of a pod's Spark role."""


class LeftOut(Enum):
    """Why a pod with the group's label that is not terminating is not a member."""

    NAME_TAKEN = auto()
    """The ledger uses the pod's name as a key."""
    NOT_READY = auto()
    NO_SESSION = auto()
    """The pod has no Lease, and the group requires sessions."""
    LAPSED = auto()
    """The pod's session (for an executor: its driver's) was not renewed in time."""
    NOT_REGISTERED = auto()
    """The driver has not registered this executor (yet)."""
    NO_DRIVER = auto()
    """The pod is an executor, and no pod holds the Lease of the group's driver."""
    OTHER_DRIVER = auto()
    """The pod is an executor, and a driver other than its own holds the Lease."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of one group, and the other pods with its label."""

    members: Mapping[MemberId, ObservedMember] = field(default_factory=dict)
    away: Mapping[MemberId, Uid] = field(default_factory=dict)
    """Pods that are not members, but whose processes may still be working."""
    releases: Releases = field(default_factory=Releases)
    pods: int = 0
    """Number of pods with the label that are not terminating and have not ended, ready or not."""
    ended: int = 0
    """Number of pods with the label that have ended: a Job's, or executors that Spark has not removed yet."""
    stopping: int = 0
    """Number of pods with the label that are terminating and are no longer members."""
    left_out: Mapping[MemberId, LeftOut] = field(default_factory=dict)
    unready: Mapping[MemberId, str] = field(default_factory=dict)
    """Why pods in `left_out` are not Ready, for those that are not."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Problems of the Leases that belong to these pods, by the Lease's name. Other Leases with the label affect no pod."""
    trouble: Mapping[MemberId, str] = field(default_factory=dict)
    """Why members cannot use their queues, as they report it. A driver reports for its executors, under its pod's name, or its
    Lease's name if its pod lacks the label."""
    query_failures: Mapping[MemberId, str] = field(default_factory=dict)
    """Why a Spark driver's query fails, by the same name as in `trouble`."""
    missing_rights: Mapping[MemberId, str] = field(default_factory=dict)
    """Permissions that a Spark driver's account lacks, by the same name as in `trouble`."""
    drivers: Mapping[MemberId, str] = field(default_factory=dict)
    """Spark drivers whose container failed, with the end of its log."""
    idle_drivers: Mapping[MemberId, str] = field(default_factory=dict)
    """Spark drivers that have not failed, with the state of each."""
    _said: Mapping[str, tuple[PodReleases, ...]] = field(default_factory=dict, repr=False)

    @property
    def staying(self) -> bool:
        """Whether any member is not leaving."""
        return not all(member.leaving for member in self.members.values())

    def refused(self) -> Iterator[tuple[str, str]]:
        """Lease name and problem for releases that could not be parsed. Releases are parsed when a step asks for them, so call
        this after the step."""
        for lease, those in self._said.items():
            for said in those:
                yield from ((lease, f"annotation {RELEASES_ANNOTATION}: {queue}: {why}") for queue, why in said.refused.items())


def membership(
    group: str,
    pods: Iterable[PodView],
    leases: Iterable[LeaseView],
    lapsed: Callable[[LeaseView], bool],
    identity_label: str | None = None,
    *,
    sessions_required: bool = False,
) -> GroupMembers:
    """Determine the members of a group.

    A pod is a member if it is Ready and its session has not lapsed; without a session, only if `sessions_required` is not set. An
    executor must also be registered with its driver. A terminating pod remains a member while it can still release partitions.
    """
    sessions = {lease.name: lease for lease in leases}
    driver = sessions.get(driver_lease_name(group))
    members: dict[MemberId, ObservedMember] = {}
    away: dict[MemberId, Uid] = {}
    left_out: dict[MemberId, LeftOut] = {}
    unready: dict[MemberId, str] = {}
    unread: dict[str, str] = {}
    trouble: dict[MemberId, str] = {}
    said: dict[Uid, PodReleases] = {}
    by_lease: dict[str, list[PodReleases]] = {}
    pods = list(pods)
    drivers = {pod.uid: pod.name for pod in pods if pod.spark_role == DRIVER}
    labelled = [pod for pod in pods if pod.spark_role != DRIVER and not pod.ended]
    for pod in labelled:
        named = driver if pod.spark_role == EXECUTOR else sessions.get(session_lease_name(pod.name))
        session = named if named is not None and speaks_for(named, pod) else None
        if named is not None and named.problem is not None and (session is not None or named.holder is None):
            unread[named.name] = named.problem
        if session is not None and (its := session.releases.get(pod.uid)) is not None:
            said[pod.uid] = its
            by_lease.setdefault(session.name, []).append(its)
        why = _why_left_out(pod, named, session, lapsed, sessions_required)
        if why is None:
            members[pod.name] = _member(pod, identity_label)
            if session is not None and session.trouble and pod.spark_role != EXECUTOR:
                trouble[pod.name] = session.trouble
            continue
        if not pod.terminating:
            left_out[pod.name] = why
            if why is LeftOut.NOT_READY:
                unready[pod.name] = pod.unready
        if pod.nameable and _may_still_work(pod, session, lapsed):
            away[pod.name] = pod.uid
    live = driver if driver is not None and driver.holder is not None and not lapsed(driver) else None
    speaker = drivers.get(live.holder, MemberId(live.name)) if live is not None and live.holder is not None else MemberId("")
    if live is not None and live.trouble:
        trouble[speaker] = live.trouble
    return GroupMembers(
        members=members,
        away=away,
        releases=Releases(said),
        pods=sum(not pod.terminating for pod in labelled),
        ended=sum(pod.ended for pod in pods if pod.spark_role != DRIVER),
        stopping=sum(pod.terminating and pod.name not in members for pod in labelled),
        left_out=left_out,
        unready=unready,
        unread=unread,
        trouble=trouble,
        query_failures={speaker: live.query_failure} if live is not None and live.query_failure else {},
        missing_rights={speaker: live.missing_rights} if live is not None and live.missing_rights else {},
        drivers={pod.name: pod.failure for pod in pods if pod.spark_role == DRIVER and pod.failure is not None},
        idle_drivers={pod.name: _idle(pod) for pod in pods if pod.spark_role == DRIVER and pod.failure is None},
        _said={name: tuple(those) for name, those in by_lease.items()},
    )


def speaks_for(session: LeaseView, pod: PodView) -> bool:
    """Whether this session is the pod's own, or that of its driver.

    The pod's own Lease counts only if this pod holds it, not an earlier pod of that name. An executor belongs to the driver that
    holds the Lease if that driver owns the pod, or, for a driver outside the cluster, if both name the same application.
    """
    if session.holder is None:
        return False
    if pod.spark_role != EXECUTOR:
        return session.holder == pod.uid
    if pod.owners:
        return session.holder in pod.owners
    return session.spark_app is not None and pod.spark_app == session.spark_app


def _why_left_out(
    pod: PodView, named: LeaseView | None, session: LeaseView | None, lapsed: Callable[[LeaseView], bool], sessions_required: bool
) -> LeftOut | None:
    """Why a pod is not a member; None: it is one. `named`: the Lease of the pod's name, with any holder."""
    if not pod.nameable:
        return LeftOut.NAME_TAKEN
    if not (pod.running if pod.terminating else pod.ready):
        return LeftOut.NOT_READY
    if session is None and pod.spark_role == EXECUTOR:
        return LeftOut.NO_DRIVER if named is None or named.holder is None else LeftOut.OTHER_DRIVER
    if session is None and sessions_required:
        return LeftOut.NO_SESSION
    if session is not None and lapsed(session):
        return LeftOut.LAPSED
    if pod.spark_role == EXECUTOR and not pod.terminating and session is not None and pod.executor_id not in session.executors:
        return LeftOut.NOT_REGISTERED
    return None


def _may_still_work(pod: PodView, session: LeaseView | None, lapsed: Callable[[LeaseView], bool]) -> bool:
    """Whether a pod's process may still be working: it has not ended, and its session has not lapsed. A pod that is not Ready, or
    has no session, may still work."""
    return pod.running and (session is None or not lapsed(session))


def _idle(driver: PodView) -> str:
    if driver.ended:
        return "has come to its end"
    if driver.terminating:
        return "stops"
    return "runs" if driver.ready else f"is not Ready ({driver.unready})"


def _member(pod: PodView, identity_label: str | None) -> ObservedMember:
    return ObservedMember(
        uid=pod.uid,
        joined=pod.ready_since or 0.0,
        subscribed=pod.subscribed,
        assignors=pod.assignors,
        instance=pod.label(identity_label) or None if identity_label else None,
        zone=pod.label(ZONE_LABEL) or None,
        capacity=pod.capacity,
        terminating=pod.terminating,
        ends=pod.ends,
        draining=pod.draining,
    )
