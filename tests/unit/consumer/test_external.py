"""A consumer of External queues, and the example of manifests/examples/external-consumer, which is one."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from baton.consumer import AssignmentSource, ExternalConsumer, OwnedPartition, Session
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from tests.in_memory_lease import InMemoryLease
from tests.waiting import until

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "external-consumer"
JOBS, POD, UID = QueueName("jobs"), MemberId("jobs-0"), Uid("uid-0")
SECONDS = 5.0


class Fleet:
    """One consumer on a thread, with a Lease in memory and a folder for the ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lease = InMemoryLease()
        self.session = Session(self.lease, holder=UID, group="jobs")
        self.served: list[OwnedPartition] = []
        self.told: list[tuple[str, list[int]]] = []
        self.consumer = ExternalConsumer(
            AssignmentSource(folder, POD, UID),
            self.session,
            UID,
            on_assigned=self._telling("on_assigned"),
            on_revoked=self._telling("on_revoked"),
            on_lost=self._telling("on_lost"),
        )
        self.thread = threading.Thread(target=self.consumer.run, args=(self.serve,), daemon=True)

    def serve(self, partition: OwnedPartition) -> bool:
        self.served.append(partition)
        return False

    def start(self) -> None:
        """Wait for a renewal: partitions that the ledger names from then on are granted to this process."""
        self.thread.start()
        until(lambda: self.consumer._gaps, "its session has begun", SECONDS)

    def owns(self, *owned: int, revoking: int | None = None, epoch: int = 1) -> None:
        to_release = {} if revoking is None else {JOBS: {revoking: Epoch(epoch)}}
        entry = MemberEntry("shop/jobs", POD, UID, 1, True, {JOBS: dict.fromkeys(owned, Epoch(epoch))}, to_release)
        fresh = self.folder / "fresh"
        fresh.write_text(entry.to_json())
        fresh.rename(self.folder / POD)

    def _telling(self, name: str) -> Callable[[Sequence[OwnedPartition]], None]:
        return lambda partitions: self.told.append((name, [one.number for one in partitions]))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.consumer.stop()
    if made.thread.ident is not None:
        made.thread.join(SECONDS)
    assert not made.thread.is_alive()


def test_a_consumer_serves_its_partitions_and_releases_revoked_ones(fleet: Fleet) -> None:
    fleet.start()
    fleet.owns(0, 5)
    until(lambda: {OwnedPartition(JOBS, 0, Epoch(1)), OwnedPartition(JOBS, 5, Epoch(1))} <= {*fleet.served}, "both", SECONDS)
    assert fleet.lease.releases() == frozenset()

    fleet.owns(0, revoking=5)
    until(fleet.lease.releases, "it reports the release", SECONDS)
    assert fleet.lease.releases() == {Release(UID, JOBS, 5, Epoch(1))}
    assert fleet.told == [("on_assigned", [0, 5]), ("on_revoked", [5])]
    fleet.served.clear()
    until(lambda: len(fleet.served) > 3, "it works on the other", SECONDS)
    assert {one.number for one in fleet.served} == {0}

    fleet.consumer.stop()
    fleet.thread.join(SECONDS)
    assert fleet.told[2:] == [("on_revoked", [0])]


def test_a_revoked_partition_is_released_after_on_revoked_returned(fleet: Fleet) -> None:
    before: list[object] = []
    fleet.consumer._on_revoked = lambda partitions: before.append(fleet.lease.releases())
    fleet.start()
    fleet.owns(3)
    until(lambda: fleet.served, "it works", SECONDS)
    fleet.owns(revoking=3)
    until(fleet.lease.releases, "it reports the release", SECONDS)
    assert before == [frozenset()]


def test_without_a_session_an_external_consumer_does_nothing(fleet: Fleet) -> None:
    fleet.lease.away = True
    fleet.thread.start()
    fleet.owns(0)
    until(lambda: fleet.lease.requests > 1, "it tries to renew", SECONDS)
    assert fleet.served == []
    assert "not renewed" in fleet.consumer.unheard()


