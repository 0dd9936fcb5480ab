"""Entries of a key never overtake each other, and each has an outcome, whatever the queue answers."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from baton.queues.producer_side import Sent
from baton.queues.redis.outbox import Failed, Outbox, OutgoingEntry, Round
from baton.queues.redis.routing import SLOTS, RoutingTable

PATIENCE = 30.0
PARTITIONS = 3
QUEUE_SLOTS = range(4)
"""The slots of all entries."""


def table(version: int, where: dict[int, int]) -> RoutingTable:
    return RoutingTable(version, tuple(where.get(slot, slot % PARTITIONS) for slot in range(SLOTS)))


class Server:
    """A server with the logic of the scripts add, seal and open."""

    def __init__(self) -> None:
        self.version = 1
        self.where: dict[int, int | None] = {slot: slot % PARTITIONS for slot in QUEUE_SLOTS}
        """None: sealed at one partition and not yet opened at another."""
        self.from_: dict[int, int] = {}
        self.known: dict[tuple[int, int], int] = defaultdict(int)
        self.table = table(1, {})
        self.entries: list[tuple[int, bytes]] = []
        self.number = 1000

    def add(self, partition: int, batch: list[OutgoingEntry], stuck: bool) -> tuple[str, list[str]]:
        codes, numbers = "", []
        for entry in batch:
            assert entry.slot is not None
            if entry.sequence <= self.known[partition, entry.slot]:
                codes += "d"
            elif self.where[entry.slot] != partition:
                codes += "m"
            elif stuck:
                codes += "w"
            else:
                self.known[partition, entry.slot] = entry.sequence
                self.entries.append((entry.slot, entry.value))
                self.number += 1
                numbers.append(f"{self.number}-0")
                codes += "a"
        return codes, numbers

    def seal(self, slot: int) -> None:
        if (partition := self.where[slot]) is not None:
            self.from_[slot], self.where[slot] = partition, None

    def open(self, slot: int, to: int) -> None:
        if self.where[slot] is None and to != self.from_[slot]:
            self.where[slot] = to
            self.known[to, slot] = max(self.known[to, slot], self.known[self.from_[slot], slot])
            self.version += 1
            self.table = table(self.version, {each: at for each, at in self.where.items() if at is not None} | {slot: to})


def entry(slot: int | None, value: bytes, deadline: float, due: float = -inf) -> OutgoingEntry:
    return OutgoingEntry(slot, b"", value, b"", deadline, due=due)


SLOT = st.sampled_from(QUEUE_SLOTS)
SOME = st.lists(SLOT, max_size=6)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SOME, st.booleans()),
        st.tuples(st.sampled_from(("answer", "answer", "stuck", "lost", "lost on the way", "interrupted")), SOME, st.none()),
        st.tuples(st.just("seal"), SLOT, st.none()),
        st.tuples(st.just("open"), SLOT, st.integers(0, PARTITIONS - 1)),
        st.tuples(st.just("give up"), st.none(), st.none()),
        st.tuples(st.just("wait"), st.floats(0, 2), st.none()),
    ),
    max_size=80,
)


class World:
    """A producer and its queue, with a clock that the test advances."""

    def __init__(self) -> None:
        self.server, self.outbox, self.now = Server(), Outbox("shop/orders", "me", 3, 1000), 100.0
        self.added: list[OutgoingEntry] = []

    def new(self, slot: int, due: float = -inf) -> OutgoingEntry:
        self.added.append(entry(slot, b"%d" % len(self.added), self.now + PATIENCE, due))
        return self.added[-1]

    def act(self, what: str, first: Any, second: Any) -> None:
        match what:
            case "add":
                self.add(first, self.now + 1 if second else -inf)
            case "answer" | "stuck" | "lost" | "lost on the way" | "interrupted":
                self.carry(self.outbox.next(self.now), what, first)
            case "seal":
                self.server.seal(first)
            case "open":
                self.server.open(first, second)
            case "give up":
                self.outbox.give_up(self.added[-1:], "no patience")
            case "wait":
                self.now += first

    def add(self, slots: Sequence[int], due: float = -inf) -> None:
        for slot in slots:
            self.outbox.add(self.new(slot, due))

    def carry(self, what: Round | float | None, how: str, meanwhile: Sequence[int] = ()) -> None:
        """`meanwhile`: slots of entries that are added during the request."""
        self.add(meanwhile)
        if what is None:
            self.outbox.routed(self.server.table, "", self.now)
        elif isinstance(what, dict):
            answers = {
                partition: self.server.add(partition, batch, how == "stuck")
                for partition, batch in what.items()
                if how != "lost on the way"
            }
            if how == "interrupted":
                self.outbox.repair()
            for partition in what:
                if how.startswith("lost"):
                    self.outbox.failed(partition, "lost", self.now, passing=True)
                else:
                    self.outbox.answered(partition, *answers[partition], self.now)

    def end(self) -> None:
        """Open every slot, and answer all requests from now on."""
        for slot in QUEUE_SLOTS:
            for to in range(PARTITIONS):
                self.server.open(slot, to)
        while (what := self.outbox.next(self.now)) != inf:
            if isinstance(what, float):
                self.now = max(self.now, what)
            self.carry(what, "answer")


@given(ACTIONS)
@example(  # sent while its slot is held, by the next table
    [
        ("seal", 0, None),
        ("add", [0], False),
        ("answer", [], None),
        ("answer", [], None),
        ("open", 0, 1),
        ("add", [0], False),
        ("answer", [], None),
        ("answer", [], None),
    ]
)
def test_keys_stay_in_order_without_losses_or_duplicates(actions: list[tuple[str, object, object]]) -> None:
    world = World()
    for action in actions:
        world.act(*action)
    world.end()
    assert world.outbox.bytes == 0 and not world.outbox.open
    values = [value for _, value in world.server.entries]
    assert len(values) == len(set(values)), "each is there once"
    assert all(each.value in values for each in world.added if isinstance(each.outcome, Sent))
    for slot in QUEUE_SLOTS:
        numbers = [int(value) for at, value in world.server.entries if at == slot]
        assert numbers == sorted(numbers)
    if world.now < 100 + PATIENCE and "give up" not in [what for what, *_ in actions]:
        assert all(isinstance(each.outcome, Sent) for each in world.added)


def routed(most_entries: int = 1000, most_bytes: int = 1_000_000) -> Outbox:
    outbox = Outbox("shop/orders", "me", most_entries, most_bytes)
    outbox.routed(table(1, {}), "", 0.0)
    return outbox


def test_lingering_entries_are_sent_together_when_due() -> None:
    outbox = routed()
    entries = [entry(slot, b"v", 99.0, due) for slot, due in ((0, 5.0), (1, 6.0), (0, 7.0))]
    for each in entries:
        outbox.add(each)
    assert outbox.next(4.9) == 5.0
    assert outbox.next(5.0) == {0: [entries[0], entries[2]], 1: [entries[1]]}


def test_a_full_batch_is_sent_without_waiting() -> None:
    for outbox in (routed(most_entries=3), routed(most_bytes=300)):
        for _ in range(2):
            outbox.add(entry(0, b"v" * 100, 99.0, 5.0))
        assert outbox.next(0.0) == 5.0
        outbox.add(entry(0, b"v" * 100, 99.0, 5.0))
        assert isinstance(outbox.next(0.0), dict)


def test_a_round_trip_is_bounded_and_partitions_take_turns() -> None:
    outbox = routed(most_entries=300)
    for _ in range(500):
        outbox.add(entry(0, b"", 99.0))
    outbox.add(entry(1, b"", 99.0))
    sizes = []
    while isinstance(what := outbox.next(0.0), dict):
        sizes.append({partition: len(batch) for partition, batch in what.items()})
        for partition, batch in what.items():
            outbox.answered(partition, "d" * len(batch), [], 0.0)
    assert sizes == [{0: 200, 1: 1}, {0: 200}, {0: 100}]


def test_a_permanent_error_fails_only_its_batch() -> None:
    outbox = routed()
    one, other = entry(0, b"", 99.0), entry(1, b"", 99.0)
    outbox.add(one)
    outbox.add(other)
    assert isinstance(outbox.next(0.0), dict)
    outbox.failed(0, "refused", 0.0, passing=False)
    outbox.answered(1, "a", ["7-0"], 0.0)
    assert (one.outcome, other.outcome) == (Failed("refused"), Sent(1, "7-0"))


def without_key(producer: str, count: int, partitions: int) -> set[int]:
    """Return the partitions of a new producer's first entries without a key."""
    outbox = Outbox("shop/orders", producer, 1000, 10**6)
    outbox.routed(RoutingTable.even(1, partitions), "", 0.0)
    for _ in range(count):
        outbox.add(entry(None, b"", PATIENCE))
    round_trip = outbox.next(0.0)
    assert isinstance(round_trip, dict)
    return set(round_trip)


def test_entries_without_a_key_go_to_all_partitions() -> None:
    assert without_key("producer", 24, partitions=12) == set(range(12))


def test_producers_of_a_single_entry_without_a_key_use_all_partitions() -> None:
    used = [without_key(f"producer-{number}", 1, partitions=4) for number in range(200)]
    assert set().union(*used) == set(range(4))
