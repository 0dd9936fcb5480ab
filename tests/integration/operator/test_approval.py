"""Proposals and manual requests, as a person meets them: with kubectl, and with `baton approve` and `baton rebalance`."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from tests.integration.operator import baton_command
from tests.integration.operator.world import SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

SOON = {"delaySeconds": 1}


async def baton(kubeconfig: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return await baton_command.baton(*arguments, "-n", SHOP, "--kubeconfig", kubeconfig, answer=answer)


async def kubectl(control_plane: Cluster, *arguments: str) -> str:
    return await asyncio.to_thread(control_plane.kubectl, *arguments, "-n", SHOP)


async def proposal(world: World, group: str, other_than: str | None = None) -> dict[str, Any]:
    """Wait for one."""

    async def so() -> bool:
        found = (await world.status(group)).get("proposal")
        return found is not None and found["id"] != other_than

    await eventually(so, f"{group} proposes something", shown=lambda: world.get_group(group))
    found: dict[str, Any] = (await world.status(group))["proposal"]
    return found


async def no_proposal(world: World, group: str) -> None:
    async def so() -> bool:
        return "proposal" not in await world.status(group)

    await eventually(so, f"{group} proposes nothing", shown=lambda: world.status(group))


async def said(world: World, group: str, reason: str, text: str = "") -> str:
    """Wait for an event about the group with this text in its note; the note."""
    notes: list[str] = []

    async def so() -> bool:
        of_group = [event["note"] for event in await world.events(reason) if event["regarding"]["name"] == group]
        notes[:] = [note for note in of_group if text in note]
        return bool(notes)

    await eventually(so, f"{group} has an event {reason}")
    return notes[0]


async def with_proposal(world: World, group: str, url: str) -> dict[str, Any]:
    """Two pods have two partitions each, and a third has joined."""
    await world.redis(group, url, partitions=4, rebalance=SOON)
    await world.group(group, approval="Manual")
    await world.together(group, world.pod(f"{group}-a", group), world.pod(f"{group}-b", group))
    await world.spread(group, 2, 2)
    await world.pod(f"{group}-c", group)
    return await proposal(world, group)


async def test_a_proposal_is_shown_and_approved_by_an_annotation(
    shop: World, control_plane: Cluster, redis_server: RedisServer
) -> None:
    shown = await with_proposal(shop, "annotated", redis_server.url)
    assert (shown["moves"], shown["paused"], shown["longestPauseSeconds"]) == (1, 1, 2)
    assert shown["reason"] == "annotated-c joined"
    (move,) = shown["handoffs"]
    assert move["to"] == "annotated-c"
    assert {change["member"]: change["after"] - change["before"] for change in shown["members"]} == {
        move["from"]: -1,
        "annotated-c": 1,
    }
    condition = await shop.condition("annotated", "ProposalReady")
    assert (condition["status"], condition["reason"]) == ("True", "WaitingForApproval")
    assert shown["id"] in condition["message"]
    assert await shop.counts("annotated") == {"annotated-a": 2, "annotated-b": 2, "annotated-c": 0}
    assert (await shop.status("annotated"))["state"] == "Ready"
    described = await kubectl(control_plane, "describe", "cg", "annotated")
    assert "baton approve annotated" in described

    await kubectl(control_plane, "annotate", "cg", "annotated", f"baton.dev/approve={shown['id']}")
    await shop.spread("annotated", 2, 1, 1)
    await no_proposal(shop, "annotated")
    assert shown["id"] in await said(shop, "annotated", "Approved")
    granted = f"annotated-c owns partition {move['partitions']} of annotated from {move['from']}, paused for "
    assert await said(shop, "annotated", "Granted", granted)


async def test_an_approval_of_another_id_is_refused_with_an_event(
    shop: World, control_plane: Cluster, redis_server: RedisServer
) -> None:
    shown = await with_proposal(shop, "obsolete", redis_server.url)
    await kubectl(control_plane, "annotate", "cg", "obsolete", "baton.dev/approve=monday")
    note = await said(shop, "obsolete", "ApprovalRefused")
    assert "no proposal monday" in note and shown["id"] in note
    assert await shop.counts("obsolete") == {"obsolete-a": 2, "obsolete-b": 2, "obsolete-c": 0}
    assert (await proposal(shop, "obsolete"))["id"] == shown["id"]


async def test_baton_approve_shows_asks_and_refuses_an_outdated_proposal(
    shop: World, kubeconfig: Path, redis_server: RedisServer
) -> None:
    shown = await with_proposal(shop, "asked-for", redis_server.url)
    declined = await baton(kubeconfig, "approve", "asked-for", answer="n\n")
    assert declined.returncode == 1
    assert f"Proposal {shown['id']}" in declined.stdout and "-> asked-for-c" in declined.stdout
    assert "1 partition would be paused" in declined.stdout and "for at most 2 s" in declined.stdout
    assert (await proposal(shop, "asked-for"))["id"] == shown["id"]

    await shop.delete_pod("asked-for-c")
    await shop.pod("asked-for-d", "asked-for")
    new = await proposal(shop, "asked-for", other_than=shown["id"])
    assert {move["to"] for move in new["handoffs"]} == {"asked-for-d"}
    late = await baton(kubeconfig, "approve", "asked-for", shown["id"], "--yes")
    assert late.returncode == 1
    assert "nothing was approved" in late.stderr and new["id"] in late.stderr

    done = await baton(kubeconfig, "approve", "asked-for", new["id"], "--yes")
    assert done.returncode == 0, done.stderr
    await shop.spread("asked-for", 2, 1, 1)
    await no_proposal(shop, "asked-for")
    nothing = await baton(kubeconfig, "approve", "asked-for", "--yes")
    assert nothing.returncode == 1 and "has no proposal to approve" in nothing.stderr


async def test_a_proposal_outlives_the_operator(empty: World, start: Any, redis_server: RedisServer) -> None:
    first: Operator = start(empty)
    await first.leads()
    before = await with_proposal(empty, "kept", redis_server.url)
    first.kill()
    await (start(empty, "two")).leads()
    await empty.change("consumergroups", "kept", {"metadata": {"annotations": {"baton.dev/approve": before["id"]}}})
    await empty.spread("kept", 2, 1, 1)
    assert before["id"] in await said(empty, "kept", "Approved")


async def test_baton_rebalance_makes_a_plan(shop: World, kubeconfig: Path, redis_server: RedisServer) -> None:
    await shop.redis("by-hand", redis_server.url, partitions=4, rebalance=SOON)
    await shop.group("by-hand", approval="Manual")
    await shop.together("by-hand", *(shop.pod(f"by-hand-{name}", "by-hand") for name in "ab"))
    await shop.spread("by-hand", 2, 2)
    asked = await baton(kubeconfig, "rebalance", "by-hand")
    assert asked.returncode == 0, asked.stderr
    assert "its moves are proposed" in asked.stdout
    request = ((await shop.get_group("by-hand")) or {})["metadata"]["annotations"]["baton.dev/rebalance"]

    async def held_down() -> bool:
        told = [event["note"] for event in await shop.events("Holddown") if event["regarding"]["name"] == "by-hand"]
        return any("a rebalance was requested" in note for note in told)

    await eventually(held_down, "the group waits before it makes a plan")

    async def taken_up() -> bool:
        data = await shop.ledger_data("by-hand") or {}
        return bool(json.loads(data["group"])["facts"].get("request") == request)

    await eventually(taken_up, "the ledger knows of the request")
    assert await shop.counts("by-hand") == {"by-hand-a": 2, "by-hand-b": 2}, "nothing was to be moved"
