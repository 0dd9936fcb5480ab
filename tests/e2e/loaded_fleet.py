"""A fleet of plain pods under load, and the verdict on every message at the end."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

from cluster import Cluster
from tests.e2e.installing import namespace
from tests.e2e.plain_fleet import PARTITIONS, QUEUE, Fleet
from tests.kafka_broker import KafkaBroker
from tests.load import sink
from tests.load.producer import Load, TopicSender
from tests.load.witness import Witness
from tests.redis_server import RedisServer
from tests.waiting import until


@contextmanager
def under_load(
    node: Cluster,
    name: str,
    *,
    replicas: int = 3,
    scale: str | None = None,
    kind: str = "Deployment",
    rate: int = 150,
    graceful: bool = False,
    source: str = "Redis",
    delay: int = 2,
    hook: int = 0,
) -> Iterator[Fleet]:
    """Consumers with load and, where the `source` is Redis, a witness; at the end, the verdict. `rate`: messages in a second.
    `graceful`: no pod is cut off, so each message is processed once, and none is marked as redelivered. `source`: the queue's
    type. The others: see Fleet."""
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(bind=node.address))
        broker = stack.enter_context(KafkaBroker(address=node.address)) if source == "Kafka" else None
        if broker:
            broker.make_topic(QUEUE, PARTITIONS)
        stack.enter_context(namespace(node, name))
        queue = f"{name}/{QUEUE}"
        brokers = broker.servers if broker else ""
        fleet = Fleet(node, name, server.url, delay, scale=scale, kind=kind, brokers=brokers, hook=hook)
        fleet.deploy(replicas)
        fleet.settled(replicas)
        witness = None if broker else Witness(server.url, queue, PARTITIONS)
        sender = TopicSender(broker.servers, QUEUE) if broker else None
        with Load(server.url, queue, rate, sender=sender) as load, witness or nullcontext():
            yield fleet
            load.pause()
            until(lambda: processed(server, queue) >= load.total, "all is done", 300)
        rows = sink.rows(server.client(), queue)
        status = fleet.group()["status"]
        fleet.delete()
    verdict = sink.judged(load.produced, rows, witness)
    print(f"{name}: {len(rows)} processings of {verdict.processed}, {verdict.redelivered} redelivered; {status['moves']} moves")
    assert not graceful or (len(rows), verdict.redelivered) == (verdict.processed, 0), verdict
    assert witness is None or witness.attempts
    assert status["moves"] >= status["lowerBound"]


def processed(server: RedisServer, queue: str) -> int:
    """Distinct messages whose processing was taken."""
    return len({(row.key, row.sequence) for row in sink.rows(server.client(), queue) if not row.late})
