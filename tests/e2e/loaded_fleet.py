"""A fleet of plain pods under load, and the verdict on every message at the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from cluster import Cluster
from demo.audit import audit
from demo.records import Evidence
from tests.e2e.installing import namespace
from tests.e2e.plain_fleet import PARTITIONS, QUEUE, Fleet
from tests.load import sink
from tests.load.producer import Load
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
    rate: int = 500,
    graceful: bool = False,
) -> Iterator[Fleet]:
    """Consumers with load and a witness; at the end, the verdict. `rate`: messages in a second. `graceful`: nobody is cut off, so
    each message is processed once, and none is marked as redelivered. The others: see Fleet."""
    with RedisServer(bind=node.address) as server, namespace(node, name):
        queue = f"{name}/{QUEUE}"
        fleet = Fleet(node, name, server.url, scale=scale, kind=kind)
        fleet.deploy(replicas)
        fleet.settled(replicas)
        with Load(server.url, queue, rate) as load, Witness(server.url, queue, PARTITIONS) as witness:
            yield fleet
            load.pause()
            until(lambda: processed(server, queue) >= load.total, "all is done", 300)
        rows = sink.rows(server.client(), queue)
        status = fleet.group()["status"]
        fleet.delete()
    verdict = audit(Evidence(load.produced, rows, witness.fences, witness.attempts))
    assert verdict.clean, verdict
    print(f"{name}: {len(rows)} processings of {verdict.processed}, {verdict.redelivered} redelivered; {status['moves']} moves")
    assert not graceful or (len(rows), verdict.redelivered) == (verdict.processed, 0), verdict
    assert verdict.produced == verdict.processed > 0
    assert sink.double_owners(rows) == []
    assert witness.attempts
    assert witness.broken == []
    assert status["moves"] >= status["lowerBound"]


def processed(server: RedisServer, queue: str) -> int:
    """Distinct messages whose processing was taken."""
    return len({(row.key, row.sequence) for row in sink.rows(server.client(), queue) if not row.late})
