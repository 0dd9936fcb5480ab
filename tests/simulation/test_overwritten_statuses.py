"""Statuses that somebody else writes over: a leader that lost its lead and wrote late, or anybody."""

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
def test_a_status_that_somebody_else_wrote_is_put_right(path: str, forged: dict[str, Any]) -> None:
    async def story(lone: Lone) -> None:
        await lone.group("shop", "a")
        await asyncio.sleep(10)
        before = (await lone.api.get(path))["status"]
        lone.server.request("update", f"{path}/status", body={**await lone.api.get(path), "status": forged})
        assert (await lone.api.get(path))["status"] == forged
        await asyncio.sleep(REPORTS_EVERY + 10)
        after = (await lone.api.get(path))["status"]
        assert _timeless(after) == _timeless(before)

    played(story)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_status_that_nobody_touches_is_not_written(path: str) -> None:
    async def story(lone: Lone) -> None:
        await lone.group("shop", "a")
        await asyncio.sleep(10)
        before = await lone.api.get(path)
        await asyncio.sleep(600)
        assert await lone.api.get(path) == before

    played(story)


def test_a_status_that_is_refused_is_tried_ever_more_seldom() -> None:
    async def story(lone: Lone) -> None:
        tries: list[float] = []

        def refuse(verb: str, path: str) -> Refuse | None:
            if verb == "patch" and path == PATHS["queue"] + "/status":
                tries.append(lone.loop.time())
                return Refuse(403, "Forbidden", "no")
            return None

        lone.fails = refuse
        await lone.group("shop", "a")
        await asyncio.sleep(600)
        assert 10 <= len(tries) <= 600 / LONGEST_RETRY + 10
        assert max(after - before for before, after in pairwise(tries)) <= LONGEST_RETRY + 1
        lone.fails = lambda verb, path: None
        await asyncio.sleep(LONGEST_RETRY + 1)
        assert (await lone.api.get(PATHS["queue"]))["status"]["conditions"]

    played(story)


@pytest.mark.parametrize("code", [404, 409])
def test_one_refusal_leaves_no_status_of_a_queue_that_is_there_stale(code: int) -> None:
    """Of two who wrote at once one may be told 409, and 404 while the kind is not served."""

    async def story(lone: Lone) -> None:
        path, refused = PATHS["queue"], list[float]()

        def refuse_once(verb: str, at: str) -> Refuse | None:
            if verb == "patch" and at == f"{path}/status" and not refused:
                refused.append(lone.loop.time())
                return Refuse(code, "", "once")
            return None

        await lone.group("shop", "a")
        await asyncio.sleep(10)
        before = (await lone.api.get(path))["status"]
        lone.fails = refuse_once
        lone.server.request("update", f"{path}/status", body={**await lone.api.get(path), "status": {"conditions": [LATE]}})
        await asyncio.sleep(REPORTS_EVERY + LONGEST_RETRY)
        assert refused
        assert _timeless((await lone.api.get(path))["status"]) == _timeless(before)

    played(story)


def _timeless(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**one, "lastTransitionTime": ""} for one in status["conditions"]]
    return {**status, "conditions": conditions, "lastChangeTime": ""}
