"""A queue as its server sees it: a log per partition, who may act on it, and what came of that.

Only the recorded (uid, epoch) may read and acknowledge; on a queue that cannot fence, everybody may. Messages are numbered; a
partition gets `RATE` of them a second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.seeds.invariant import InvariantError

UP, DOWN, HANGS, FULL = "up", "down", "hangs", "full"
"""How the server is: it answers, refuses connections, never answers, or carries out no write of the operator's."""

RATE = 2.0
BATCH = 6


@dataclass(slots=True)
class Log:
    """One partition."""

    uid: str | None = None
    epoch: int = 0
    paused: bool = False
    committed: int = 0
    delivered: int = 0
    born: float = 0.0
    before: tuple[str | None, int] = (None, 0)
    """The owner before the last grant: what a server that lost its last writes remembers."""
    next_owner: tuple[str, int] | None = None
    """The UID and epoch that the owner hands it over to when it lets go; None: the operator grants it."""
    handed_over: bool = False
    """The owner before made this one the owner."""
    released: bool = False
    """The owner has let go, and nobody was to have it next."""
    forgot: int = 0
    """The highest epoch that a restart rolled back; until a higher one is granted the record is not to be trusted."""


@dataclass(slots=True)
class Queue:
    """One queue and its server. `now`: seconds."""

    name: str
    now: Callable[[], float]
    fenced: bool = True
    force: bool = False
    """onDeadline: Force."""
    direct: bool = False
    """As Kafka's topics: only the owner knows what it has in hand, so it says when it lets go, or hands over by itself."""
    state: str = UP
    grants_answered_after: float = 0.0
    """Seconds by which the answer to a grant is late."""
    partitions: int | None = None
    """None: it has not been made yet."""
    group: tuple[str, str] | None = None
    """The group that has it, and its UID."""
    restarts: int = 0
    logs: dict[int, Log] = field(default_factory=dict)
    refused: int = 0
    accepted: int = 0
    produce_until: float = float("inf")

    def log(self, number: int) -> Log:
        found = self.logs.get(number)
        if found is None:
            found = self.logs[number] = Log(born=self.now())
        return found

    def appended(self, log: Log) -> int:
        return int(max(0.0, min(self.now(), self.produce_until) - log.born) * RATE)

    # -- what consumers ask

    def lets_in(self, number: int, uid: str, epoch: int) -> bool:
        log = self.log(number)
        return not self.fenced or (log.uid, log.epoch) == (uid, epoch)

    def read(self, number: int, uid: str, epoch: int, last: int | None) -> tuple[int, int] | str:
        """The messages from `last` on, or after what is committed; or why not: "stale", "paused"."""
        if not self.lets_in(number, uid, epoch):
            self.refused += 1
            return "stale"
        log = self.log(number)
        if log.paused and self.fenced:
            return "paused"
        start = log.committed if last is None else max(last, log.committed)
        end = min(start + BATCH, self.appended(log))
        log.delivered = max(log.delivered, end)
        self.accepted += 1
        return start, end

    def acknowledge(self, number: int, uid: str, epoch: int, start: int, end: int) -> bool:
        """Cumulative. Checks that nothing is skipped and nothing overtaken, which the fence alone has to ensure."""
        if not self.lets_in(number, uid, epoch):
            self.refused += 1
            return False
        log = self.log(number)
        self.accepted += 1
        if end <= log.committed:
            return True  # again, after a lost answer
        if not self.fenced:
            log.committed = max(log.committed, end)  # it knows nothing of epochs; `Checks.accepted` sees whether two are at it
            return True
        if start != log.committed:
            kind = "gap" if start > log.committed else "order"
            raise InvariantError(
                f"{kind}: {uid}@{epoch} acknowledges {start}-{end} of {self.name}/{number} after {log.committed}"
            )
        log.committed = end
        return True

    def lets_go(self, number: int, uid: str, epoch: int) -> tuple[str, int] | None:
        """An owner that has nothing in hand. Returns the one that it has made the owner, and the epoch."""
        log = self.log(number)
        receiver = log.next_owner
        if not self.direct or not self.lets_in(number, uid, epoch):
            return None
        if receiver is None:
            log.released = True
        else:
            self._has(log, *receiver)
            log.handed_over = True
        return receiver

    # -- what the operator asks

    def claim(self, group: str, uid: str, takes_over: frozenset[str], partitions: int) -> tuple[str, str]:
        """Make the queue, or change the number of its partitions. Returns whose it is."""
        if self.group is None or self.group[1] in takes_over:
            self.group = (group, uid)
        if self.group[1] == uid:
            self.partitions = partitions
        return self.group

    def release(self, uid: str) -> None:
        if self.group is not None and self.group[1] == uid:
            self.group = None

    def pause(self, number: int, epoch: int, then: tuple[str, int] | None) -> int:
        log = self.log(number)
        if log.epoch != epoch:
            return 0
        log.paused, log.next_owner = True, then
        return self.outstanding(number)

    def outstanding(self, number: int) -> int:
        log = self.log(number)
        return int(not log.released) if self.direct else log.delivered - log.committed

    def grant(self, number: int, uid: str | None, epoch: int) -> tuple[str | None, int]:
        log = self.log(number)
        if epoch > log.epoch:
            self._has(log, uid, epoch)
        return log.uid, log.epoch

    def _has(self, log: Log, uid: str | None, epoch: int) -> None:
        log.before = (log.uid, log.epoch)
        log.uid, log.epoch, log.paused, log.delivered = uid, epoch, False, log.committed
        log.next_owner, log.handed_over, log.released = None, False, uid is None
        if epoch > log.forgot:
            log.forgot = 0

    # -- what befalls it

    def restart(self, forgets: set[int]) -> None:
        """The server comes back; of some partitions it has lost the last grant."""
        self.restarts += 1
        for number in forgets & self.logs.keys():
            log = self.logs[number]
            if log.epoch:
                log.forgot = max(log.forgot, log.epoch)
                log.uid, log.epoch = log.before
                log.paused, log.delivered = False, log.committed
                log.next_owner, log.handed_over, log.released = None, False, log.uid is None
