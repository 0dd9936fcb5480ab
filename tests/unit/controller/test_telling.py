"""What happened in a step, as people read it."""

from tests.unit.controller.memory_api import MemoryApi

from baton.controller.metrics import Metrics
from baton.controller.tell import MOST_SENTENCES, Teller
from baton.engine.happenings import Fenced, Granted, Happening, How, Released, Revoked, StandsBy, State, StateChanged
from baton.kube.events import Events, Kind, Regarding
from baton.model.ids import Epoch, MemberId, Partition, QueueName

KEY = ("shop", "orders")
ABOUT = Regarding("baton.dev/v1alpha1", "ConsumerGroup", "shop", "orders", "uid")
A, B = MemberId("a"), MemberId("b")


class Said(Events):
    """Events that are kept instead of posted."""

    def __init__(self) -> None:
        super().__init__(MemoryApi(), "test")
        self.said: list[tuple[str, str, Kind]] = []

    def post(
        self, about: Regarding, kind: Kind, reason: str, note: str, *, action: str = "Rebalance", once: bool = False
    ) -> None:
        self.said.append((reason, note, kind))


def told(*happenings: Happening, now: float = 0.0) -> list[tuple[str, str, Kind]]:
    events = Said()
    Teller(KEY, ABOUT, events, Metrics()).tell(happenings, now)
    return events.said


def partition(number: int, queue: str = "orders") -> Partition:
    return Partition(QueueName(queue), number)


def test_partitions_of_one_member_share_a_sentence() -> None:
    grants = [Granted(partition(number), A, Epoch(1)) for number in (3, 1, 2)]
    other = Granted(partition(7, "returns"), A, Epoch(1))
    assert told(*grants, other) == [("Granted", "a owns orders 1-3 and returns 7", Kind.NORMAL)]


def test_a_missed_deadline_is_a_warning_with_a_cure() -> None:
    ((reason, note, kind),) = told(
        Released(partition(1), A, How.DEADLINE), Released(partition(2), A, How.CONSUMER), Released(partition(3), B, How.GONE)
    )
    assert (reason, kind) == ("DeadlineMissed", Kind.WARNING)
    assert "a did not let go of orders 1 in time" in note and "raise maxHandoffSeconds" in note


def test_states_are_told_with_their_cause() -> None:
    said = told(
        StateChanged(State.HOLDDOWN, until=5.0, why="b left"),
        StateChanged(State.REBALANCING, why="b left"),
        StandsBy(B),
        Fenced(A, "a newer pod has its identity"),
    )
    assert [(reason, kind) for reason, _, kind in said] == [
        ("Holddown", Kind.NORMAL),
        ("Rebalancing", Kind.NORMAL),
        ("StandsBy", Kind.NORMAL),
        ("Fenced", Kind.WARNING),
    ]
    assert "1970-01-01T00:00:05Z" in said[0][1] and "b left" in said[0][1]


def test_many_members_share_one_sentence() -> None:
    many = [Revoked(partition(number), MemberId(f"m{number}"), Epoch(1), 3.0) for number in range(MOST_SENTENCES + 1)]
    assert told(*many) == [("Revoking", "11 members are to let go of 11 partitions", Kind.NORMAL)]


def test_pauses_and_holddowns_are_measured() -> None:
    metrics = Metrics()
    teller = Teller(KEY, ABOUT, Said(), metrics)
    teller.tell([StateChanged(State.HOLDDOWN, until=5.0)], 0.0)
    teller.tell([StateChanged(State.HOLDDOWN, until=7.0)], 1.0)
    teller.tell([StateChanged(State.REBALANCING), Granted(partition(1), A, Epoch(2), B, paused_for=0.5)], 5.0)
    samples = {sample.name: sample.value for family in metrics.registry.collect() for sample in family.samples if sample.labels}
    assert samples["baton_holddown_seconds_sum"] == 5.0
    assert samples["baton_pause_seconds_sum"] == 0.5


async def test_a_sentence_that_is_repeated_is_posted_once() -> None:
    api = MemoryApi()
    events = Events(api, "test")
    for _ in range(3):
        events.post(ABOUT, Kind.WARNING, "NoSuchGroup", "correct the label", once=True)
    events.post(ABOUT, Kind.WARNING, "NoSuchGroup", "another", once=True)
    assert events._waiting.qsize() == 2
