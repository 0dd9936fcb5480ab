"""A large group in process: the facts as the operator's cache has them, and consumers and queues that do as they are told."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.engine import Grant, GroupState, Step, step
from baton.engine.observation import GroupSpec, Observation, ObservedQueue, Outcome
from baton.kube.leases import LeaseView
from baton.kube.members import membership
from baton.kube.pods import PodView
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.names import session_lease_name
from baton.model.ranges import format_grants
from baton.model.session import PodReleases
from baton.queues.protocol import Ownership

QUEUE = QueueName("orders")
DELAY = 5.0


@dataclass
class Fleet:
    """Members joined one after the other; time stands still unless a step is given another."""

    members: int
    partitions: int
    state: GroupState = field(default_factory=lambda: GroupState("shop/orders"))
    now: float = 0.0
    words: Mapping[Uid, PodReleases] = field(default_factory=dict)
    """The releases that pods report."""

    def facts(self) -> tuple[list[PodView], list[LeaseView]]:
        """New objects each time, as after a relist."""
        pods = [
            PodView("shop", MemberId(f"orders-exec-{n}"), Uid(f"uid-{n}"), "orders", ready_since=float(n), running=True)
            for n in range(self.members)
        ]
        leases = [
            LeaseView("shop", session_lease_name(pod.name), "orders", pod.uid, own_releases=said)
            for pod in pods
            for said in [{pod.uid: self.words[pod.uid]} if pod.uid in self.words else {}]
        ]
        return pods, leases

    def observe(self, facts: tuple[list[PodView], list[LeaseView]], outcomes: frozenset[Outcome] = frozenset()) -> Observation:
        """What the operator makes of the facts before each step."""
        pods, leases = facts
        seen = membership("orders", pods, leases, lambda lease: False)
        spec, queues = GroupSpec(delay=DELAY), {QUEUE: ObservedQueue(self.partitions)}
        return Observation(spec=spec, queues=queues, members=seen.members, releases=seen.releases, outcomes=outcomes)

    def step(self, outcomes: frozenset[Outcome] = frozenset()) -> Step:
        made = step(self.state, self.observe(self.facts(), outcomes), self.now)
        self.state = made.state
        return made

    def settle(self) -> None:
        """From a trigger to rest: the holddown ends, everything is released at once, every grant is taken."""
        self.begin()
        self.release()
        for _ in range(3):
            made = self.step()
            granted = frozenset(Outcome(e.partition, Ownership(e.uid, e.epoch)) for e in made.effects if isinstance(e, Grant))
            self.step(granted)
        if self.state.moves:
            raise RuntimeError("the group does not come to rest")
        self.words = {}
        self.step()

    def trigger(self) -> None:
        """A holddown starts; the next step is a plan."""
        self.step()
        self.now += DELAY

    def begin(self) -> None:
        """A holddown, and the plan at its end."""
        self.trigger()
        self.step()

    def release(self, most: int | None = None) -> None:
        """The givers of the first `most` hand-offs report their releases."""
        words: dict[Uid, dict[int, Epoch]] = {}
        for partition, move in sorted(self.state.moves.items())[:most]:
            if move.giver is not None:
                uid = self.state.known[move.giver].uid
                words.setdefault(uid, {})[partition.number] = self.state.records[partition].epoch
        self.words = {uid: PodReleases(json.dumps({QUEUE: format_grants(grants)})) for uid, grants in words.items()}