def test_partitions_from_before_the_session_are_released_until_granted_again(fleet: Fleet) -> None:
    fleet.owns(0)  # of an earlier process of the pod, and perhaps another pod's by now
    fleet.start()
    until(fleet.lease.releases, "it says that it does not work on it", SECONDS)
    assert fleet.lease.releases() == {Release(UID, JOBS, 0, Epoch(1))}
    assert fleet.served == [] and fleet.told == []
    fleet.owns(0, epoch=2)
    until(lambda: fleet.served, "it works", SECONDS)
    assert {*fleet.served} == {OwnedPartition(JOBS, 0, Epoch(2))}
    assert fleet.consumer.unheard() == ""


def test_partitions_are_lost_after_a_session_gap_until_granted_again(fleet: Fleet) -> None:
    fleet.start()
    fleet.owns(0)
    until(lambda: fleet.served, "it works", SECONDS)
    fleet.session.gaps += 1
    until(lambda: ("on_lost", [0]) in fleet.told, "the loss is told", SECONDS)
    until(fleet.lease.releases, "it says that it does not work on it", SECONDS)
    fleet.served.clear()
    fleet.owns(0, epoch=2)
    until(lambda: fleet.served, "it works again", SECONDS)
    assert {one.epoch for one in fleet.served} == {Epoch(2)}
    assert fleet.told == [("on_assigned", [0]), ("on_lost", [0]), ("on_assigned", [0])]


class RenewedLate(Session):
    """The Lease lapses when `lapses` is set, and is renewed before the second question."""

    lapses = threading.Event()
    asked = 0

    def renewed_within(self, seconds: float) -> bool:
        if not self.lapses.is_set():
            return super().renewed_within(seconds)
        self.asked += 1
        self.gaps += self.asked == 2
        return self.asked >= 2


def test_a_renewal_after_a_gap_assigns_no_partition_from_before(fleet: Fleet) -> None:
    session = fleet.consumer._session = RenewedLate(fleet.lease, holder=UID, group="jobs")
    fleet.start()
    fleet.owns(0)
    until(lambda: fleet.served, "it works", SECONDS)
    session.lapses.set()
    until(fleet.lease.releases, "it says that it does not work on it", SECONDS)
    assert fleet.told == [("on_assigned", [0]), ("on_lost", [0])]


def test_a_hanging_call_fails_the_probe(fleet: Fleet) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(partition: OwnedPartition) -> None:
        begun.set()
        assert go_on.wait(SECONDS)

    fleet.thread = threading.Thread(target=fleet.consumer.run, args=(hang,), daemon=True)
    fleet.start()
    fleet.owns(0)
    assert begun.wait(SECONDS)
    assert fleet.consumer.hangs() == ""
    fleet.consumer._seen_at -= 120  # as if it had not come back for so long
    assert "one call has taken 120 s" in fleet.consumer.hangs()
    go_on.set()
    until(lambda: not fleet.consumer.hangs(), "it goes on", SECONDS)


def test_an_error_of_the_work_ends_the_consumer(fleet: Fleet) -> None:
    def fail(partition: OwnedPartition) -> None:
        raise ValueError("no")

    def grant() -> None:
        until(lambda: fleet.consumer._gaps, "its session has begun", SECONDS)
        fleet.owns(0)

    threading.Thread(target=grant, daemon=True).start()
    with pytest.raises(ValueError, match="no"):
        fleet.consumer.run(fail)
    assert fleet.session._thread is not None and not fleet.session._thread.is_alive()


def test_the_examples_probes_match_its_health_port() -> None:
    (container,) = yaml.safe_load((EXAMPLE / "deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert {"name": "BATON_HEALTH_PORT", "value": str(port["containerPort"])} in container["env"]
    probes = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/healthz", "port": port["name"]},
        "readinessProbe": {"path": "/readyz", "port": port["name"]},
    }
