"""What is compared: Baton on Redis and on Kafka, and Kafka's own groups; and how a member of each comes and goes."""

import asyncio
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baton.kube.api import core_path
from tests.bench.handoff.members import Members
from tests.bench.handoff.mount import LateLedger
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.kafka_broker import KafkaBroker, jars
from tests.redis_server import RedisServer
from tests.waiting import eventually

DELAY = 1
"""Seconds of `delaySeconds`: longer than a member takes here from its start to Ready."""
_SEEN_AFTER = 1.0
"""Seconds after which the kubelet says that a container has ended: it looks once a second."""
QUEUE = "orders"


@dataclass
class Place:
    """Where everything runs."""

    api: Cluster
    kubeconfig: Path
    redis: RedisServer
    broker: KafkaBroker
    folder: Path


class System(ABC):
    """With members whose names are given by the caller; each name once."""

    load: tuple[str, str, str]
    """Arguments of the load: its kind, the address, and the queue's name."""

    def __init__(self, members: Members, output: Path) -> None:
        self._members = members
        self._output = output

    @abstractmethod
    async def start(self, name: str) -> None:
        """As a pod that is made, and Ready."""

    @abstractmethod
    async def stop(self, name: str) -> None:
        """As a pod that is deleted: it is told. Returns before it has ended."""

    @abstractmethod
    async def kill(self, name: str) -> None:
        """As a container that the kernel kills, and that does not start again."""

    def _order(self, name: str) -> dict[str, Any]:
        return {"member": name, "output": str(self._output)}


