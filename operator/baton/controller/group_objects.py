"""What the cluster cache shows of one group: the group itself, its pods, and the sessions that speak for them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from baton.api import ConsumerGroupSpec, sessions_required
from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.group_observation import QueueSight
from baton.controller.problems import Problem
from baton.controller.status import (
    annotation_problems,
    identity_problems,
    membership_problems,
    session_problems,
    unread_problems,
    word_problems,
)
from baton.kube.leases import LeaseView
from baton.kube.members import DRIVER, GroupMembers, LeftOut, membership
from baton.kube.objects import GroupView
from baton.kube.pods import PodView
from baton.model.ids import MemberId

SESSION_WITHIN = 15.0
"""Seconds for which a pod may be Ready without a session: a consumer that has just started is nothing to tell of, and one whose
Lease somebody has deleted writes it again."""


class GroupObjects:
    """One group, as it is now. Times are seconds of the monotonic clock."""

    def __init__(self, key: GroupKey, uid: str, cache: ClusterCache) -> None:
        self._key = key
        self._uid = uid
        self._cache = cache
        self._silent_since: dict[MemberId, float] = {}
        """Pods that take no part for want of a session, and since when."""

    @property
    def group(self) -> GroupView | None:
        """None: it is gone, or another stands under its name."""
        group = self._cache.group(self._key)
        return group if group is not None and group.uid == self._uid else None

    @property
    def pods(self) -> Collection[PodView]:
        """All that have the group's label."""
        return self._cache.pods.bucket(*self._key).values()

    @property
    def _leases(self) -> Collection[LeaseView]:
        return self._cache.leases.bucket(*self._key).values()

    def facts(self) -> tuple[object, ...]:
        """All that is seen of it. Two that are equal make no difference to it."""
        return self.group, dict(self._cache.pods.bucket(*self._key)), dict(self._cache.leases.bucket(*self._key))

    def in_doubt_since(self, now: float) -> float | None:
        """From when on a list of Leases would show whether all sessions have lapsed that seem so; None: none is in doubt."""
        sessions = self._cache.sessions
        doubtful = (one for one in self._leases if sessions.overdue(one, now) and not sessions.lapsed(one, now))
        return max(map(sessions.lapses_at, doubtful), default=None)

    def membership(self, spec: ConsumerGroupSpec, queues: Iterable[QueueSight], now: float) -> GroupMembers:
        """The members of the group, by its pods and their sessions."""
        sessions = self._cache.sessions
        seen = membership(
            self._key[1],
            self.pods,
            self._leases,
            lambda lease: sessions.lapsed(lease, now),
            spec.membership.identity_label,
            sessions_required=sessions_required(spec, [one.spec for one in queues if one.spec is not None]),
        )
        silent = [name for name, why in seen.left_out.items() if why is LeftOut.NO_SESSION]
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
        # A Lease that is gone is not renewed either: its session lapses in the end, or a pod that hangs would be waited for.
        ended = {name for name, since in self._silent_since.items() if now >= since + SESSION_WITHIN}
        return replace(seen, away={name: uid for name, uid in seen.away.items() if name not in ended}) if ended else seen

    def problems(
        self, spec: ConsumerGroupSpec, seen: GroupMembers, now: float, asked_for: int | None, unowned: int = 0
    ) -> list[Problem]:
        """What is wrong with pods and sessions. `asked_for`: how many pods there are to be, as far as that is known; `unowned`:
        how many partitions have no owner."""
        pods = [pod for pod in self.pods if pod.spark_role != DRIVER]
        return [
            *membership_problems(self._key[1], self._key[0], seen, asked_for, unowned=unowned),
            *word_problems(seen),
            *unread_problems("Pod", self._cache.pods.unread(*self._key)),
            *unread_problems("Lease", self._cache.leases.unread(*self._key)),
            *session_problems(name for name, since in self._silent_since.items() if now >= since + SESSION_WITHIN),
            *annotation_problems(spec, pods),
            *identity_problems(spec, pods),
        ]

    def due_after(self, now: float) -> Iterator[float]:
        """When sessions lapse unless they are renewed, and when a problem with pods without a session is due (monotonic
        seconds)."""
        yield from (end for lease in self._leases if lease.holder and (end := self._cache.sessions.lapses_at(lease)) > now)
        yield from (due for since in self._silent_since.values() if (due := since + SESSION_WITHIN) > now)

    def newly_eligible(self, seen: GroupMembers) -> Iterator[tuple[MemberId, float]]:
        """Members that were taken in since the last call, each with since when it had been able to take part."""
        uids = {member.uid for member in seen.members.values()}
        for pod in self.pods:
            if pod.uid in uids and (since := self._cache.take_eligible_since(self._key, pod)) is not None:
                yield pod.name, since
