"""A group that reads two topics of a real broker, with three pods as processes: every assignor, and static members."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baton.assignors.registry import BUILT_IN, get
from baton.assignors.request import Member, Request
from baton.model.ids import MemberId, Partition, QueueName
from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.conftest import RACK
from tests.integration.operator.kafka.fleet import UNHURRIED, KafkaFleet
from tests.integration.operator.world import Cluster, Operator, World
from tests.kafka_broker import KafkaBroker
from tests.promises import promised
from tests.waiting import eventually

Start = Callable[..., Operator]
ZONES = {"a": RACK, "b": RACK, "c": "west"}
ROOMS = ("machine-room",)


async def two_topics(world: World, broker: KafkaBroker, group: str, **spec: Any) -> dict[str, int]:
    """The topics, by their numbers of partitions, with their queues and their group, whose pods need sessions."""
    topics = {f"{group}-orders": 10, f"{group}-returns": 5}
    for topic, count in topics.items():
        broker.make_topic(topic, count)
        source = {"type": "Kafka", "kafka": {"bootstrapServers": broker.servers, "topic": topic}}
        await world.queue(topic, source, None, rebalance={"delaySeconds": 0, "maxHandoffSeconds": UNHURRIED})
    await world.group(group, topics, membership={"session": None, **spec.pop("membership", {})}, **spec)
    return topics


async def owners(world: World, group: str) -> dict[Partition, str]:
    """By the ledger."""
    return {partition: owner for partition, (owner, _) in (await grants(world, group)).items()}


async def grants(world: World, group: str) -> dict[Partition, tuple[str, int]]:
    """Each partition's owner, and the epoch of its grant."""
    return {
        Partition(queue, number): (member, epoch)
        for member, entry in (await world.entries(group)).items()
        for queue, of_queue in entry.owned.items()
        for number, epoch in of_queue.items()
    }


async def all_owned(world: World, group: str, topics: dict[str, int], by: set[str]) -> None:
    async def so() -> bool:
        found = await owners(world, group)
        return len(found) == sum(topics.values()) and {*found.values()} == by

    await eventually(so, f"all is owned by {by}", shown=lambda: world.ledger_data(group))


async def all_is_done(fleet: KafkaFleet) -> None:
    """Everything that was sent has been handled: once, and in its order."""
    found = await fleet.done()
    with promised():
        assert found.repeated == [], found


def planned(assignor: str, topics: dict[str, int], before: dict[Partition, str]) -> dict[Partition, str]:
    """What the registry's pure function says, asked with what the members own."""
    queues = {QueueName(topic): count for topic, count in topics.items()}
    members = {
        MemberId(name): Member(
            frozenset(queues), tuple(sorted(one for one, owner in before.items() if owner == name)), zone=zone, rank=rank
        )
        for rank, (name, zone) in enumerate(ZONES.items())
    }
    zones = {queue: (frozenset({RACK}),) * count for queue, count in queues.items()}
    options = {"rooms": frozenset({RACK})} if assignor in ROOMS else {}
    return {one: str(owner) for one, owner in get(assignor)(Request(queues, members, zones, options)).owners().items()}


@pytest.mark.long
async def test_every_assignors_plan_is_carried_out_and_all_is_consumed(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    world = await namespace(api, "every-assignor")
    await start(world, "one").leads()
    topics = await two_topics(world, broker, "every", assignors=["range"])
    with KafkaFleet(world, kubeconfig, broker, topics, "every", tmp_path) as fleet:
        for pod, zone in ZONES.items():
            await fleet.join(pod, labels={"topology.kubernetes.io/zone": zone})
        await all_owned(world, "every", topics, {*ZONES})
        plans = set()
        for assignor in (*BUILT_IN[::-1], "range"):
            expected = planned(assignor, topics, await owners(world, "every"))
            options = {"rooms": [RACK]} if assignor in ROOMS else None
            await world.change("consumergroups", "every", {"spec": {"assignors": [assignor], "assignorOptions": options}})
            await as_planned(world, assignor, expected)
            await fleet.handles(100)
            plans.add(frozenset(expected.items()))
        assert len(plans) > 3, "assignors differ"
        await all_is_done(fleet)


async def as_planned(world: World, assignor: str, expected: dict[Partition, str]) -> None:
    async def so() -> bool:
        status = await world.status("every")
        return status.get("assignor") == assignor and await owners(world, "every") == expected

    async def shown() -> object:
        found = await owners(world, "every")
        differing = {p: (found.get(p), owner) for p, owner in expected.items() if found.get(p) != owner}
        return differing, await world.condition("every"), await world.status("every")

    await eventually(so, f"{assignor}: owners are as it says (found, expected)", shown=shown)


async def test_a_returning_static_member_gets_its_partitions_back_and_no_other_moves(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    world = await namespace(api, "static-on-kafka")
    await start(world, "one").leads()
    index = "apps.kubernetes.io/pod-index"
    topics = await two_topics(world, broker, "static", membership={"identityLabel": index, "sessionTimeoutSeconds": 600})
    pods = {"s-0", "s-1", "s-2"}
    with KafkaFleet(world, kubeconfig, broker, topics, "static", tmp_path) as fleet:
        for pod in sorted(pods):
            await fleet.join(pod, labels={index: pod[-1]})
        await all_owned(world, "static", topics, pods)
        before = await grants(world, "static")
        await fleet.handles()
        await fleet.leave("s-1")
        await world.shows("static", state="Holddown")
        stay = {partition: grant for partition, grant in before.items() if grant[0] != "s-1"}
        assert stay.items() <= (await grants(world, "static")).items()
        await fleet.handles(of=stay)
        await fleet.join("s-1", labels={index: "1"})
        await all_owned(world, "static", topics, pods)
        after = await grants(world, "static")
        assert stay.items() <= after.items(), "no other partition got another grant"
        assert {partition for partition, (owner, _) in after.items() if owner == "s-1"} == before.keys() - stay.keys()
        await all_is_done(fleet)
