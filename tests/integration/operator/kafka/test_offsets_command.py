"""`baton offsets` of a group on a topic: where it is, and resets while no pod works on it."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from baton.kube.api import core_path
from tests.integration.kafka.test_security import Acls
from tests.integration.operator.baton_command import baton
from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.fleet import KafkaFleet
from tests.integration.operator.kafka.test_kafka import made, queue_of, send
from tests.integration.operator.world import Cluster, Operator, World
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.kafka_broker.commands import described
from tests.kafka_broker.jars import USERS
from tests.waiting import PATIENCE, eventually


@dataclass
class Told:
    """A group of two partitions, with the pod told-a."""

    world: World
    kubeconfig: Path
    broker: KafkaBroker

    async def baton(self, *arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
        return await baton(*arguments, "--kubeconfig", self.kubeconfig, "-n", self.world.namespace, answer=answer)

    async def reset(self, *arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
        return await self.baton("offsets", "reset", "told", *arguments, answer=answer)

    async def refused(self, *arguments: str) -> str:
        """What is said, in one line."""
        done = await self.reset(*arguments, "--yes")
        assert done.returncode != 0, done
        return done.stderr.strip().splitlines()[-1]

    async def rows(self) -> list[tuple[Any, ...]]:
        done = await self.baton("offsets", "told", "-o", "json")
        assert done.returncode == 0, done.stderr
        wanted = ("partition", "offset", "earliest", "end", "lag", "pending", "owner")
        return [tuple(row[name] for name in wanted) for row in json.loads(done.stdout)]

    async def become(self, *wanted: tuple[Any, ...]) -> None:
        async def so() -> bool:
            return await self.rows() == [*wanted]

        await eventually(so, f"the offsets are {wanted}", 3 * PATIENCE, shown=self.rows)

    async def paused(self) -> None:
        await self.baton("pause", "told")
        await self.world.seen("told")

    async def stopped(self) -> None:
        """It is paused, and its pod is gone."""
        await self.paused()
        await self.world.delete_pod("told-a")
        await self.world.shows("told", unowned=2)

    async def use(self, **source: Any) -> None:
        """Another source of the queue."""
        await self.world.change("partitionedqueues", "told", {"spec": {"source": {"kafka": source}}})


MakeTold = Callable[..., Any]


@pytest.fixture
def make_told(api: Cluster, start: Callable[..., Operator], kubeconfig: Path, broker: KafkaBroker) -> Iterator[MakeTold]:
    """`await make_told(name)`: in a namespace of this name; the topic has it, too."""

    async def make(name: str) -> Told:
        world = await namespace(api, name)
        await start(world, "one").leads()
        broker.make_topic(name, 2, **{"retention.ms": "-1"})  # messages from 2001 stay
        await queue_of(world, broker, "told", name)
        await world.group("told")
        await world.pod("told-a", "told")
        await world.spread("told", 2)
        return Told(world, kubeconfig, broker)

    yield make


async def test_offsets_are_shown_and_none_is_set_while_a_member_owns_them(make_told: MakeTold) -> None:
    told = await make_told("kafka-shown")
    send(told.broker, "kafka-shown", 1, "a", "b", "c")
    before = (0, 0, 0, 0, 0, None, "told-a"), (1, 0, 0, 3, 3, None, "told-a")
    await told.become(*before)
    table = (await told.baton("offsets", "told")).stdout.splitlines()
    assert table[2].split() == ["told", "1", "0", "3", "3", "?", "told-a"]
    assert "kafka-shown/told is not paused: `baton pause told -n kafka-shown`" in await told.refused("--to", "latest")
    await told.paused()
    assert "told-a may still work on these partitions" in await told.refused("--to", "latest")
    dry = await told.reset("--to", "latest", "--dry-run")
    assert dry.stdout.splitlines()[2].split() == ["told", "1", "0", "3", "3", "0"]
    assert dry.returncode == 1 and "a reset would be refused now" in dry.stderr
    await told.become(*before)


async def test_offsets_are_set_forward_and_back_and_the_next_owner_continues_there(make_told: MakeTold) -> None:
    told = await make_told("kafka-set")
    producer = Producer({**ORDERED, "bootstrap.servers": told.broker.servers})
    for number in range(5):
        producer.produce("kafka-set", str(number), partition=0, timestamp=1_000_000_000_000 + 1000 * number)
    assert producer.flush(PATIENCE) == 0
    await told.stopped()

    dry = await told.reset("--to", "latest", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    head, row, other = (line.split() for line in dry.stdout.splitlines()[:3])
    assert head == ["QUEUE", "PARTITION", "OFFSET", "NEW", "LEFT", "OUT", "READ", "AGAIN"]
    assert (row, other) == (["told", "0", "0", "5", "5", "0"], ["told", "1", "0", "0", "0", "0"])
    assert "dry run; nothing was changed" in dry.stdout
    no = await told.reset("--to", "3", "--partition", "0", answer="n\n")
    assert no.returncode == 1 and "Set 1 partition of told to 3: 3 entries left out?" in no.stdout
    await told.become((0, 0, 0, 5, 5, None, None), (1, 0, 0, 0, 0, None, None))

    yes = await told.reset("--to", "3", "--partition", "0", answer="y\n")
    assert yes.returncode == 0, yes.stderr
    assert "kafka-set/told: 1 partition of told set to 3, and 3 entries left out\n" in yes.stdout
    assert "To let the group continue: baton resume told -n kafka-set" in yes.stdout
    await told.become((0, 3, 0, 5, 2, None, None), (1, 0, 0, 0, 0, None, None))
    looked = await told.baton("peek", "told", "--partition", "0")
    assert [line.split()[0::3] for line in looked.stdout.splitlines()] == [["0/3", "3"], ["0/4", "4"]], looked
    again = await told.reset("--to", "3", "--partition", "0", "--yes")
    assert again.returncode == 0 and "already there; nothing was changed" in again.stdout
    time = await told.reset("--to", "2001-09-09T01:46:41Z", "--yes")
    assert "1 partition of told set to 2001-09-09T01:46:41Z, and 2 entries read again" in time.stdout, time
    await told.become((0, 1, 0, 5, 4, None, None), (1, 0, 0, 0, 0, None, None))
    assert "1 entry read again" in (await told.reset("--to", "earliest", "--yes")).stdout
    await told.reset("--to", "1", "--partition", "0", "--yes")

    await told.baton("resume", "told")
    await told.world.pod("told-b", "told")
    await told.world.spread("told", 2)
    await told.become((0, 1, 0, 5, 4, None, "told-b"), (1, 0, 0, 0, 0, None, "told-b"))


async def test_a_refused_reset_names_what_is_wrong_and_the_cure(make_told: MakeTold) -> None:
    told = await make_told("kafka-refused")
    send(told.broker, "kafka-refused", 0, "a", "b")
    await told.stopped()
    assert "Missing option '--to'" in await told.refused()
    assert "'--to': 'soon' is not earliest, latest, an offset, or a time with its zone" in await told.refused("--to", "soon")
    assert "told/0 has the offsets 0 to 2; earlier entries are gone" in await told.refused("--to", "3", "--partition", "0")
    assert "told has no partition 9: `baton offsets` lists" in await told.refused("--to", "latest", "--partition", "9")
    assert "has no queue orders, but told" in await told.refused("--to", "latest", "--queue", "orders")

    await told.use(bootstrapServers="127.0.0.1:1")
    said = await told.refused("--to", "latest")
    assert "127.0.0.1:1 does not answer" in said and "check whether its brokers run" in said

    secret = {"metadata": {"name": "kafka"}, "stringData": {"password": USERS["operator"]}}
    await told.world.api.create(core_path("kafka-refused", "secrets"), secret)
    sasl = {"user": "operator", "passwordSecretRef": {"name": "kafka"}}
    await told.use(bootstrapServers=f"127.0.0.1:{told.broker.sasl_port}", sasl=sasl)
    assert "user operator may not READ the topic kafka-refused: allow it by an ACL" in await told.refused("--to", "latest")
    acls = Acls(told.broker)
    acls.allow("operator", ResourceType.TOPIC, "kafka-refused", AclOperation.READ)
    assert "may not READ the group kafka-refused.told: allow it by an ACL" in await told.refused("--to", "latest")
    acls.allow("operator", ResourceType.GROUP, "kafka-refused.told", AclOperation.READ)
    said = await told.refused("--to", "latest")
    assert "user operator may not WRITE the transactional id baton.kafka-refused.told/kafka-refused/0" in said
    assert said.endswith("allow it by a prefixed ACL on baton.kafka-refused.told/; 0 partitions are set")
    acls.allow("operator", ResourceType.TRANSACTIONAL_ID, "baton.kafka-refused.told/", AclOperation.WRITE, prefixed=True)
    assert (await told.reset("--to", "latest", "--yes")).returncode == 0
    admin = told.broker.admin()  # what is asked of it ends with it
    admin.delete_topics(["kafka-refused"])["kafka-refused"].result(PATIENCE)
    said = await told.refused("--to", "earliest")
    assert "there is no topic kafka-refused" in said and said.endswith("create it, or correct spec.source.kafka.topic")


# -- A group is set back ("Setting the offset" in docs/guides/kafka.md) while one of its pods sleeps.


Start = Callable[..., Operator]


@pytest.mark.long
async def test_a_paused_group_without_pods_is_set_back_and_continues_there(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    name, group_id = "set-back", "set-back.set-back"
    world = await namespace(api, name)
    await start(world, "one").leads()
    broker.make_topic(name, 2)
    await made(world, broker, name)
    with KafkaFleet(world, kubeconfig, broker, {name: 2}, name, tmp_path) as fleet:
        await fleet.join("a", "b")
        await world.spread(name, 1, 1)
        await fleet.handles()
        await world.change("consumergroups", name, {"spec": {"paused": True}})
        await world.seen(name)
        fleet.freeze("a")
        await fleet.leave("b")
        await world.delete_pod("a")

        async def places() -> set[int]:
            return {place for place, _, _ in (await asyncio.to_thread(described, broker, group_id)).values()}

        async def is_set() -> bool:
            done = await baton("offsets", "reset", name, "-n", name, "--to", "earliest", "--yes", "--kubeconfig", kubeconfig)
            return done.returncode == 0 and await places() == {0}

        await eventually(is_set, "`baton offsets reset` sets the place")
        fleet.thaw("a")
        fleet.processes["a"].terminate()
        await asyncio.to_thread(fleet.processes["a"].wait, PATIENCE)  # it would commit what it has done
        assert await places() == {0}
        before = len(fleet.handled())
        await fleet.join("c")
        await world.change("consumergroups", name, {"spec": {"paused": False}})
        await world.spread(name, 2)
        await fleet.handles()
        again = [one for one in fleet.handled()[before:] if one.pod == "c"]
        assert [next(one.offset for one in again if one.partition.number == number) for number in range(2)] == [0, 0]
