"""A consumer's metrics, on a real Redis."""

import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

from prometheus_client import CollectorRegistry, generate_latest

from baton.consumer import AssignmentSource, Consumer, Entry
from baton.consumer.handler_options import HandlerOptions
from baton.consumer.metrics import ConsumerMetrics
from baton.model.ids import Epoch, MemberId, Uid
from baton.queues.redis import RedisReader
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue, own_queue
from tests.integration.redis.pods import write_ledger
from tests.waiting import PATIENCE, until

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
UID = Uid("uid-of-a")


class Measured:
    """A consumer with metrics, in a thread; its ledger is a directory."""

    def __init__(
        self, queue: Queue, directory: Path, handler: Callable[[Entry], object], **options: Unpack[HandlerOptions]
    ) -> None:
        self._queue = queue
        self._directory = directory
        self._registry = CollectorRegistry()
        self.consumer = Consumer(
            lambda name: RedisReader(queue.url, f"shop/{name}", UID),
            AssignmentSource(directory, MemberId("pod"), UID),
            UID,
            metrics=ConsumerMetrics(self._registry),
        )
        self.thread = threading.Thread(target=self.consumer.run, args=(handler,), kwargs=options, daemon=True)
        self.thread.start()

    def ledger(self, owned: dict[int, int], revoking: dict[int, int] | None = None) -> None:
        write_ledger(self._directory, self._queue, UID, owned, revoking)

    def says(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(
            f"baton_consumer_{name}", {"queue": self._queue.name.removeprefix("shop/")} | labels
        )

    def page(self) -> str:
        return generate_latest(self._registry).decode()


@asynccontextmanager
async def measured(
    queue: Queue, directory: Path, handler: Callable[[Entry], object] = lambda _: None, **options: Unpack[HandlerOptions]
) -> AsyncIterator[Measured]:
    running = Measured(queue, directory, handler, **options)
    yield running
    running.ledger({})
    running.consumer.stop()
    until(lambda: not running.thread.is_alive())


async def test_entries_are_counted_and_hand_offs_timed(queue: Queue, tmp_path: Path) -> None:
    failing = {b"2"}

    def handle(entry: Entry) -> None:
        if entry.value in failing:
            failing.clear()
            raise ValueError("once")

    queue.send(*map(str, range(5)))
    await queue.operator.grant(0, UID, Epoch(1))
    async with measured(queue, tmp_path, handle) as pod:
        pod.ledger({0: 1})
        until(lambda: pod.says("handled_total") == 5)
        assert (pod.says("failed_total"), pod.says("redelivered_total"), pod.says("dead_letters_total")) == (1, 1, 0)
        assert (pod.says("partitions"), pod.says("lag")) == (1, 0)
        assert pod.says("takeover_seconds_count") == 1
        assert pod.says("release_seconds_count") is None
        pod.ledger({}, revoking={0: 1})
        until(lambda: pod.says("release_seconds_count") == 1)
        assert pod.says("refused_total") == 0


async def test_unacknowledged_entries_count_as_lag(queue: Queue, tmp_path: Path) -> None:
    go_on = threading.Event()
    queue.send("a", "b", "c")
    queue.send("of nobody", partition=1)
    await queue.operator.grant(0, UID, Epoch(1))
    async with measured(queue, tmp_path, lambda _: go_on.wait(PATIENCE)) as pod:
        pod.ledger({0: 1})
        until(lambda: pod.says("takeover_seconds_count") == 1)
        assert pod.says("lag") == 3
        go_on.set()
        until(lambda: pod.says("lag") == 0)


async def test_metrics_show_the_oldest_entry_while_its_handler_runs(queue: Queue, tmp_path: Path) -> None:
    go_on = threading.Event()
    await queue.limited(most=1)
    queue.send("a", "b")
    await queue.operator.grant(0, UID, Epoch(1))
    async with measured(queue, tmp_path, lambda _: go_on.wait(PATIENCE)) as pod:
        pod.ledger({0: 1})
        until(lambda: (pod.says("oldest_entry_seconds") or 0) > 0.1)
        assert pod.says("handling_seconds_count", outcome="returned") == 0
        go_on.set()
        until(lambda: pod.says("handling_seconds_count", outcome="returned") == 2)
        assert (pod.says("handling_seconds_sum", outcome="returned") or 0) > 0.1
        until(lambda: pod.says("oldest_entry_seconds") == 0)
        until(lambda: pod.says("at_limit") == 0)


async def test_metrics_show_a_program_at_its_unacked_limit(queue: Queue, tmp_path: Path) -> None:
    await queue.limited(most=2)
    queue.send("a", "b", "c")
    await queue.operator.grant(0, UID, Epoch(1))
    kept: list[Entry] = []
    async with measured(queue, tmp_path, kept.append, manual_ack=True) as pod:
        pod.ledger({0: 1})
        until(lambda: pod.says("at_limit") == 1)
        kept[0].ack()
        until(lambda: len(kept) == 3)


async def test_consumer_and_operator_report_the_same_lag(queue: Queue) -> None:
    queue.send("a", "b", "c")
    reader = await queue.granted("uid-of-b", 1)
    reader.ack(0, Epoch(1), [reader.read(0, Epoch(1))[0].offset])
    queue.raw().hincrby(partition_keys(queue.name, 1).progress, "staged", 2)  # as while the number of partitions changes
    assert reader.lag(range(queue.partitions)) == sum((await queue.operator.check()).lag.values()) == 4


async def test_the_metrics_page_omits_the_lag_of_an_unreachable_queue(tmp_path: Path) -> None:
    async with own_queue(fsync="always") as (server, queue):
        await queue.operator.grant(0, UID, Epoch(1))
        queue.send("a")
        async with measured(queue, tmp_path) as pod:
            pod.ledger({0: 1})
            until(lambda: pod.says("handled_total") == 1)
            server.kill()
            assert pod.says("lag") is None
            assert pod.says("partitions") == 1
            server.start()
            until(lambda: pod.says("lag") == 0)


async def test_the_reference_lists_exactly_the_metrics_served(queue: Queue, tmp_path: Path) -> None:
    async with measured(queue, tmp_path) as pod:
        served = set(re.findall(r"^# TYPE (\w+)", pod.page(), re.MULTILINE))
    served = {name for name in served if not name.endswith("_created")}
    assert set(re.findall(r"`(baton_consumer_\w+)`", PAGE.read_text())) == served
