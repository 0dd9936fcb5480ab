"""Three brokers, of which the second and the third may come to harm: the first is the controller, too."""

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from confluent_kafka.cimpl import NewTopic

from tests.kafka_broker import KafkaBroker, jars
from tests.waiting import PATIENCE, until

RACKS = ("east", "west", "west")
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "5",
}
"""A broker that is gone is taken for gone after seconds, not after half a minute."""


class KafkaCluster:
    """A context manager. Each broker has a rack, and each topic three replicas, of which two have to be in sync."""

    def __init__(self) -> None:
        first = KafkaBroker({**_SETTINGS, "broker.rack": RACKS[0]})
        others = [
            KafkaBroker({**_SETTINGS, "broker.rack": rack}, node=node, joins=first) for node, rack in enumerate(RACKS[1:], 2)
        ]
        self.brokers = [first, *others]
        self._stack = ExitStack()

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(broker.servers for broker in self.brokers)

    def broker(self, node: int) -> KafkaBroker:
        """By its id."""
        return self.brokers[node - 1]

    def make_topic(self, name: str, replicas: Sequence[Sequence[int]], **configuration: str) -> None:
        """`replicas`: the ids of each partition's brokers, the leader first."""
        settings = {key.replace("_", "."): value for key, value in configuration.items()}
        admin = self.brokers[0].admin()
        topic = NewTopic(name, len(replicas), replica_assignment=[list(those) for those in replicas], config=settings)
        admin.create_topics([topic])[name].result(PATIENCE)

        def led() -> bool:
            found = admin.list_topics(name, timeout=PATIENCE).topics[name].partitions
            return len(found) == len(replicas) and all(one.leader >= 0 for one in found.values())

        until(led, f"each partition of {name} has a leader")

    def replicas(self, name: str) -> list[list[int]]:
        """The ids of each partition's brokers, that which is to lead first."""
        admin = self.brokers[0].admin()
        found = admin.list_topics(name, timeout=PATIENCE).topics[name].partitions
        return [found[number].replicas for number in sorted(found)]

    def rearrange(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        """The same brokers in another order. Returns when the first of each partition leads it: by an election, of brokers that
        live."""
        wanted = [{"topic": name, "partition": number, "replicas": list(those)} for number, those in enumerate(replicas)]
        plan = self.brokers[0].directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        command = jars.java(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", self.brokers[0].servers, "--reassignment-json-file", str(plan), "--execute"),
            lib=jars.place() / "lib",
        )
        subprocess.run(command, capture_output=True, check=True)
        admin = self.brokers[0].admin()

        def led() -> bool:
            found = admin.list_topics(name, timeout=PATIENCE).topics[name].partitions
            return all(found[number].leader == those[0] for number, those in enumerate(replicas))

        until(led, f"the first replica of each partition of {name} leads it", PATIENCE)

    def in_sync(self, name: str) -> list[int]:
        """How many replicas of each partition are."""
        admin = self.brokers[0].admin()
        return [len(one.isrs) for one in admin.list_topics(name, timeout=PATIENCE).topics[name].partitions.values()]

    def __enter__(self) -> Self:
        for broker in self.brokers:
            self._stack.callback(broker.stop)
        with ThreadPoolExecutor() as threads:
            list(threads.map(KafkaBroker.start, self.brokers))
        admin = self.brokers[0].admin()
        until(lambda: len(admin.list_topics(timeout=PATIENCE).brokers) == len(self.brokers), "the brokers know each other")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
