"""The consumer of manifests/examples/external-consumer: works on what is its own, and lets go of the rest."""

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.consumer import AssignmentSource, Pod, Session
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from tests.in_memory_lease import InMemoryLease
from tests.waiting import until

APP = Path(__file__).parents[3] / "manifests" / "examples" / "external-consumer" / "app.py"
JOBS = QueueName("jobs")
SECONDS = 5.0


def example() -> Any:
    spec = importlib.util.spec_from_file_location("external_consumer", APP)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Consumer:
    """The example's loop on a thread, with a Lease in memory and a folder for the ledger."""

    def __init__(self, folder: Path) -> None:
        self.pod = Pod("jobs", MemberId("jobs-0"), "shop", Uid("uid-0"), folder)
        self.lease = InMemoryLease()
        self.session = Session(self.lease, holder=self.pod.uid, group="jobs")
        self.served: list[int] = []
        self.stop = threading.Event()
        source = AssignmentSource(folder, self.pod.name, self.pod.uid)
        self.example = example()
        self.progress = self.example.Progress()
        arguments = (source, self.session, self.pod, self.serve, self.stop, self.progress)
        self.thread = threading.Thread(target=self.example.work, args=arguments, daemon=True)

    def serve(self, partition: Partition) -> bool:
        self.served.append(partition.number)
        return False

    def owns(self, *owned: int, revoking: int | None = None) -> None:
        let_go = {} if revoking is None else {JOBS: {revoking: Epoch(1)}}
        entry = MemberEntry("shop/jobs", self.pod.name, self.pod.uid, 1, True, {JOBS: dict.fromkeys(owned, Epoch(1))}, let_go)
        fresh = self.pod.ledger / "fresh"
        fresh.write_text(entry.to_json())
        fresh.rename(self.pod.ledger / self.pod.name)


@pytest.fixture
def consumer(tmp_path: Path) -> Iterator[Consumer]:
    made = Consumer(tmp_path)
    yield made
    made.stop.set()
    made.session.close()
    made.thread.join(SECONDS)
    assert not made.thread.is_alive()


def test_it_works_on_what_it_owns_and_lets_go_of_what_is_revoked(consumer: Consumer) -> None:
    consumer.owns(0, 5)
    consumer.session.start()
    consumer.thread.start()
    until(lambda: {0, 5} <= set(consumer.served), "it works on both", SECONDS)
    assert consumer.lease.releases() == frozenset()

    consumer.owns(0, revoking=5)
    until(consumer.lease.releases, "it says that it has let go", SECONDS)
    assert consumer.lease.releases() == {Release(consumer.pod.uid, JOBS, 5, Epoch(1))}
    consumer.served.clear()
    until(lambda: len(consumer.served) > 3, "it works on the other", SECONDS)
    assert set(consumer.served) == {0}


def test_without_a_session_it_does_nothing(consumer: Consumer) -> None:
    consumer.owns(0)
    looked = threading.Event()

    def lapsed() -> bool:
        looked.set()
        return True

    consumer.session.lapsed = lapsed  # type: ignore[method-assign]
    consumer.thread.start()
    assert looked.wait(SECONDS)
    consumer.stop.set()
    consumer.thread.join(SECONDS)
    assert consumer.served == []


def test_its_probes_say_whether_the_operator_hears_of_it_and_whether_it_hangs(consumer: Consumer) -> None:
    assert "not renewed" in consumer.example.unheard(consumer.session)
    consumer.session.start()
    until(lambda: not consumer.example.unheard(consumer.session), "the operator hears of it", SECONDS)
    consumer.progress._seen_at -= 2 * consumer.example.STUCK_AFTER  # as if `serve` had not come back for so long
    assert "has not gone on for 120 s" in consumer.progress.hangs()
    consumer.thread.start()
    until(lambda: not consumer.progress.hangs(), "the loop goes on", SECONDS)


def test_the_kubelet_asks_where_it_answers() -> None:
    (container,) = yaml.safe_load((APP.parent / "deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert {"name": "BATON_HEALTH_PORT", "value": str(port["containerPort"])} in container["env"]
    probes = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/healthz", "port": port["name"]},
        "readinessProbe": {"path": "/readyz", "port": port["name"]},
    }
