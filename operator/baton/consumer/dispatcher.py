"""Decides which entries and callbacks each waiting worker gets next."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf

from baton.consumer.callbacks import Call
from baton.consumer.entry import HeldEntry, shown_key
from baton.consumer.outcome import Outcome
from baton.consumer.partition import EntrySequence, HeldPartition, HeldPartitions, Phase, leftover_delay
from baton.consumer.queue_requests import SLICE_BYTES, QueueRequests
from baton.model.options import number, whole
from baton.queues.consumer_side import Reader

# Messages between the consumer's loop and its workers: requests for entries, deliveries, and outcomes.


Outcomes = Sequence[tuple[Sequence[HeldEntry], Outcome]]
"""Entries, and the outcome of all of them."""
Part = tuple[EntrySequence, Sequence[HeldEntry]]
"""Entries of one sequence, in order."""


@dataclass(slots=True, eq=False)
class Delivery:
    """Entries for one worker, to work on in this order."""

    parts: Sequence[Part]
    recalled: bool = False
    """Begin no other entry and give the rest back: a change of the ledger or a shutdown is pending."""
    held_up: bool = False
    """Begin no other entry and give the rest back: an entry before them must be retried first."""
    current: Sequence[HeldEntry] = ()
    """Entries the handler is working on."""
    current_since: float = 0.0
    """When that call of the handler began (monotonic)."""
    warnings: int = 0
    """Number of warnings about that call."""
    overdue: bool = False
    """Whether it was reported that this call takes longer than `handler_timeout`."""

    def exceed(self) -> bool:
        """Mark the handler's call as overdue. Returns True the first time for each call."""
        before, self.overdue = self.overdue, True
        return not before

    @property
    def entries(self) -> Sequence[HeldEntry]:
        return [entry for _, entries in self.parts for entry in entries]


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Limits of a batch."""

    entries: int = 500
    """Maximum number of entries."""
    bytes: float = inf
    """Maximum bytes of keys, values and headers. A batch has one entry at least, whatever its size."""
    wait: float = 0.2
    """Seconds that a batch which has an entry waits for more."""

    def __post_init__(self) -> None:
        """Raises ValueError or TypeError for an invalid limit."""
        whole("max_entries", self.entries, 1)
        number("max_bytes", self.bytes, 1)
        number("max_wait", self.wait, 0)


@dataclass(slots=True, eq=False)
class Want:
    """A worker's request for entries, or for a callback to run."""

    batch: BatchSize | None = None
    """None: a small part of the available entries."""
    answer: "Future[Delivery | Call | None]" = field(default_factory=Future)
    """None: the consumer has ended."""
    since: float | None = None
    """When the first entry became available for it (monotonic)."""


log = logging.getLogger(__name__)

_WARN_FROM = 2
"""A leftover is logged from this number of earlier deliveries on. One is normal: the pod's node may have been lost."""


