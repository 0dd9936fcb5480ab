"""The environment of one seed: the API server, the operators, the tenants, and the faults between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from baton.engine.step import Fitted
from baton.kube.api import core_path
from baton.kube.objects import groups_path
from tests.simulation.api_server import ApiServer
from tests.simulation.api_server.faults import LoseAnswer, Refuse
from tests.simulation.api_server.refusals import Refused
from tests.simulation.seeds import manifests
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.loop import SeedLoop
from tests.simulation.seeds.operators import EPOCH, LEASE, Operator
from tests.simulation.seeds.readiness_check import ReadinessCheck
from tests.simulation.seeds.tenant import Tenant

if TYPE_CHECKING:
    from tests.simulation.seeds.queues import Queue
    from tests.simulation.seeds.troubles import Troubles


class Environment:
    """The environment of one seed. Invariants are checked where requests are accepted."""

    def __init__(self, seed: int, troubles: Troubles, *, stormy: bool = False, watched: tuple[str, ...] = ()) -> None:
        self.seed = seed
        self.rng = troubles.rng
        self.troubles = troubles
        self.stormy = stormy
        """All kinds of faults can happen."""
        self.watched = watched
        """The namespaces that the operators watch; empty: all."""
        self.skews: tuple[float, ...] = (0.0,)
        """Seconds by which operators' wall clocks may be ahead."""
        self.loop = SeedLoop(lambda: self.violated("an endless loop in which no time passes"))
        self.loop.computed = self._computed
        self.loop.set_exception_handler(self._failed)
        self.server = ApiServer(random.Random(seed), lambda: EPOCH + self.now, self.later)
        self.tenants: dict[str, Tenant] = {}
        self.operators: list[Operator] = []
        self.trace: list[tuple[float, str]] | None = None
        self.violation: BaseException | None = None
        self.ending = False

    # -- time

    @property
    def now(self) -> float:
        return self.loop.time()

    def later(self, seconds: float, do: Callable[..., object], *arguments: Any) -> None:
        self.loop.later(seconds, do, *arguments)

    def run(self, seconds: float) -> None:
        """Let time pass. Raises the violation of an invariant meanwhile."""
        if seconds > 0:
            self.later(seconds, self._pause)
            self.loop.run_forever()
        if self.violation is not None:
            raise self.violation

    def _pause(self) -> None:
        if not self.ending:
            self.loop.stop()

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append((self.now, what))

    # -- chance

    def latency(self, about: float) -> float:
        return about * (0.2 + 1.6 * self.rng.random()) * (1.0 if self.troubles.calm else self.troubles.slow)

    def crashes(self, operator: Operator) -> bool:
        troubles = self.troubles
        if troubles.calm or not troubles.crash or self.rng.random() >= troubles.crash:
            return False
        self.replace(operator, self.rng.choice((0.1, 1.0, 4.0)))
        return True

    def repeats(self) -> bool:
        """True if a watch delivers an event twice."""
        troubles = self.troubles
        return not troubles.calm and troubles.repeated > 0 and self.rng.random() < troubles.repeated

    # -- requests

    def begin(self, tenants: list[Tenant]) -> None:
        self.ask("create", "/api/v1/namespaces", manifests.namespace(LEASE[0]))
        self._hear(core_path(None, "configmaps"), Tenant.ledger_changed)
        self._hear(core_path(None, "pods"), Tenant.pod_changed)
        self._hear(groups_path(None), Tenant.group_changed)
        self.later(0.5, ReadinessCheck(self).look)
        for tenant in tenants:
            self.tenants[tenant.namespace] = tenant
            tenant.begin()

    def _hear(self, path: str, hear: Callable[[Tenant, str, Mapping[str, Any]], None]) -> None:
        def told(event: Mapping[str, Any]) -> None:
            tenant = self.tenants.get(event["object"]["metadata"]["namespace"])
            if tenant is not None:
                self.guarded(hear, tenant, event["type"], event["object"])

        self.server.watch(path, {"resourceVersion": "0"}, told, lambda: None)

    def ask(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Make a request at once, as an administrator. Returns Refused if it fails."""
        try:
            return self.server.request(verb, path, None, body)
        except Refused as refused:
            return refused

    def send(self, verb: str, path: str, body: Mapping[str, Any] | None, hear: Callable[[Any], None]) -> None:
        """Send a client's request with latency and faults. `hear` gets the answer, Refused, or None without an answer."""
        fault = self.troubles.of_request(None, verb, path)

        def arrive() -> None:
            if fault is None or type(fault) is LoseAnswer:
                answer = self.ask(verb, path, body)
            elif type(fault) is Refuse:
                answer = Refused(fault.status, fault.reason, fault.message)
            else:
                answer = None
            if type(fault) is LoseAnswer:
                answer = None
            self.later(self.latency(0.005), hear, answer)

        self.later(self.latency(0.005), arrive)

    def queue(self, namespace: str, name: str) -> Queue:
        return self.tenants[namespace].servers[name]

    # -- operators

    @property
    def living(self) -> list[Operator]:
        return [one for one in self.operators if not one.dead]

    @property
    def leader(self) -> Operator | None:
        return next((one for one in self.operators if one.leading), None)

    def replace(self, operator: Operator, seconds: float) -> None:
        """Start the operator's container again after some seconds, or another pod in its place."""
        self.later(seconds, self.new_operator, self.rng.choice((None, operator.identity)))

    def new_operator(self, identity: str | None = None) -> Operator:
        skew = self.rng.choice(self.skews)
        one = Operator(self, identity or f"operator-{len(self.operators) + 1}", skew)
        self.operators.append(one)
        self.say(f"{one} starts")
        one.start()
        return one

    def _computed(self, operator: Operator, arguments: tuple[Any, ...], result: Any) -> float:
        """Check a step of the engine that a replica ran on a thread. Returns the seconds that the work takes."""
        if isinstance(result, Fitted):
            _, before, shown, now, limit = arguments
            tenant = self.tenants[before.group.partition("/")[0]]
            if before.group == str(tenant):
                self.guarded(tenant.checks.stepped, operator, before, shown, now, limit, result)
        return 0.0 if self.troubles.calm else self.rng.random() * self.troubles.thinking

    # -- violations

    def guarded(self, do: Callable[..., object], *arguments: Any) -> None:
        """Call `do`. A violation ends the seed instead of raising in the caller."""
        try:
            do(*arguments)
        except Exception as error:
            self.violated(repr(error), error)

    def violated(self, what: str, error: BaseException | None = None) -> None:
        if self.violation is None and not self.ending:
            self.violation = error if isinstance(error, InvariantError) else InvariantError(what)
            self.violation.__cause__ = None if self.violation is error else error
            self.loop.stop()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.violated(f"{context.get('message')}: {error!r}", error)

    def end(self) -> None:
        """End all operators and tasks."""
        self.ending = True
        for operator in self.operators:
            operator.dead = True
            self.loop.resume(operator)
        while tasks := sorted(asyncio.all_tasks(self.loop), key=lambda task: task.get_name()):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()
