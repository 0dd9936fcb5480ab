"""Runs one group's state machine: take a step, write the ledger, and only then start the effects.

Clock, ledger and queues are arguments: the operator, the simulations and `baton plan --explain --group` run the same code.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from baton.assignors import BUILT_IN
from baton.controller.large_work import GroupWork
from baton.engine import Effect, GroupState, Step
from baton.engine.observation import Observation, Outcome
from baton.engine.state import IN_DOUBT, in_doubt
from baton.engine.step import SIZE_LIMIT, Fitted, TooLarge, fitting_step
from baton.kube.errors import UnavailableError
from baton.model.ids import Epoch, Partition


class Clock(Protocol):
    """The source of time."""

    def now(self) -> float:
        """Unix seconds that never run backwards."""


class WritesLedger(Protocol):
    """The writer of the ledger."""

    async def write(self, data: Mapping[str, str]) -> object:
        """Write the ledger. If this raises UnavailableError, the ledger may have been written; after other errors it was not."""


class Queues(Protocol):
    """The queues at which effects are carried out."""

    @property
    def drained(self) -> frozenset[tuple[Partition, Epoch]]:
        """See `Observation.drained`."""

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """See `Observation.outcomes`: those not yet passed to `want` as `told`."""

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """Carry out exactly these effects. `told`: outcomes that the written state of the engine includes."""


class GroupRuntime:
    """One group between its clock, its ledger and its queues."""

    def __init__(self, state: GroupState, clock: Clock, ledger: WritesLedger, queues: Queues, work: GroupWork) -> None:
        self.state = state
        """The state that the ledger has."""
        self.wake_at: float | None = None
        """When the next step is due (unix seconds) unless something is observed earlier; None: only after an observation."""
        self.held_back: TooLarge | None = None
        """Why the last step postponed decisions; None: it postponed none."""
        self._unanswered: tuple[Step, Mapping[str, str]] | None = None
        """A step whose write had no answer, and its ledger."""
        self._clock = clock
        self._ledger = ledger
        self._queues = queues
        self._work = work

    async def advance(self, facts: Observation, limit: int = SIZE_LIMIT) -> Step:
        """Take one step. `facts`: the observation without the queues' answers, which are added here. `limit`: most bytes of the
        ledger of a plan; hand-offs in progress may take a little more.

        Raises TooLarge, Stuck if the step takes too long, and what writing the ledger raises. The state is then unchanged, and no
        effects are started. After UnavailableError the ledger may have the step: call `settle` before the next one.
        """
        self._unanswered = None
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
            try:
                await self._ledger.write(texts)
            except UnavailableError:
                self._unanswered = made, texts
                raise
        self.state, self.wake_at = made.state, made.wake_at
        self._queues.want(made.effects, told)
        await asyncio.sleep(0)  # give other tasks a turn: a large group has many effects and events
        return made

    def settle(self, written: Mapping[str, str] | None) -> Step | None:
        """Continue from the step whose write had no answer, as after a restart, if the ledger has it, and otherwise forget it.
        `written`: what the ledger has. Returns the step; None if the ledger has none.
        """
        unanswered, self._unanswered = self._unanswered, None
        if unanswered is None or unanswered[1] != written:
            return None
        state = unanswered[0].state
        for queue, known in self.state.queues.items():
            if known.incarnation == IN_DOUBT and queue in state.queues:  # perhaps doubted since that step
                state = in_doubt(state, queue)
        self.state, self.wake_at = state, None
        return unanswered[0]

    def forget(self) -> None:
        """Free the group's state: references to this object may last for a while."""
        self.state, self._unanswered = GroupState(self.state.group), None


def _decide(state: GroupState, shown: Observation, now: float, limit: int) -> Fitted:
    """Take the step. May run on another thread: it shares no mutable state."""
    try:
        return fitting_step(state, shown, now, limit)
    except KeyboardInterrupt as error:  # raised by the assignor itself; it would end the operator
        raise RuntimeError("an assignor raised KeyboardInterrupt") from error


def _asks_installed(state: GroupState, shown: Observation) -> bool:
    """Whether the step may call an installed assignor: one named by the spec, or used by the last plan."""
    recorded = () if state.facts is None else (state.facts.assignor,)
    return not {*shown.spec.assignors, *recorded, shown.spec.options.get("within")} <= {*BUILT_IN, None}
