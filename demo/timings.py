"""Durations measured from outside: from pictures of the fleet and their times, not from the operator's metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from demo.picture import Picture


@dataclass(slots=True)
class Timings:
    """Collects from successive pictures; times are seconds since 1970.

    - `ready_to_ledger`: a pod serves (it is Ready and its driver knows it) and its holddown is over -> the ledger has a key for
      it: the time on top of the configured delay.
    - `ledger_to_executor`: the ledger names the next owner of a partition -> this executor has its first row, after the batch
      that runs meanwhile.
    - `pauses`: a partition is revoked in the ledger -> the ledger names its next owner. The owner may finish what it has read.
    - `batches`: the user's function gets one of Spark's micro-batches -> it returns.
    - `orphaned`: a partition's owner died, or vanished from the ledger without a hand-off -> the ledger names the next one.
    """

    ready_to_ledger: list[float] = field(default_factory=list)
    ledger_to_executor: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    orphaned: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    moves: int = 0
    """Partitions granted to a pod other than their last owner, counted from the watched ledger."""
    _due: dict[str, float] = field(default_factory=dict)
    _listed: set[str] = field(default_factory=set)
    _granted: dict[tuple[int, int, str], float] = field(default_factory=dict)
    """The moves: partition, epoch and pod, and when the ledger had them."""
    _revoked: dict[int, float] = field(default_factory=dict)
    _owner: dict[int, str] = field(default_factory=dict)
    _alone: dict[int, float] = field(default_factory=dict)

    def see(self, picture: Picture, at: float) -> None:
        for member in picture.members:
            if member.listed and member.uid not in self._listed:
                self._listed.add(member.uid)
                self.ready_to_ledger.append(max(0.0, at - self._due.get(member.uid, at)))
            elif member.serving and not member.listed:
                held = picture.held_until or 0.0
                self._due[member.uid] = max(self._due.get(member.uid, at), held)
        self._follow_partitions(picture, at)

    def first_rows(self, seen: Mapping[tuple[int, int, str], float]) -> None:
        """When (seconds since 1970) a pod had its first row of a partition at an epoch."""
        self.ledger_to_executor = [max(0.0, seen[grant] - at) for grant, at in self._granted.items() if grant in seen]

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
            if last is not None and last != member.uid:
                self.moves += 1
                self._granted[number, member.owned[number], member.name] = at
            self._owner[number] = member.uid


def milliseconds(durations: Sequence[float]) -> tuple[int, int]:
    """The median and the maximum in whole milliseconds; zeros without values."""
    if not durations:
        return 0, 0
    return round(median(durations) * 1000), round(max(durations) * 1000)
