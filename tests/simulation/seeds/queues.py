"""A queue as its server sees it: for each partition a log, the owner record, and the progress.

Only the recorded (uid, epoch) may read and acknowledge; on a queue that cannot fence, everybody may. Messages are numbered; a
partition gets `RATE` of them a second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.seeds.invariant import InvariantError

UP, DOWN, HANGS, FULL = "up", "down", "hangs", "full"
"""The state of the server: it answers, refuses connections, never answers, or refuses the operator's writes."""

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
    """The owner before the last grant, which a server that lost its last writes still has."""
    next_owner: tuple[str, int] | None = None
    """UID and epoch of the next owner, if the owner hands the partition over itself; None: the operator grants it."""
    handed_over: bool = False
    """The previous owner granted the partition to this one."""
    released: bool = False
    """The owner has released the partition, and has no next owner."""
    forgot: int = 0
    """The highest epoch that a restart rolled back. Until a higher one is granted, the record cannot be trusted."""


@dataclass(slots=True)
class Queue:
    """One queue and its server. `now`: seconds."""

    name: str
    now: Callable[[], float]
    fenced: bool = True
    force: bool = False
    """onDeadline: Force."""
    direct: bool = False
    """As with Kafka: only the owner knows its outstanding entries, so it reports the release, or hands over itself."""
    state: str = UP
    grants_answered_after: float = 0.0
    """Seconds by which the answer to a grant is late."""
    partitions: int | None = None
    """None: the queue has not been created yet."""
    group: tuple[str, str] | None = None
    """The group that owns the queue, and its UID."""
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

    # -- requests of consumers

    def lets_in(self, number: int, uid: str, epoch: int) -> bool:
        log = self.log(number)
        return not self.fenced or (log.uid, log.epoch) == (uid, epoch)

    def read(self, number: int, uid: str, epoch: int, last: int | None) -> tuple[int, int] | str:
        """Return the range of messages from `last`, or from the committed offset; or why it is empty: "stale", "paused"."""
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
        """Acknowledge cumulatively. Checks that fencing alone ensures that no message is skipped or overtaken."""
        if not self.lets_in(number, uid, epoch):
            self.refused += 1
            return False
        log = self.log(number)
        self.accepted += 1
        if end <= log.committed:
            return True  # repeated after a lost answer
        if not self.fenced:
            log.committed = max(log.committed, end)  # without epochs; `Checks.accepted` checks that only one consumer works
            return True
        if start != log.committed:
            kind = "gap" if start > log.committed else "order"
            raise InvariantError(
                f"{kind}: {uid}@{epoch} acknowledges {start}-{end} of {self.name}/{number} after {log.committed}"
            )
        log.committed = end
        return True

    def release_partition(self, number: int, uid: str, epoch: int) -> tuple[str, int] | None:
        """Release by an owner without outstanding entries. Returns the UID and epoch of the next owner, if it hands over."""
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

    # -- requests of the operator

    def claim(self, group: str, uid: str, takes_over: frozenset[str], partitions: int) -> tuple[str, str]:
        """Create the queue, or change the number of its partitions. Returns the group that owns it, and its UID."""
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

    # -- faults

    def restart(self, forgets: set[int]) -> None:
        """Restart the server, which loses the last grant of some partitions."""
        self.restarts += 1
        for number in forgets & self.logs.keys():
            log = self.logs[number]
            if log.epoch:
                log.forgot = max(log.forgot, log.epoch)
                log.uid, log.epoch = log.before
                log.paused, log.delivered = False, log.committed
                log.next_owner, log.handed_over, log.released = None, False, log.uid is None
