"""What the mirror shows of one group: the group itself, its pods, and the sessions that speak for them."""

from collections.abc import Collection, Iterator

from baton.controller.diagnosis import annotation_problems, identity_problems, membership_problems
from baton.controller.mirror import GroupKey, Mirror
from baton.controller.problems import Problem
from baton.kube.leases import LeaseView
from baton.kube.members import DRIVER, Membership, membership
from baton.kube.objects import GroupView
from baton.kube.pods import PodView
from baton.model.ids import MemberId
from baton.resources import ConsumerGroupSpec


class GroupSight:
    """One group, as it is now. Times are seconds of the monotonic clock."""

    def __init__(self, key: GroupKey, uid: str, mirror: Mirror) -> None:
        self._key = key
        self._uid = uid
        self._mirror = mirror

    @property
    def group(self) -> GroupView | None:
        """None: it is gone, or another stands under its name."""
        group = self._mirror.group(self._key)
        return group if group is not None and group.uid == self._uid else None

    @property
    def pods(self) -> Collection[PodView]:
        """All that have the group's label."""
        return self._mirror.pods.bucket(*self._key).values()

    @property
    def _leases(self) -> Collection[LeaseView]:
        return self._mirror.leases.bucket(*self._key).values()

    def membership(self, identity_label: str | None, now: float) -> Membership:
        """Who takes part."""
        sessions = self._mirror.sessions
        return membership(self._key[1], self.pods, self._leases, lambda lease: sessions.lapsed(lease, now), identity_label)

    def problems(self, spec: ConsumerGroupSpec, seen: Membership) -> list[Problem]:
        """What is wrong with pods and sessions."""
        unread = {lease.name: lease.problem for lease in self._leases if lease.problem}
        pods = [pod for pod in self.pods if pod.spark_role != DRIVER]
        return [
            *membership_problems(self._key[1], self._key[0], seen, unread),
            *annotation_problems(spec, pods),
            *identity_problems(spec, pods),
        ]

    def lapses_after(self, now: float) -> Iterator[float]:
        """When sessions lapse unless they are renewed."""
        ends = (self._mirror.sessions.lapses_at(lease) for lease in self._leases if lease.holder)
        return (end for end in ends if end > now)

    def newly_eligible(self, seen: Membership) -> Iterator[tuple[MemberId, float]]:
        """Members that were taken in since the last call, each with since when it had been able to take part."""
        uids = {member.uid for member in seen.members.values()}
        for pod in self.pods:
            if pod.uid in uids and (since := self._mirror.take_eligible_since(self._key, pod)) is not None:
                yield pod.name, since
