"""Events stay within the API server's limits."""

import asyncio
from random import Random
from typing import Any

import pytest
import structlog

from baton.kube.api import group_path
from baton.kube.clock import ApiServerClock
from baton.kube.events import EVENTS, MOST_IN_ALL, MOST_WAITING, Events, Kind, Regarding
from tests.simulation.api_server import ApiServer, Hang, MemoryApi


async def posted(name: str, note: str, instance: str = "one") -> list[dict[str, Any]]:
    server = ApiServer(Random(1), lambda: 0.0)
    server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "shop"}})
    events = Events(MemoryApi(server), instance, ApiServerClock())
    events.post(Regarding("baton.dev/v1alpha1", "ConsumerGroup", "shop", name, "uid"), Kind.NORMAL, "Rebalanced", note)
    posting = asyncio.create_task(events.run())
    for _ in range(10):
        await asyncio.sleep(0)
    posting.cancel()
    items: list[dict[str, Any]] = server.request("list", group_path(EVENTS, "shop", "events"))["items"]
    return items


@pytest.mark.parametrize("letter", ["x", "ü", "…", "🙂"])
async def test_a_note_is_cut_to_the_bytes_that_an_event_takes(letter: str) -> None:
    (event,) = await posted("orders", letter * 2000, instance=letter * 200)
    assert event["note"].rstrip("…") + "…" == event["note"] or letter == "…"
    assert 1020 <= len(event["note"].encode()) <= 1024
    assert len(event["reportingInstance"].encode()) <= 128
    (whole,) = await posted("orders", letter * (1024 // len(letter.encode())))
    assert whole["note"] == letter * (1024 // len(letter.encode()))


async def test_if_too_many_events_wait_the_oldest_are_dropped() -> None:
    server = ApiServer(Random(1), lambda: 0.0)
    server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "shop"}})
    events = Events(MemoryApi(server), "one", ApiServerClock())
    about = Regarding("baton.dev/v1alpha1", "ConsumerGroup", "shop", "orders", "uid")
    for number in range(MOST_WAITING + 5):
        events.post(about, Kind.NORMAL, "Rebalanced", f"note {number}")
    posting = asyncio.create_task(events.run())
    for _ in range(10 * MOST_WAITING):
        await asyncio.sleep(0)
    posting.cancel()
    notes = [event["note"] for event in server.request("list", group_path(EVENTS, "shop", "events"))["items"]]
    assert sorted(notes) == sorted(f"note {number}" for number in range(5, MOST_WAITING + 5))


async def test_waiting_events_are_limited_over_all_namespaces_and_dropped_ones_counted() -> None:
    server = ApiServer(Random(1), lambda: 0.0)
    events = Events(MemoryApi(server), "one", ApiServerClock())
    namespaces = [f"shop-{number}" for number in range(MOST_IN_ALL // 20)]
    for number in range(50):
        for namespace in namespaces:
            about = Regarding("baton.dev/v1alpha1", "ConsumerGroup", namespace, "orders", "uid")
            events.post(about, Kind.NORMAL, "Rebalanced", f"note {number}")
    waiting = sum(map(len, events._waiting.values()))
    assert waiting == MOST_IN_ALL
    with structlog.testing.capture_logs() as told:
        posting = asyncio.create_task(events.run())
        await events.posted(60)
        posting.cancel()
        await asyncio.wait([posting])
    dropped = [one["dropped"] for one in told if one["log_level"] == "warning"]
    assert dropped == [30] * len(namespaces)


@pytest.mark.parametrize("name", ["x" * 253, "x" * 219 + "-" + "y" * 20, "x" * 217 + "." + "yy." + "z" * 20])
async def test_an_event_has_a_name_even_if_its_objects_is_long(name: str) -> None:
    (event,) = await posted(name, "a note")
    assert event["regarding"]["name"] == name


async def test_events_that_hang_in_one_namespace_delay_no_other() -> None:
    server = ApiServer(Random(1), lambda: 0.0)
    for namespace in ("shop", "busy"):
        server.request("create", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    events = Events(MemoryApi(server, lambda verb, path: Hang() if "/busy/" in path else None), "one", ApiServerClock())
    for namespace, number in (("busy", 2 * MOST_WAITING), ("shop", 5)):
        about = Regarding("baton.dev/v1alpha1", "ConsumerGroup", namespace, "orders", "uid")
        for note in range(number):
            events.post(about, Kind.NORMAL, "Rebalanced", f"note {note}")
    posting = asyncio.create_task(events.run())
    for _ in range(100):
        await asyncio.sleep(0)
    posting.cancel()
    assert len(server.request("list", group_path(EVENTS, "shop", "events"))["items"]) == 5
