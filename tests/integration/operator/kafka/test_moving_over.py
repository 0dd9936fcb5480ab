"""A group of Kafka's own protocol becomes Baton's and goes back, under load, as docs/guides/kafka.md says ("Moving over, and
back"): nothing is lost, nothing is done twice, and Kafka's own command shows place and lag all the way."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer

from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.fleet import UNHURRIED, KafkaFleet
from tests.integration.operator.world import Cluster, Operator
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.commands import described
from tests.promises import promised
from tests.waiting import PATIENCE

Start = Callable[..., Operator]
PARTITIONS = 4


class KafkasConsumer:
    """A context manager: one of Kafka's own protocol, that commits what it has written down before it reads on."""

    def __init__(self, broker: KafkaBroker, group: str, protocol: str, output: Path, *, begins: str) -> None:
        """`begins`: what it does where nothing is committed."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": group,
                "client.id": "theirs",
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": begins,
            }
        )
        self._consumer.subscribe([group])
        self._output = output
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[str] = []

    def _run(self) -> None:
        with self._output.open("a", buffering=1) as output:
            while not self._enough.is_set():
                messages = self._consumer.consume(500, 0.1)
                for message in messages:
                    if (error := message.error()) is not None:
                        self.errors.append(str(error))
                    else:
                        output.write(f"{message.topic()} {message.partition()} {message.offset()} 0 0 theirs\n")
                if messages:
                    self._consumer.commit(asynchronous=False)

    def consumes_no_more(self) -> None:
        """It stays a member for as long as Kafka takes it for one."""
        self._enough.set()
        self._thread.join(PATIENCE)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.consumes_no_more()
        self._consumer.close()


async def shown_at_the_place(broker: KafkaBroker, fleet: KafkaFleet) -> int:
    """Kafka's command shows the place behind what has been handled, and what is left. Returns that."""
    found = await asyncio.to_thread(described, broker, fleet.group)
    reached = {one.partition: one.offset + 1 for one in fleet.handled()}
    assert {partition: place for partition, (place, _, _) in found.items()} == reached
    assert all(lag == end - place for place, end, lag in found.values()), found
    return sum(lag for _, _, lag in found.values())


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_moves_over_and_back_and_nothing_is_lost_or_done_twice(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path, protocol: str
) -> None:
    name = f"moved-{protocol}"
    world = await namespace(api, name)
    await start(world, "one").leads()
    broker.make_topic(name, PARTITIONS)
    with KafkaFleet(world, kubeconfig, broker, {name: PARTITIONS}, name, tmp_path, name) as fleet:
        with KafkasConsumer(broker, name, protocol, fleet.output, begins="earliest") as theirs:
            await fleet.handles(200)
            theirs.consumes_no_more()
            await shown_at_the_place(broker, fleet)

            kafka = {"bootstrapServers": broker.servers, "topic": name, "groupId": name}
            rebalance = {"delaySeconds": 0, "maxHandoffSeconds": UNHURRIED}
            await world.queue(name, {"type": "Kafka", "kafka": kafka}, None, rebalance=rebalance)
            await world.group(name, membership={"session": None})
            await fleet.join("a", "b")
            said = await world.told(name, "Conflict")
            assert "has members of Kafka's own protocol: theirs (" in said and "Stop them" in said
            before = len(fleet.handled())
        await world.spread(name, 2, 2)
        await world.told(name, "Ready")
        await fleet.handles(200)
        assert {one.pod for one in fleet.handled()[before:]} == {"a", "b"}
        assert len(await asyncio.to_thread(described, broker, name)) == PARTITIONS

        await fleet.leave("a")
        await fleet.leave("b")
        await shown_at_the_place(broker, fleet)
        await world.delete("consumergroups", name)
        await world.gone(name)
        await shown_at_the_place(broker, fleet)

        with KafkasConsumer(broker, name, protocol, fleet.output, begins="error") as theirs:
            await fleet.handles(200)
            found = await fleet.done()
        assert theirs.errors == []
        with promised():
            assert found.repeated == [], found
        assert await shown_at_the_place(broker, fleet) == 0