class Baton(System):
    """A group with the operator. Pods are objects at a real API server, whose status is written here as a kubelet writes it."""

    def __init__(
        self, members: Members, output: Path, world: World, kubeconfig: Path, mount: Path, environment: dict[str, str]
    ) -> None:
        """`environment`: what says where the queues are."""
        super().__init__(members, output)
        self._world, self._kubeconfig, self._mount, self._environment = world, kubeconfig, mount, environment
        self._endings: set[asyncio.Task[None]] = set()

    async def start(self, name: str) -> None:
        uid = await self._world.pod(name, QUEUE, ready=False)
        environment = {
            **self._environment,
            "BATON_LEDGER": str(self._mount),
            "BATON_GROUP": QUEUE,
            "POD_NAME": name,
            "POD_NAMESPACE": self._world.namespace,
            "POD_UID": uid,
        }
        self._members.start(name, {**self._order(name), "environment": environment, "kubeconfig": str(self._kubeconfig)})
        await self._world.set_ready(name, True)

    async def stop(self, name: str) -> None:
        await self._world.terminate(name, grace=30)
        self._members.tell(name, signal.SIGTERM)
        self._afterwards(self._gone(name))

    async def kill(self, name: str) -> None:
        self._members.tell(name, signal.SIGKILL)
        self._afterwards(self._failed(name))

    async def close(self) -> None:
        for task in self._endings:
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)

    def _afterwards(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _gone(self, name: str) -> None:
        async def ended() -> bool:
            return self._members.ended(name)

        await eventually(ended, f"{name} has released its partitions, and ends")
        await self._world.delete_pod(name)

    async def _failed(self, name: str) -> None:
        await asyncio.sleep(_SEEN_AFTER)
        container = {"name": "consumer", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        status = {
            "phase": "Failed",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
            "containerStatuses": [{**container, "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}],
        }
        await self._world.api.merge(core_path(self._world.namespace, "pods", name) + "/status", {"status": status})


class Group(System):
    """A consumer group of Kafka's."""

    def __init__(self, members: Members, output: Path, topic: str, settings: dict[str, Any]) -> None:
        super().__init__(members, output)
        self._topic, self._settings = topic, settings

    async def start(self, name: str) -> None:
        self._members.start(name, {**self._order(name), "topic": self._topic, "settings": {**self._settings, "client.id": name}})

    async def stop(self, name: str) -> None:
        self._members.tell(name, signal.SIGTERM)

    async def kill(self, name: str) -> None:
        self._members.tell(name, signal.SIGKILL)


Open = Callable[[Place, Members, Path, str, int], Any]
"""An async context manager of a System: given the place, the members, the output, a name and the number of partitions."""


@asynccontextmanager
async def baton(place: Place, members: Members, output: Path, name: str, partitions: int) -> AsyncIterator[System]:
    on_kafka = "kafka" in name
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place.folder)))
        world = await namespace(place.api, name)
        operator = Operator(place.kubeconfig, name, name, place.folder)
        stack.callback(operator.kill)
        await operator.leads()
        rebalance = {"delaySeconds": DELAY, "maxHandoffSeconds": 3}
        if on_kafka:
            place.broker.make_topic(name, partitions)
            source = {"type": "Kafka", "kafka": {"bootstrapServers": place.broker.servers, "topic": name}}
            await world.queue(QUEUE, source, None, rebalance=rebalance)
            environment = {"BATON_KAFKA_URL": f"kafka://{place.broker.servers}"}
            load = ("kafka", place.broker.servers, name)
        else:
            await world.redis(QUEUE, place.redis.url, partitions, rebalance=rebalance)
            environment = {"BATON_REDIS_URL": place.redis.url}
            load = ("redis", place.redis.url, f"{name}/{QUEUE}")
        await world.group(QUEUE, membership={"session": None})
        mount = folder / "assignments"
        mount.mkdir()
        stack.enter_context(LateLedger(place.kubeconfig, name, QUEUE, mount))
        system = Baton(members, output, world, place.kubeconfig, mount, environment)
        system.load = load
        stack.push_async_callback(system.close)
        yield system


def group(tuned: bool = False, **settings: str) -> Open:
    """Opens a group of Kafka's with these settings of librdkafka (`.` as `_`)."""

    @asynccontextmanager
    async def opened(place: Place, members: Members, output: Path, name: str, partitions: int) -> AsyncIterator[System]:
        place.broker.make_topic(name, partitions)
        made: dict[str, Any] = {
            "bootstrap.servers": place.broker.servers,
            "group.id": name,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        if tuned and made.get("group.protocol") == "consumer":
            await asyncio.to_thread(_tune, place.broker, name)
        elif tuned:
            made |= {"heartbeat.interval.ms": 1000, "session.timeout.ms": 6000}
        system = Group(members, output, name, made)
        system.load = ("kafka", place.broker.servers, name)
        yield system

    return opened


def _tune(broker: KafkaBroker, name: str) -> None:
    """With KIP-848 these two are the broker's."""
    given = "consumer.heartbeat.interval.ms=1000,consumer.session.timeout.ms=6000"
    options = ("--bootstrap-server", broker.servers, "--entity-type", "groups", "--entity-name", name)
    command = jars.java(
        "kafka.admin.ConfigCommand", *options, "--alter", "--add-config", given, lib=jars.place() / "lib", options=["-Xmx128m"]
    )
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))


BROKER_SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "log.segment.delete.delay.ms": "1000",
}
"""Without them nobody may ask for shorter ones than the defaults (5 s and 45 s)."""


@dataclass(frozen=True)
class Compared:
    """A system by its name in the table."""

    name: str
    open: Open
    quick: bool = field(default=False, kw_only=True)
    """It takes part in the quick run."""
    warms: bool = field(default=False, kw_only=True)
    """It lives once before any is measured: a broker that has just begun compiles its code while it answers, and whichever system
    came first would wait for that."""


SYSTEMS = (
    Compared("baton-redis", baton, quick=True),
    Compared("baton-kafka", baton, quick=True, warms=True),
    Compared("kafka-eager-tuned", group(True, partition_assignment_strategy="range"), warms=True),
    Compared("kafka-cooperative-tuned", group(True, partition_assignment_strategy="cooperative-sticky")),
    Compared("kafka-kip848-tuned", group(True, group_protocol="consumer"), quick=True, warms=True),
    Compared("kafka-eager", group(partition_assignment_strategy="range")),
    Compared("kafka-cooperative", group(partition_assignment_strategy="cooperative-sticky")),
    Compared("kafka-kip848", group(group_protocol="consumer")),
)
