"""One group's state machine at work: a step, then the ledger, and only then the effects.

The clock, the ledger and the queues come in as arguments. The operator, the simulations and `baton plan --explain --group` run
the same code, and differ in what stands behind the arguments.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from baton.assignors import BUILT_IN
from baton.controller.large_work import GroupWork, aside
from baton.engine import Effect, GroupState, Step, load
from baton.engine.observation import Observation, Outcome
from baton.engine.state import IN_DOUBT, in_doubt
from baton.engine.step import SIZE_LIMIT, Fitted, TooLarge, fitting_step
from baton.model.ids import Epoch, Partition


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Unix seconds that never run backwards."""


class WritesLedger(Protocol):
    """Where the state is written."""

    async def write(self, data: Mapping[str, str]) -> object:
        """Returns when the ledger says so. What it raises ends the step: nothing of it is done."""


class Queues(Protocol):
    """Where effects are carried out."""

    @property
    def drained(self) -> frozenset[tuple[Partition, Epoch]]:
        """See `Observation.drained`."""

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """See `Observation.outcomes`: all that were not yet `told` to `want`."""

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """Carry out all of `effects`, and nothing else. `told`: outcomes that the engine has taken into its (written) state."""


class GroupRuntime:
    """One group between its clock, its ledger and its queues."""

    def __init__(self, state: GroupState, clock: Clock, ledger: WritesLedger, queues: Queues, work: GroupWork) -> None:
        self.state = state
        """As it stands in the ledger."""
        self.wake_at: float | None = None
        """When the next step is due (unix seconds) if nothing is observed before; None: only an observation changes anything."""
        self.held_back: TooLarge | None = None
        """Why the last step left decisions for later; None: it left none."""
        self._clock = clock
        self._ledger = ledger
        self._queues = queues
        self._work = work

    async def advance(self, facts: Observation, limit: int = SIZE_LIMIT) -> Step:
        """One step. `facts` is what was observed but for the queues' answers, which are added here. `limit`: bytes of a ledger
        that a plan may lead to; what is in flight may take a little more.

        Raises what the ledger raises, TooLarge, and Stuck where the step takes too long; then the state is as before, and nothing
        is carried out.
        """
        told = self._queues.outcomes
        shown = replace(facts, drained=self._queues.drained, outcomes=told)
        try:
            partitions = max(len(self.state.records), sum(one.partitions for one in shown.queues.values()))
            much = partitions + len(shown.members)
            installed = _asks_installed(self.state, shown)
            fitted = await self._work.do(much, _decide, self.state, shown, self._clock.now(), limit, installed=installed)
            made, texts, self.held_back = fitted.step, fitted.texts, fitted.too_large
        except TooLarge as error:
            self.held_back = error
            raise
        if texts is not None:
            await self._ledger.write(texts)
        self.state, self.wake_at = made.state, made.wake_at
        self._queues.want(made.effects, told)
        await asyncio.sleep(0)  # in a large group there was much to want, and there will be much to tell
        return made

    async def adopt(self, data: Mapping[str, str]) -> None:
        """The ledger says so, although the answer to the write was lost: go on from it, as after a restart."""
        doubted = {queue for queue, known in self.state.queues.items() if known.incarnation == IN_DOUBT}
        state = await aside(len(self.state.records), load, data)
        for queue in state.queues.keys() & doubted:  # since that write
            state = in_doubt(state, queue)
        self.state, self.wake_at = state, None

    def forget(self) -> None:
        """Keep nothing of the group: what refers to this one may be around for a while."""
        self.state = GroupState.new(self.state.group)


def _decide(state: GroupState, shown: Observation, now: float, limit: int) -> Fitted:
    """Also for another thread: nothing of it is shared."""
    try:
        return fitting_step(state, shown, now, limit)
    except KeyboardInterrupt as error:  # no key was pressed on this thread; it would end the operator
        raise RuntimeError("an assignor raised KeyboardInterrupt") from error


def _asks_installed(state: GroupState, shown: Observation) -> bool:
    """Whether the step may call an installed assignor: one that the spec names, or that the last plan used."""
    recorded = () if state.facts is None else (state.facts.assignor,)
    return not {*shown.spec.assignors, *recorded, shown.spec.options.get("within")} <= {*BUILT_IN, None}
