"""How many moves a rebalance took, against the least possible.

A plan takes the fewest moves from who owns what when it is made. If in mid-rebalance members come or go, or a queue changes, what
was granted or is under way by then may have been in vain and have to be undone: after g such grants, 2 g moves may be too many.
A rebalance during which nothing changes takes the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from baton.engine import Step
from baton.engine.results import Granted
from baton.model.ids import Partition
from tests.simulation.seeds.invariant import InvariantError

if TYPE_CHECKING:
    from tests.simulation.seeds.tenant import Tenant


class Moves:
    """One group's."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._last: dict[Partition, str] = {}
        self._instances: dict[str, str | None] = {}
        self._origins: dict[Partition, str | None] | None = None
        self._aims: Mapping[Partition, str | None] = {}
        self._facts: object = None
        self._lower = self._here = self._spent = self._grants = 0
        self.fewest = tenant.spec["assignors"] == ["solace"]
        self.least = self.most = 0
        """Without and with those between two names of one identity; which they are is known for as long as its slot is kept."""
        self.lost = False

    def joined(self, name: str, instance: str | None) -> None:
        self._instances[name] = instance

    def ledger_lost(self) -> None:
        self._origins, self._aims = None, {}
        self._lower = self._here = self._spent = self._grants = 0
        self.lost = True

    def written(self, made: Step) -> None:
        """Raises InvariantError."""
        running = None if made.state.rebalance is None else made.state.rebalance.origins
        reads = {member: known.subscribed for member, known in made.state.known.items()}
        facts = (made.state.queues, reads, {(slot.member, slot.uid, slot.vacated is None) for slot in made.state.member_slots})
        if self._facts is not None and facts != self._facts and (self._origins, running) != (None, None):
            self._spent = self._grants + len(self._aims)  # also where the change ends the rebalance: a queue is deleted
        self._facts = facts
        for event in made.events:
            if isinstance(event, Granted):
                self._grants += 1
                before, owner = self._last.get(event.partition), event.member
                if event.previous is not None and before is not None and before != owner:
                    self.most += 1
                    if not self._related(before, owner):
                        self.least += 1
                        self._here += 1
                self._last[event.partition] = owner
        lower = made.state.totals.lower_bound
        if self._origins is not None and (running is None or self._another(self._origins, running)):
            least = lower - self._lower
            if self._here > least + 2 * self._spent and self.fewest and not self.lost:
                raise InvariantError(
                    f"{self._here} moves, {self._spent} begun before the last change; the least possible is {least}"
                )
            self._lower, self._here, self._spent, self._grants, self._aims = lower, 0, 0, 0, {}
        self._origins = None if running is None else dict(running)
        for partition in self._last.keys() - made.state.records.keys():
            del self._last[partition]  # it was withdrawn; who gets it when it comes back takes it from nobody
        for partition, record in made.state.records.items():
            if record.last is not None:
                self._last.setdefault(partition, record.last)  # a queue that was made again may know its owners
        aims = {partition: move.receiver for partition, move in made.state.moves.items() if not move.quiet}
        aims |= made.state.waiting
        self._aims = aims

    def total(self, counted: int) -> None:
        """Against what the ledger has counted. Raises InvariantError."""
        if not self.lost and not self._tenant.session_timeout and not self.least <= counted <= self.most:
            raise InvariantError(f"{self.least} moves were seen, and {counted} counted")

    def _another(self, before: Mapping[Partition, str | None], now: Mapping[Partition, str | None]) -> bool:
        """A rebalance has its origins from its start; only partitions that are withdrawn leave it, and members change names."""
        both = [(before[partition], now[partition]) for partition in before.keys() & now.keys()]
        return not both or any(one != other and not (one and other and self._related(one, other)) for one, other in both)

    def _related(self, one: str, other: str) -> bool:
        instance = self._instances.get(one)
        return self._tenant.session_timeout > 0 and instance is not None and instance == self._instances.get(other)
