"""Pods without a mounted ledger: the queue alone tells them their partitions and hand-offs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from baton.consumer import AnnouncedAssignments, AssignmentSource, Consumer
from baton.consumer.callbacks import Callbacks
from baton.model.ids import MemberId, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisAnnouncements, RedisProducer, RedisQueue, RedisReader
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

PARTITIONS, KEYS, ENTRIES = 4, 16, 5


class Handled:
    """Entries that pods have handled: pod, key, value, and whether it was marked."""

    def __init__(self) -> None:
        self.log: list[tuple[str, bytes, int, bool]] = []

    @contextmanager
    def by(
        self, world: World, group: str, pod: str, uid: Uid, url: str, ledger: Path, callbacks: Callbacks | None = None
    ) -> Iterator[None]:
        """A consumer of that pod, whose ledger stays as it is."""
        named = f"{world.namespace}/{group}"
        announced = AnnouncedAssignments(
            AssignmentSource(ledger, MemberId(pod), uid), RedisAnnouncements(url, named, uid), named, MemberId(pod), uid
        )

        def reader(queue: QueueName) -> RedisReader:
            return RedisReader(url, f"{world.namespace}/{queue}", uid)

        consumer = Consumer(reader, announced, uid, grace=5.0, callbacks=callbacks)
        thread = Thread(target=consumer.run, args=(lambda entry: self._handle(pod, entry),), daemon=True)
        thread.start()
        yield
        consumer.stop()
        thread.join()

    def _handle(self, pod: str, entry: Entry) -> None:
        self.log.append((pod, entry.key, int(entry.value), entry.redelivered))


async def test_hand_offs_work_without_a_mounted_ledger(api: Cluster, start: Callable[..., Operator], tmp_path: Path) -> None:
    world = await namespace(api, "announced")
    await start(world, "one").leads()
    handled = Handled()
    with RedisServer() as server, RedisProducer(server.url, f"{world.namespace}/orders", patience=60) as producer:
        await world.redis("orders", server.url, partitions=PARTITIONS, rebalance={"delaySeconds": 0})
        await world.group("orders")
        queue = RedisQueue(server.url, f"{world.namespace}/orders", Claimant("only looks", ""))
        sent = 0

        async def work_through() -> None:
            nonlocal sent
            for number in range(sent, sent + ENTRIES):
                producer.send_many((f"key-{key}", str(number)) for key in range(KEYS))
            sent += ENTRIES

            async def so() -> bool:
                return sum((await queue.check()).lag.values()) == 0

            await eventually(so, "all are handled and acknowledged", shown=lambda: world.ledger_data("orders"))

        first = await world.pod("orders-a", "orders")
        with handled.by(world, "orders", "orders-a", first, server.url, tmp_path):
            await world.spread("orders", PARTITIONS)
            await work_through()
            second = await world.pod("orders-b", "orders")
            with handled.by(world, "orders", "orders-b", second, server.url, tmp_path):
                await world.spread("orders", PARTITIONS // 2, PARTITIONS // 2)
                await work_through()
                await world.delete_pod("orders-b")
                await world.spread("orders", PARTITIONS)
                await work_through()
        await queue.close()
    assert {pod for pod, *_ in handled.log} == {"orders-a", "orders-b"}
    for key in range(KEYS):
        assert [value for _, name, value, _ in handled.log if name == b"key-%d" % key] == list(range(sent))
    assert not any(redelivered for *_, redelivered in handled.log)


async def test_a_pod_in_its_pre_stop_hook_releases_within_its_grace_period(
    api: Cluster, start: Callable[..., Operator], tmp_path: Path
) -> None:
    """The hook takes of the grace period, and the process hears nothing of its end until it is over."""
    world = await namespace(api, "ending")
    await start(world, "one").leads()
    revoked: list[object] = []
    callbacks = Callbacks(None, lambda partitions, left: revoked.extend(partitions), None)
    with RedisServer() as server:
        await world.redis("orders", server.url, partitions=PARTITIONS, rebalance={"delaySeconds": 600})
        await world.group("orders")
        (uid,) = await world.together("orders", world.pod("orders-a", "orders"))
        with Handled().by(world, "orders", "orders-a", uid, server.url, tmp_path, callbacks):
            await world.spread("orders", PARTITIONS)
            await world.terminate("orders-a", grace=9)

            async def released() -> bool:
                return len(revoked) == PARTITIONS

            await eventually(released, "all partitions are released", shown=lambda: world.ledger_data("orders"))
            entries = await world.entries("orders")
            assert not entries["orders-a"].owned
