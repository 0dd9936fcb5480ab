"""One partition of a queue, as its server keeps it for a Spark query beside a pod that reads singly.

It answers as the scripts of `baton.queues.redis` do: `tests/integration/redis/test_ranges_as_modelled.py` asks both. Entries are
their numbers.
"""

from dataclasses import dataclass, field, replace

Answer = tuple[int | str, ...]

MOST_LOANS = 32


@dataclass(slots=True)
class Partition:
    """The state of a partition. Fields are named as in PROGRESS and in the owner record."""

    last: int = 0
    committed: int = 0
    done: int = 0
    seen: int = 0
    finished: int = 0
    entries: tuple[int, ...] = ()
    query: int = 0
    logged: int | None = None
    planned: int = 0
    log_seen: int = 0
    count: int = 0
    loans: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """Attempt, executor and order of the start, by evaluation."""
    voided: tuple[int, int] | None = None
    spoiled: bool = False
    aside: tuple[int, int] | None = None
    dead: tuple[int, ...] = ()
    """The dead letters."""
    uid: str = ""
    epoch: int = 0
    paused: bool = False
    pending: frozenset[int] = frozenset()
    delivered: int = 0
    served: int | None = None
    left: int = 0
    waiting: int = 0
    gap: int = 1000
    """How far numbers jump in a new history. At a real server: 1e9 and the time."""
    history: int = 0
    known_history: int = 0

    def copy(self) -> "Partition":
        """Return a copy."""
        return replace(self, loans=dict(self.loans))

    # -- producers, the operator, and a pod that reads singly

    def add(self) -> int:
        """Add an entry, and return its number."""
        self._look()
        self.last += 1
        self.entries += (self.last,)
        return self.last

    def grant(self, uid: str, epoch: int) -> None:
        if epoch <= self.epoch:
            return
        self.uid, self.epoch, self.paused = uid, epoch, False
        self.served, self.left, self.waiting = (0, max(self.pending), len(self.pending)) if self.pending else (None, 0, 0)

    def pause(self, epoch: int) -> int:
        """Unfinished entries."""
        if epoch != self.epoch:
            return 0
        self.paused = True
        return self._outstanding()

    def read(self, uid: str, epoch: int, count: int) -> Answer:
        """Read like a process that starts: pending entries first. Voids a logged range."""
        if not self._owned(uid, epoch):
            return ("STALE",)
        self._look()
        wanted, closed = count, self.served is not None and self.paused
        if closed:  # of what a former owner left it has had this much
            wanted = min(count, sum(n <= (self.served or 0) for n in self.pending))
        again = sorted(self.pending)[:wanted]
        exhausted = len(again) < wanted
        if self.served is not None:
            came = sum(self.served < n <= self.left for n in again)
            self.served = max([self.served, *(min(n, self.left) for n in again)])
            self.waiting -= came
            if not self.paused and (exhausted or self.served >= self.left):
                self.served, self.left, self.waiting = None, 0, 0
        if self.paused and not again:
            return ("PAUSED",)
        self._void()
        new: list[int] = []
        if exhausted and not self.paused:
            new = self._between(max(self.delivered, 0), self.last)[: count - len(again)]
            self.pending |= frozenset(new)
            self.delivered = max([self.delivered, *new])
        return ("OK", *again, *new)

    def ack(self, uid: str, epoch: int, number: int) -> Answer:
        """Finish an entry. Returns the number of finished entries, and the unfinished ones."""
        if not self._owned(uid, epoch):
            return ("STALE",)
        waits = self.served is not None and self.served < number <= self.left
        if number <= self.committed or waits:
            return ("OK", 0, self._outstanding())
        if number not in self.pending:
            return ("OK", 0, self._outstanding())
        within = self.voided if self.logged is None else (self.logged, self.planned)
        if within is not None and within[0] < number <= within[1]:
            self._void()
            self.spoiled = True
        self.pending -= {number}
        self.done += 1
        self.entries = tuple(n for n in self.entries if n != number)
        return ("OK", 1, self._outstanding())

    def drained(self) -> bool:
        """Whether all added entries are done."""
        self._look()
        return not self._between(self.committed, self.last) and not self.pending

    # -- a Spark query

    def fence(self, query: int) -> Answer:
        """Begin a query."""
        return self._refused(query) or ("OK",)

    def bounds(self) -> Answer:
        """The finished position, the first and the last entry. Does not depend on the caller."""
        there = self._between(self.committed, self.last)
        return ("OK", self.committed, there[0] if there else self.committed + 1, there[-1] if there else self.committed)

    def ahead(self, query: int, uid: str, epoch: int, start: int, most: int) -> Answer:
        """How far a range may go: its end, the last entry, the first entry."""
        if refused := self._refused(query):
            return refused
        if not self._owned(uid, epoch):
            return ("STALE",)
        if self.paused:
            return ("PAUSED",)
        self._look()
        if start < self.finished or start > self.last:
            return self._gone(start, self.last)
        self.voided, self.spoiled = None, False
        whole = self.done == self.committed
        there = self._between(max(start, self.committed) if whole else start, self.last)
        if not there:
            return ("OK", start, start, max(start, self.committed) + 1 if whole else start + 1)
        within = self._between(start, min(there[-1], there[0] - 1 + most))
        return ("OK", within[-1], there[-1], there[0])

    def log(self, query: int, start: int, end: int, partly: int = 0) -> Answer:
        """Log a range. Returns what may have been handed out before. `partly`: 1 to accept a range with lost entries."""
        if refused := self._refused(query):
            return refused
        missing = self._log(start, end, partly == 1)
        if missing == ("ASIDE",):
            self._move_aside()
        return missing or ("OK", self.log_seen)

    def set_aside(self, query: int, start: int, end: int) -> Answer:
        """Always OK and never MORE, because there is never much to move."""
        if refused := self._refused(query):
            return refused
        if self._log(start, end) not in (None, ("ASIDE",)):
            return ("UNLOGGED",)
        self.aside = (start, end)
        self._move_aside()
        return ("OK",)

    def reading(
        self, query: int, uid: str, epoch: int, start: int, end: int, evaluation: str, attempt: int, executor: str
    ) -> Answer:
        """Whether a task may read a page of a range now."""
        if refused := self._refused(query):
            return refused
        readable = (self.logged, self.planned) == (start, end)
        if not readable and self.voided != (start, end):
            readable = self._log(start, end) is None
        if not readable:
            return ("UNLOGGED",)
        owner = self._owned(uid, epoch)
        known = self.loans.get(evaluation)
        if known and (attempt, executor) != known[:2] and attempt <= known[0]:
            return ("LENT", str(known[0]), known[1])
        if known is None or attempt > known[0]:
            if known is None and len(self.loans) >= MOST_LOANS:
                del self.loans[min(self.loans, key=lambda name: self.loans[name][2])]
            nth = known[2] if known else max((loan[2] for loan in self.loans.values()), default=0) + 1
            self.loans[evaluation] = (attempt, executor, nth)
        return ("OK", "owner" if owner else "lent")

    def page(self, after: int, end: int, count: int) -> list[int]:
        """The plain XRANGE that precedes `reading`."""
        return self._between(after, end)[:count]

    def finish(self, query: int, end: int) -> Answer:
        """Always OK and never MORE, because there is never much to remove."""
        if refused := self._refused(query):
            return refused
        self._look()
        if end > self.last or (self.logged is not None and self.logged < end < self.planned):
            return ("UNLOGGED",)
        if end > self.finished:
            self._finish(end)
        return ("OK",)

    # -- what the scripts share

    def _look(self) -> None:
        if self.known_history == self.history:
            return
        self.known_history, self.seen = self.history, self.last
        nothing_left = not self._between(self.committed, self.last)
        left = 0 if nothing_left else self.last - self.done
        self.last += self.gap
        self.done = self.last - left
        if nothing_left:
            self.committed = self.last

    def _owned(self, uid: str, epoch: int) -> bool:
        return uid != "" and (uid, epoch) == (self.uid, self.epoch)

    def _refused(self, query: int) -> Answer | None:
        if query < self.query:
            return ("QUERY", self.query)
        if query > self.query:
            self.query = query
            self.loans = {}
            if self.logged is not None:
                self.log_seen = self.planned
        return None

    def _between(self, start: int, end: int) -> list[int]:
        return [n for n in self.entries if start < n <= end]

    def _void(self) -> None:
        if self.logged is not None:
            self.seen = max(self.seen, self.planned)
            self.voided, self.spoiled = (self.logged, self.planned), False
            self._forget()

    def _forget(self) -> None:
        self.logged, self.planned, self.log_seen, self.count, self.loans = None, 0, 0, 0, {}

    def _gone(self, start: int, end: int) -> Answer:
        start = 0 if start > self.last else start  # of a queue that was lost, and made again
        start = max(start, self.finished, 0 if start else self.committed)
        there = self._between(start, end)
        return ("GONE", there[0], there[-1]) if there else ("GONE", start + 1, start)

    def _log(self, start: int, end: int, partly: bool = False) -> Answer | None:
        self._look()
        if (self.logged, self.planned) == (start, end):
            return None
        if self.aside == (start, end):
            return ("ASIDE",)
        spoiled = self.spoiled and self.voided == (start, end) and not partly
        whole = self.done == self.committed and start >= self.committed
        missing = end > start and end not in self.entries
        if start < self.finished or end > self.last or spoiled or missing:
            return self._gone(start, end)
        self._void()
        seen = self.seen
        if start > self.finished:
            self._finish(start)
        if end == start:
            return None
        seen = max([seen, *self.pending])
        there = self._between(start, end)
        first = start + 1 if whole else there[0] if there else end
        self._forget()
        self.logged, self.planned, self.log_seen, self.seen = start, end, seen, seen
        self.count = min(end - first + 1, len(self.entries))
        self.voided, self.spoiled = None, False
        return None

    def _move_aside(self) -> None:
        self._look()
        assert self.aside is not None
        start, end = self.aside
        if self.finished < end:
            self.dead += tuple(self._between(max(start, self.finished), end))
            self._finish(end)

    def _finish(self, end: int) -> None:
        self.finished = end
        self._forget()
        self.voided, self.spoiled = None, False
        if end <= self.committed:
            self.entries = tuple(n for n in self.entries if n > self.committed)
            return
        if not self.pending or max(self.pending) <= end:
            self.delivered = end
        if self.served is not None:
            self.waiting -= sum(self.served < n <= min(end, self.left) for n in self.pending)
            if self.left <= end:
                self.served, self.left, self.waiting = None, 0, 0
        self.pending = frozenset(n for n in self.pending if n > end)
        if self.done != self.committed:
            self.done += len(self._between(self.committed, end))
        else:
            self.done = end
        if end >= self.last:
            self.done = end
        self.entries = tuple(n for n in self.entries if n > end)
        self.committed = end

    def _outstanding(self) -> int:
        return max(len(self.pending) - self.waiting, self.count)