class Leftovers:
    """Begins leftovers: entries that an earlier process was handed and did not finish, perhaps because one of them ended it.

    Partitions or keys that begin with a leftover begin after the others, one at a time, those with the fewest earlier deliveries
    first. One that takes long delays the next for at most as long as it waited itself. Leftovers of a partition that is being
    released do not wait. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, requests: QueueRequests) -> None:
        self._holdings = holdings
        self._requests = requests
        self._begun: tuple[EntrySequence, str, float] | None = None
        """The last leftover: its sequence, its offset, and until when the next one waits for it (monotonic)."""

    def begin(self, *, others: bool, shared: bool) -> EntrySequence | None:
        """Return the next sequence to begin, after its queue has counted the delivery; None if no leftover has its turn.
        `others`: other entries can begin or are being worked on, and go first for a while."""
        now = time.monotonic()
        last, offset, until = self._begun or (None, "", 0.0)
        waits = last is not None and not shared and offset in last.out and now < until
        for sequence in sorted(self._due(now, shared=shared), key=lambda one: (not one.holding.releasing, one.waiting[0].times)):
            if (waits and not sequence.holding.releasing) or (others and now < sequence.latest):
                return None
            if not sequence.waiting or now < self._requests.not_before(sequence.holding):
                continue  # another key of the partition has just found its queue unreachable
            entry = sequence.waiting[0]
            turn = now + leftover_delay(entry.times)
            _warn(sequence)
            if self._requests.begin_again(sequence, self._holdings.reader(sequence.holding)):
                self._begun = sequence, entry.offset, turn
                return sequence
        return None

    def _due(self, now: float, *, shared: bool) -> Iterator[EntrySequence]:
        for holding in self._holdings:
            if holding.left_over and holding.has_turns and now >= self._requests.not_before(holding):
                sequences = list(holding.sequences.values())
                yield from (one for one in sequences if one.left_over and now >= one.due and (shared or not one.busy))
                if not any(entry.times for one in sequences for entry in one.waiting):
                    holding.left_over = 0.0


def _warn(sequence: EntrySequence) -> None:
    """Log a leftover before it begins: it may end this process."""
    entry = sequence.waiting[0]
    if entry.times >= _WARN_FROM:
        log.warning(
            "%s/%d entry %s (key %s) was handed out %d times and never acknowledged: it begins now, after others. If it ends the "
            "process each time, maxRedeliveries makes it a dead letter",
            *sequence.holding.partition,
            *(entry.offset, shown_key(entry), entry.times),
        )


_MOST_BY_KEY = 1000
"""Maximum number of entries of a partition in hand with order="key"; of batches, only those behind slow and failed keys count."""
_LONGEST_TURN = 0.05
"""Seconds for which one turn asks a queue whether entries may begin: each retry takes a request. Other entries wait for the next
turn, so that finished entries are acknowledged in between."""


class Dispatcher:
    """Hands out entries and callbacks. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, requests: QueueRequests) -> None:
        self.workers = 1
        """Number of workers."""
        self.shared = False
        """Whether entries are handed out although earlier ones of their partition have not come back."""
        self.calls: deque[Call] = deque()
        """Callbacks that are due."""
        self.calling: Call | None = None
        """The running callback. Others wait until it has returned."""
        self.wants: deque[Want] = deque()
        """Requests of workers, oldest first."""
        self.out: set[Delivery] = set()
        """Deliveries that workers have."""
        self._holdings = holdings
        self._requests = requests
        self._leftovers = Leftovers(holdings, requests)
        self._was_alone = False
        """Whether the last batch was an entry alone: then the next one begins with others."""

    def serve(self, quiet: Callable[[], bool]) -> bool:
        """Hand out callbacks and entries to waiting workers, as long as the loop is `quiet`. Returns False if there was nothing
        to do."""
        while self.calls and self.wants and self.calling is None:
            call = self.calls.popleft()
            if not self._is_due(call):
                continue
            self.calling = call
            if self._answer(self.wants.popleft(), call):
                call.begun()
            else:
                self.put_back(call)
        if not self.wants:
            return False
        want = self.wants[0]
        if self._serve_leftovers(others=True):
            return True
        worked = self._serve_slices(quiet) if want.batch is None else self._serve_batch(want, want.batch, quiet)
        return worked or (bool(self.wants) and self._serve_leftovers(others=bool(self.out)))

    def _serve_leftovers(self, *, others: bool) -> bool:
        if not any(holding.left_over for holding in self._holdings):  # the usual case
            return False
        now = time.monotonic()
        others = others or any(
            any(one.ready(now, shared=self.shared)) or not (one.read_before or one.over) for one in self._holdings
        )
        sequence = self._leftovers.begin(others=others, shared=self.shared)
        if sequence is None:
            return False
        size = self.wants[0].batch
        most = 1 if size is None or sequence.waiting[0].alone else size.entries
        sequence.allow_leftovers(most)
        entries = sequence.hand_out(most, inf if size is None else size.bytes) or sequence.hand_out(1)
        if parts := _still_held([(sequence, entries)]):
            self._deliver(self.wants.popleft(), parts)
        return True

    def _is_due(self, call: Call) -> bool:
        """Return whether to call it still. Asks the queue before `on_revoked` begins: its partition may have been taken while the
        callback waited for a worker."""
        if call.time_left is not None:
            for holding in call.holdings:
                if holding.sure_at and not holding.over and time.monotonic() >= self._requests.not_before(holding):
                    self._requests.verify(holding, self._holdings.reader(holding))
        return call.is_due()

    def put_back(self, call: Call) -> None:
        """Put back a callback that did not run or did not return."""
        self.calling = None
        self.calls.appendleft(call)

    def forget(self, want: Want) -> None:
        """Drop a request that its worker has withdrawn."""
        if want in self.wants:
            self.wants.remove(want)

    @property
    def due(self) -> float:
        """When the first incomplete batch has waited for long enough (monotonic)."""
        return min((want.since + want.batch.wait for want in self.wants if want.batch and want.since), default=inf)

    def take_back(self, delivery: Delivery) -> None:
        """Put entries that were not begun back to the waiting ones."""
        self.out.discard(delivery)
        for sequence, entries in delivery.parts:
            sequence.at_work.discard(delivery)
            sequence.give_back(entries)

    def take_back_answer(self, answer: Delivery | Call | None) -> None:
        """Take back an answer whose request was withdrawn."""
        if isinstance(answer, Call):
            answer.begun(really=False)
            self.put_back(answer)
        elif answer is not None:
            self.take_back(answer)

    def recall(self) -> None:
        """Have workers begin no other entry of their deliveries."""
        for delivery in self.out:
            delivery.recalled = True

    def _turns(self) -> list[HeldPartition]:
        """Return the partitions that may be served, in order: those being released first, then those never served (latest grant
        first: they have just been paused), then those that have waited longest."""
        now = time.monotonic()
        turns = [holding for holding in self._holdings if holding.has_turns and now >= self._requests.not_before(holding)]
        turns.sort(key=lambda one: (one.phase is not Phase.RELEASING, one.served_at, -one.since))
        return turns

    def _having(self, turns: Iterable[HeldPartition]) -> Iterator[tuple[HeldPartition, Reader]]:
        """Yield partitions that have work, with their readers. Each is asked only when its turn comes: asking all of many
        partitions takes longer than reading from one. If one finds its queue unreachable, the others of that queue are
        skipped."""
        for holding in turns:
            if time.monotonic() >= self._requests.not_before(holding):
                reader = self._holdings.reader(holding)
                if self._requests.has_work(holding, reader):
                    yield holding, reader

    def _serve_slices(self, quiet: Callable[[], bool]) -> bool:
        """Give each partition a turn."""
        if self.workers == 1:
            return self._serve_together(quiet)
        worked = False
        for holding, reader in self._having(self._turns()):
            if not self.wants:
                break
            worked |= self._serve(holding, reader)
            if not quiet():
                return True
        return worked

    def _serve_together(self, quiet: Callable[[], bool]) -> bool:
        """Hand the only worker one slice of all partitions together: waking it for each partition would cost more than many
        handlers take."""
        worked, left, count, parts = False, self._requests.slice(), 0, list[Part]()
        for holding, reader in self._having(self._turns()):
            now = time.monotonic()
            if (room := min(self._room(holding), left)) > 0:
                holding.served_at = now
                worked |= self._requests.read(holding, reader, room)
            late, until = False, time.monotonic() + _LONGEST_TURN
            for sequence in holding.ready(now):
                holding.served_at = now
                worked = True
                if left > 0 and self._requests.may_begin(sequence, reader):
                    parts.append((sequence, entries := sequence.hand_out(left)))
                    count += len(entries)
                    left = self._requests.slice() - count  # entries that were just read may be larger than before
                if late := time.monotonic() > until:
                    break
            worked |= not quiet()
            if left <= 0 or late or not quiet():
                break
        if parts := _still_held(parts):
            self._deliver(self.wants.popleft(), parts)
        return worked

    def _serve(self, holding: HeldPartition, reader: Reader) -> bool:
        now, worked = time.monotonic(), False
        if (room := self._room(holding)) > 0:
            holding.served_at = now
            worked = self._requests.read(holding, reader, room)
        until = time.monotonic() + _LONGEST_TURN
        for share in self._shares(holding, now):
            holding.served_at = now
            worked = True
            if not self.wants:
                break
            begun = list(self._begun(share, reader, until))
            if parts := _still_held([(one, one.hand_out(len(one.waiting))) for one in begun]):
                self._deliver(self.wants.popleft(), parts)
            if time.monotonic() > until:
                break
        return worked

    def has_room(self, holding: HeldPartition, now: float) -> bool:
        """Return whether more would be read from the partition for the first request."""
        if not self.wants:
            return False
        size = self.wants[0].batch
        return self._room(holding) > 0 if size is None else self._may_read(holding, now, size)

    def _begun(self, sequences: Iterable[EntrySequence], reader: Reader, until: float) -> Iterator[EntrySequence]:
        """Yield sequences whose first entry may be handed out. Stops asking the queue at `until` (monotonic), but asks for the
        first one in any case."""
        for sequence in sequences:
            if self._requests.may_begin(sequence, reader):
                yield sequence
            if time.monotonic() > until:
                return

    def _room(self, holding: HeldPartition) -> int:
        """Return how many entries may be read from the partition."""
        if holding.releasing and holding.read_before:
            return 0
        if holding.by_key:
            # Within limits, entries that wait behind a slow or a failed entry of their key must not keep others from being read.
            active = (one for one in holding.sequences.values() if not (one.left_over or one.failed))
            begun = sum(1 if one.out else len(one.waiting) for one in active)
            most = max(self.workers, min(_MOST_BY_KEY, self._requests.within(SLICE_BYTES)))
            return min(self._requests.slice(self.workers) - begun, most - holding.in_hand)
        return 0 if holding.in_hand else self._requests.slice()

    def _shares(self, holding: HeldPartition, now: float) -> list[list[EntrySequence]]:
        """Divide the ready sequences of the partition among the workers."""
        ready = list(holding.ready(now))
        share = -(-len(ready) // self.workers)
        return [ready[begin : begin + share] for begin in range(0, len(ready), share)] if ready else []

    def _serve_batch(self, want: Want, size: BatchSize, quiet: Callable[[], bool]) -> bool:
        """Read until the batch is full or has waited for long enough, and deliver it."""
        now = time.monotonic()
        turns = self._turns()
        worked = called_back = False
        # Failing keys must not keep others from being read.
        entries, large = _amount(self._ready(turns, now, retries=False), size)
        for holding, reader in self._having(turns):
            if entries >= size.entries or large >= size.bytes:
                break
            called_back |= holding.releasing
            if self._may_read(holding, now, size):
                before = _amount(self._ready([holding], now, retries=False), size)
                holding.served_at = now
                left = size.bytes - large
                worked |= self._requests.read(holding, reader, min(size.entries - entries, self._requests.within(left)), left)
                after = _amount(self._ready([holding], now, retries=False), size)
                entries, large = entries + after[0] - before[0], large + after[1] - before[1]
                if not quiet():
                    return True
        ready = self._ready(turns, now)
        entries, large = _amount(ready, size)
        if not entries:
            want.since = None
            return worked
        want.since = want.since or now
        enough = entries >= size.entries or large >= size.bytes or now >= self.due
        # A batch with a retry is not completed: one that comes alone, or one behind which nothing is read.
        retry = any(one.waiting[0].alone or (one.failed and not one.holding.by_key) for one in ready)
        if not (enough or retry or called_back):
            return worked
        if parts := self._gather(ready, size, now):
            self.wants.popleft()
            self._deliver(want, parts)
        return True

    def _may_read(self, holding: HeldPartition, now: float, size: BatchSize) -> bool:
        if holding.releasing and holding.read_before:
            return False
        if holding.by_key:
            sequences = holding.sequences.values()
            behind = sum(len(one.waiting) for one in sequences if one.failed or not one.ready(now, shared=self.shared))
            return behind < min(_MOST_BY_KEY, self._requests.within(SLICE_BYTES))
        if any(sequence.failed for sequence in holding.sequences.values()):
            return False  # entries behind a failed one wait for its retry
        if holding.waiting and (holding.in_hand >= size.entries or not any(holding.ready(now, shared=self.shared))):
            return False
        return self.shared or not holding.out

    def _ready(self, holdings: Iterable[HeldPartition], now: float, *, retries: bool = True) -> list[EntrySequence]:
        """Return the sequences from which a batch may take entries. `retries`: also those with failed entries."""
        ready = (sequence for one in holdings for sequence in one.ready(now, shared=self.shared))
        return [sequence for sequence in ready if retries or not sequence.failed]

    def _gather(self, ready: Sequence[EntrySequence], size: BatchSize, now: float) -> list[Part]:
        parts: list[Part] = []
        room, left, until = size.entries, size.bytes, time.monotonic() + _LONGEST_TURN
        if not self._was_alone:  # failed sequences come last, and an entry that comes alone needs an empty batch
            ready = sorted(ready, key=lambda sequence: not sequence.waiting[0].alone)
        self._was_alone = False
        for sequence in ready:
            holding = sequence.holding
            if now < self._requests.not_before(holding):
                continue
            reader = self._holdings.reader(holding)
            while room and now >= sequence.due and not (parts and sequence.waiting[0].alone):
                if time.monotonic() > until:
                    return _still_held(parts)
                holding.served_at = now
                if not self._requests.may_begin(sequence, reader) or (parts and sequence.waiting[0].alone):
                    break
                # An entry that is larger than a batch may be is a batch by itself.
                found = sequence.hand_out(room, left) or ([] if parts else sequence.hand_out(1))
                if found and found[0].alone:
                    self._was_alone = True
                    return _still_held([(sequence, found)])
                if not found:
                    return _still_held(parts)
                room -= len(found)
                left -= sum(entry.size for entry in found) if left < inf else 0
                parts.append((sequence, found))
        return _still_held(parts)

    def _deliver(self, want: Want, parts: Sequence[Part]) -> None:
        delivery = Delivery(parts)
        if not self.shared:
            self.out.add(delivery)
            for sequence, _ in parts:
                sequence.at_work.add(delivery)
        if not self._answer(want, delivery):
            self.take_back(delivery)

    def _answer(self, want: Want, answer: Delivery | Call) -> bool:
        """Return False if the request was withdrawn."""
        if not want.answer.set_running_or_notify_cancel():
            return False
        want.answer.set_result(answer)
        return True


def _amount(ready: Iterable[EntrySequence], size: BatchSize) -> tuple[int, int]:
    """Return how many entries these sequences have for a batch, and their bytes if the batch has a limit."""
    waiting = [sequence.waiting for sequence in ready]
    return sum(map(len, waiting)), sum(entry.size for one in waiting for entry in one) if size.bytes < inf else 0


def _still_held(parts: Sequence[Part]) -> list[Part]:
    """Leave out entries of partitions that were lost meanwhile."""
    return [(sequence, entries) for sequence, entries in parts if entries and not sequence.holding.over]
