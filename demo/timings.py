"""How long things took, seen from outside: from pictures of the fleet and their times, not from the operator's own metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from demo.picture import Picture


@dataclass(slots=True)
class Timings:
    """Collects from successive pictures; times are seconds on any one clock.

    - `ready_to_ledger`: a pod serves (Ready, and its driver knows it) -> the ledger has a key for it.
    - `ledger_to_executor`: a key of the ledger changed -> the pod's mounted file says the same.
    - `pauses`: a partition is taken back in the ledger -> the ledger names its next owner. Its owner may still finish what it has
      read in that time; nobody reads anything new.
    - `orphaned`: a partition's owner died, or vanished from the ledger without a hand-off -> the ledger names the next one.
    """

    ready_to_ledger: list[float] = field(default_factory=list)
    ledger_to_executor: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    orphaned: list[float] = field(default_factory=list)
    moves: int = 0
    """Grants to another pod than the last owner, counted from the ledger as the watch saw it."""
    _ready: dict[str, float] = field(default_factory=dict)
    _listed: dict[str, float] = field(default_factory=dict)
    _written: dict[tuple[str, str], float] = field(default_factory=dict)
    _revoked: dict[int, float] = field(default_factory=dict)
    _owner: dict[int, str] = field(default_factory=dict)
    _alone: dict[int, float] = field(default_factory=dict)

    def see(self, picture: Picture, at: float) -> None:
        for member in picture.members:
            if member.serving:
                self._first(self._ready, self._listed, member.uid, at)
            if member.listed:
                self._first(self._listed, self._ready, member.uid, at)
            if member.key:
                self._written.setdefault((member.uid, member.key), at)
        self._follow_partitions(picture, at)

    def mounted(self, uid: str, key: str, at: float) -> None:
        """The file of this pod now reads `key`."""
        written = self._written.pop((uid, key), None)
        if written is not None:
            self.ledger_to_executor.append(max(0.0, at - written))

    def _first(self, mine: dict[str, float], other: dict[str, float], uid: str, at: float) -> None:
        """Two watches bring the two facts; whichever comes second closes the pair."""
        if uid not in mine:
            mine[uid] = at
            if uid in other:
                self.ready_to_ledger.append(max(0.0, self._listed[uid] - self._ready[uid]))

    def _follow_partitions(self, picture: Picture, at: float) -> None:
        owners = {number: member for number, member in picture.owners.items() if member.phase not in ("failed", "gone")}
        revoking = {number for member in picture.members for number in member.revoking}
        for number in revoking - owners.keys():
            self._revoked.setdefault(number, at)
        for number in self._owner.keys() - owners.keys() - self._revoked.keys():
            self._alone.setdefault(number, at)
        for number, member in owners.items():
            for since, found in ((self._revoked, self.pauses), (self._alone, self.orphaned)):
                if number in since:
                    found.append(at - since.pop(number))
            last = self._owner.get(number)
            self.moves += last is not None and last != member.uid
            self._owner[number] = member.uid


def milliseconds(durations: Sequence[float]) -> tuple[int, int]:
    """Median and maximum in whole milliseconds; zeros where there is nothing."""
    if not durations:
        return 0, 0
    return round(median(durations) * 1000), round(max(durations) * 1000)
