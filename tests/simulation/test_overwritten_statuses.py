"""Statuses that are overwritten, such as by a former leader that wrote late."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from baton.controller.group_loops import REPORTS_EVERY
from baton.controller.status_writer import LONGEST_RETRY
from baton.kube.objects import groups_path, queues_path
from tests.simulation.api_server import Refuse
from tests.simulation.replicas import Lone, played

PATHS = {"queue": queues_path("shop", "orders"), "group": groups_path("shop", "orders")}
LATE = {
    "type": "Ready",
    "status": "False",
    "reason": "QueueUnreachable",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("forged", [{}, {"conditions": [LATE]}, {"partitions": 77}], ids=["nothing", "a late write", "a field"])
@played
async def test_an_overwritten_status_is_restored(lone: Lone, path: str, forged: dict[str, Any]) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(10)
    before = lone.get(path)["status"]
    lone.server.request("update", f"{path}/status", body={**lone.get(path), "status": forged})
    assert lone.get(path)["status"] == forged
    await asyncio.sleep(REPORTS_EVERY + 10)
    after = lone.get(path)["status"]
    assert _timeless(after) == _timeless(before)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@played
async def test_an_unchanged_status_is_not_written(lone: Lone, path: str) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(10)
    before = lone.get(path)
    await asyncio.sleep(600)
    assert lone.get(path) == before


@played
async def test_a_refused_status_is_retried_with_growing_pauses(lone: Lone) -> None:
    tries: list[float] = []

    def refuse(verb: str, path: str) -> Refuse | None:
        if verb == "patch" and path == PATHS["queue"] + "/status":
            tries.append(lone.loop.time())
            return Refuse(403, "Forbidden", "no")
        return None

    lone.fails = refuse
    lone.group("shop", "a")
    await asyncio.sleep(600)
    assert 10 <= len(tries) <= 600 / LONGEST_RETRY + 10
    assert max(after - before for before, after in pairwise(tries)) <= LONGEST_RETRY + 1
    lone.fails = lambda verb, path: None
    await asyncio.sleep(LONGEST_RETRY + 1)
    assert lone.get(PATHS["queue"])["status"]["conditions"]


@pytest.mark.parametrize("code", [404, 409])
@played
async def test_a_single_refusal_leaves_no_stale_status(lone: Lone, code: int) -> None:
    """Of two who wrote at once one may be told 409, and 404 while the kind is not served."""
    path, refused = PATHS["queue"], list[float]()

    def refuse_once(verb: str, at: str) -> Refuse | None:
        if verb == "patch" and at == f"{path}/status" and not refused:
            refused.append(lone.loop.time())
            return Refuse(code, "", "once")
        return None

    lone.group("shop", "a")
    await asyncio.sleep(10)
    before = lone.get(path)["status"]
    lone.fails = refuse_once
    lone.server.request("update", f"{path}/status", body={**lone.get(path), "status": {"conditions": [LATE]}})
    await asyncio.sleep(REPORTS_EVERY + LONGEST_RETRY)
    assert refused
    assert _timeless(lone.get(path)["status"]) == _timeless(before)


def _timeless(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**one, "lastTransitionTime": ""} for one in status["conditions"]]
    return {**status, "conditions": conditions, "lastChangeTime": ""}
