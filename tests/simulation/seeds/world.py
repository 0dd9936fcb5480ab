"""The world of one seed: pods, queues, the API server with the ledger, one or two operators, and everything that can go wrong
between them. What must hold is checked here, where things are accepted, and in `checks`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.seeds.checks import Checks
from tests.simulation.seeds.clock import Clock, InvariantError
from tests.simulation.seeds.consumers import Consumer, Key
from tests.simulation.seeds.operators import Operator
from tests.simulation.seeds.queues import Queue

from baton.engine import Grant, GroupState, Step
from baton.engine.observation import GroupSpec, Observation, ObservedMember
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.session import Release

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Store:
    """The ConfigMap at the API server."""

    data: dict[str, str] | None = None
    version: int = 0
    term: int = 0

    def claim(self, term: int) -> None:
        self.version += 1
        self.term = term

    def touch(self) -> None:
        self.version += 1

    def replace(self, data: dict[str, str], version: int) -> bool:
        """Compare and swap."""
        if version != self.version:
            return False
        self.data = data
        self.version += 1
        return True


@dataclass(slots=True)
class Troubles:
    """How likely what is, as long as there is trouble at all."""

    crash: float = 0.0
    conflict: float = 0.0
    lost: float = 0.0
    reordered: float = 0.0
    slow: float = 1.0
    """A factor on every latency."""


@dataclass(eq=False)
class World:
    seed: int
    rng: random.Random
    spec: GroupSpec
    troubles: Troubles
    clock: Clock = field(default_factory=Clock)
    queues: dict[str, Queue] = field(default_factory=dict)
    pods: dict[str, Consumer] = field(default_factory=dict)
    gone: list[Consumer] = field(default_factory=list)
    store: Store = field(default_factory=Store)
    operators: list[Operator] = field(default_factory=list)
    request: str | None = None
    calm: bool = False
    uids: int = 0
    trace: list[tuple[float, str]] | None = None

    def __post_init__(self) -> None:
        self.checks = Checks(self)

    # -- chance

    def latency(self, about: float) -> float:
        return about * (0.2 + 1.6 * self.rng.random()) * (1.0 if self.calm else self.troubles.slow)

    def crashes(self) -> bool:
        if self.calm or self.rng.random() >= self.troubles.crash:
            return False
        self.say("the operator dies")
        self.clock.later(self.rng.choice((0.1, 1.0, 4.0)), self.new_operator)
        return True

    def conflicts(self) -> bool:
        return not self.calm and self.rng.random() < self.troubles.conflict

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append((self.clock.now, what))

    # -- operators

    @property
    def operator(self) -> Operator | None:
        return next((one for one in reversed(self.operators) if not one.dead), None)

    def new_operator(self) -> None:
        """The next leader; an earlier one may not know yet that it is none any more."""
        one = Operator(self, len(self.operators) + 1)
        self.operators.append(one)
        self.say(f"operator {one.term} leads")
        one.start()

    def lose_ledger(self) -> None:
        for one in self.operators:
            one.die()
        self.say("the ledger is deleted while no operator runs")
        self.store.data = None
        self.store.version += 1
        self.checks.ledger_lost()
        self.tell()
        self.clock.later(self.rng.choice((0.1, 2.0)), self.new_operator)

    def stepped(self, operator: Operator, before: GroupState, seen: Observation, made: Step) -> None:
        self.checks.stepped(operator, before, seen, made)

    def written(self, operator: Operator, made: Step) -> None:
        if self.trace is not None:
            for happening in made.happenings:
                self.say(f"{type(happening).__name__} {happening}")
        self.checks.written(made)
        self.tell()

    def granted(self, queue: Queue, grant: Grant) -> None:
        self.checks.granted(queue, grant)

    def tell(self) -> None:
        """The kubelets refresh the mounted map, each in its own time."""
        data = self.store.data or {}
        for pod in self.pods.values():
            text = data.get(pod.name)
            if text != self.checks.texts.get(pod.uid):
                self.checks.texts[pod.uid] = text
                self.clock.later(self.latency(0.4), partial(self._refresh, pod))

    def _refresh(self, pod: Consumer) -> None:
        pod.told((self.store.data or {}).get(pod.name))

    # -- pods

    def join(self, name: str, **facts: object) -> Consumer | None:
        if name in self.pods:
            return None
        self.uids += 1
        pod = Consumer(self, name, f"u{self.uids}", self.clock.now, **facts)  # type: ignore[arg-type]
        self.pods[name] = pod
        pod.start()
        self.say(f"{name} ({pod.uid}) joins {facts}")
        self.pod_changed(name)
        self.tell()
        return pod

    def remove(self, pod: Consumer) -> None:
        """The process is no more."""
        if pod.dead:
            return
        pod.dead = True
        self.say(f"{pod.name} ({pod.uid}) is gone")
        if self.pods.get(pod.name) is pod:
            del self.pods[pod.name]
        self.pod_changed(pod.name)

    def terminate(self, pod: Consumer, grace: float) -> None:
        if pod.dead or pod.terminating:
            return
        pod.terminating = True
        self.say(f"{pod.name} is asked to stop within {grace} s")
        self.pod_changed(pod.name)
        self.clock.later(grace, lambda: self.remove(pod))
        self._leave_when_idle(pod)

    def _leave_when_idle(self, pod: Consumer) -> None:
        key = (self.store.data or {}).get(pod.name)
        if pod.dead:
            return
        if not pod.stopped and pod.idle and not pod.busy and (key is None or '"owned":{},"revoking":{}' in key):
            self.remove(pod)
        else:
            self.clock.later(0.5, lambda: self._leave_when_idle(pod))

    def stop(self, pod: Consumer, seconds: float, session: float) -> None:
        """SIGSTOP. Its session lapses after `session` seconds; SIGCONT after `seconds`."""
        if pod.dead or pod.stopped:
            return
        pod.stop()
        self.say(f"{pod.name} is stopped for {seconds} s")

        def lapse() -> None:
            if pod.stopped and not pod.dead:
                pod.lapsed = True
                self.say(f"the session of {pod.name} lapses")
                self.pod_changed(pod.name)

        def wake() -> None:
            if pod.dead:
                return
            self.say(f"{pod.name} goes on")
            pod.wake()
            pod.lapsed = False
            self.pod_changed(pod.name)
            self.clock.later(self.latency(0.4), partial(self._refresh, pod))

        self.clock.later(session, lapse)
        self.clock.later(seconds, wake)

    def members(self) -> dict[MemberId, ObservedMember]:
        return {MemberId(name): self._member(pod) for name, pod in self.pods.items() if not pod.lapsed}

    def words_of(self, name: str) -> frozenset[Release]:
        pod = self.pods.get(name)
        if pod is None:
            return frozenset()
        return frozenset(Release(Uid(uid), QueueName(queue), number, Epoch(epoch)) for uid, queue, number, epoch in pod.words)

    def _member(self, pod: Consumer) -> ObservedMember:
        subscribed = None if pod.subscribed is None else frozenset(QueueName(queue) for queue in pod.subscribed)
        return ObservedMember(
            Uid(pod.uid), joined=pod.joined, subscribed=subscribed, instance=pod.instance, terminating=pod.terminating
        )

    # -- news for the operators, which may be lost or come late, also in another order

    def pod_changed(self, name: str) -> None:
        def show(operator: Operator, seen: ObservedMember | None) -> None:
            if seen is None:
                operator.members.pop(MemberId(name), None)
            else:
                operator.members[MemberId(name)] = seen

        self.checks.changed()
        then = self._shown(name)
        self._notify(lambda one: show(one, self._shown(name)), lambda one: show(one, then))

    def session_changed(self, pod: Consumer) -> None:
        def show(operator: Operator) -> None:
            operator.words[pod.name] = self.words_of(pod.name)

        self._notify(show, show)

    def spec_changed(self) -> None:
        def show(operator: Operator) -> None:
            operator.spec, operator.named = self.spec, self.named()

        self.checks.changed()
        self._notify(show, show)

    def named(self) -> frozenset[str]:
        return frozenset(name for name, queue in self.queues.items() if queue.named)

    def _shown(self, name: str) -> ObservedMember | None:
        pod = self.pods.get(name)
        return None if pod is None or pod.lapsed else self._member(pod)

    def _notify(self, fresh: Callable[[Operator], None], stale: Callable[[Operator], None]) -> None:
        for operator in self.operators:
            if operator.dead or (not self.calm and self.rng.random() < self.troubles.lost):
                continue
            late = not self.calm and self.rng.random() < self.troubles.reordered
            deliver = stale if late else fresh

            def arrive(operator: Operator = operator, deliver: Callable[[Operator], None] = deliver) -> None:
                if not operator.dead:
                    (fresh if self.calm else deliver)(operator)
                    operator.wake()

            self.clock.later(self.latency(1.5 if late else 0.05), arrive)

    # -- what consumers do at the queues

    def read(self, pod: Consumer, key: Key, epoch: int, last: int | None) -> tuple[int, int] | str | None:
        queue = self.queues[key[0]]
        if not queue.reachable:
            return None
        answer = queue.read(key[1], pod.uid, epoch, last)
        if isinstance(answer, tuple):
            self.checks.accepted(pod, queue, key[1], epoch, "read")
        return answer

    def acknowledge(self, pod: Consumer, key: Key, epoch: int, start: int, end: int) -> bool | None:
        queue = self.queues[key[0]]
        if not queue.reachable:
            return None
        taken = queue.acknowledge(key[1], pod.uid, epoch, start, end)
        if taken:
            self.checks.accepted(pod, queue, key[1], epoch, "acknowledgement")
        return taken

    def told(self, pod: Consumer, key: Key, epoch: int) -> None:
        self.checks.told(pod, key, epoch)

    # -- the facts of the group

    def change(self, **spec: object) -> None:
        self.say(f"spec: {spec}")
        self.spec = replace(self.spec, **spec)  # type: ignore[arg-type]
        self.spec_changed()

    def queue_changed(self, name: str, **facts: object) -> None:
        self.say(f"queue {name}: {facts}")
        for field_name, value in facts.items():
            setattr(self.queues[name], field_name, value)
        self.spec_changed()


__all__ = ["InvariantError", "Store", "Troubles", "World"]
