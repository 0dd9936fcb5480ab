"""Assignors of the user's own under a real operator, and a change of the assignor."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.controller.operator_replica import LOOK_EVERY, LOOKS
from baton.kube.leases import leases_path
from baton.model.times import to_seconds
from tests.integration.operator.world import IMPATIENT, Operator, World
from tests.waiting import eventually

Start = Callable[..., Operator]
Mood = Callable[[str], object]
EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "own-assignor"
UV = Path(sys.executable).parent / "uv"
MOODY = """
import os, time
from pathlib import Path
from by_load import assign as by_load

MOOD = Path(os.environ["MOOD"])

def assign(request):
    mood = MOOD.read_text()
    if mood == "raise":
        raise RuntimeError("not today")
    if mood == "slow":
        while MOOD.read_text() == "slow":
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                pass
    if mood == "hang":
        MOOD.with_name("hangs").touch()
    while mood == "hang" == MOOD.read_text():
        time.sleep(0.1)
    answer = by_load(request)
    return type(answer)({}) if mood == "forget" else answer
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of example.com/moody and example.com/by-load."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([UV, "pip", "install", "--quiet", "--no-deps", "--target", site, EXAMPLE], check=True)
    info = site / "moody-1.0.dist-info"
    info.mkdir()
    (site / "moody.py").write_text(MOODY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[baton.assignors]\nexample.com/moody = moody:assign\n")
    return site


@pytest.fixture
def mood(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mood:
    """Tells example.com/moody what to do, in operators that the test starts."""
    file = tmp_path / "mood"
    file.write_text("good")
    monkeypatch.setenv("MOOD", str(file))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH")))))
    return file.write_text


async def test_weights_capacities_and_an_installed_assignor_work_together(empty: World, start: Start, mood: Mood) -> None:
    await start(empty).leads()
    await empty.external("weighed", partitions=6, partitionAttributes=[{"partitions": "0", "weight": 5}])
    await empty.group("weighed", assignors=["example.com/by-load"])
    strong = {"baton.dev/capacity": "1.5"}
    pods = empty.pod("weighed-a", "weighed"), empty.pod("weighed-b", "weighed", annotations=strong)
    await empty.together("weighed", *pods)
    await empty.spread("weighed", 2, 4)
    await empty.told("weighed", "Ready")
    assert (await empty.status("weighed"))["assignor"] == "example.com/by-load"
    owned = await empty.owned("weighed")
    assert (set(owned["weighed-a"]), set(owned["weighed-b"])) == ({1, 2, 3, 4}, {0, 5}), "4 of 1, and 6 of 1.5"
    await empty.change("partitionedqueues", "weighed", {"spec": {"partitionAttributes": [{"partitions": "0,9", "weight": 1}]}})
    for kind in ("consumergroups", "partitionedqueues"):
        assert "names partition 9, but the queue has 6" in await empty.told("weighed", "InvalidAttributes", kind)


async def test_a_failing_assignor_moves_nothing_and_delays_no_other_group(empty: World, start: Start, mood: Mood) -> None:
    operator = await start(empty).leads()
    for name, assignor in (("moody", "example.com/moody"), ("calm", "solace")):
        await empty.fleet(name, partitions=4, assignors=[assignor])
    for word, said in (("raise", "failed at moody.py:11 with RuntimeError: not today"), ("forget", "gave moody 0-3 no owner")):
        mood(word)
        await empty.pod(f"moody-{word}", "moody")
        await empty.told("moody", "InvalidAssignment", says=f"the assignor example.com/moody {said}")
        assert await empty.counts("moody") == {"moody-a": 4}
    await empty.pod("calm-b", "calm")
    await empty.revoking("calm", "calm-a", 2)  # the other group goes on
    assert operator.process.poll() is None
    mood("good")
    await empty.change("consumergroups", "moody", {"metadata": {"annotations": {"baton.dev/rebalance": "now"}}})
    await empty.told("moody", "Ready")


async def test_a_slow_assignor_stops_neither_leadership_nor_other_groups(empty: World, start: Start, mood: Mood) -> None:
    await start(empty, "one", "--lease-duration", "8", "--renew-deadline", "7", "--retry-period", "0.5").leads()
    lease = leases_path(empty.namespace, "operator")
    before = (await empty.api.get(lease))["spec"]
    mood("slow")
    await empty.external("slow", partitions=4)
    await empty.group("slow", assignors=["example.com/moody"])
    await empty.pod("slow-a", "slow")
    await empty.fleet("quick", partitions=4)
    since = to_seconds((await empty.api.get(lease))["spec"]["renewTime"])

    async def outlasted() -> bool:
        spec = (await empty.api.get(lease))["spec"]
        return bool(to_seconds(spec["renewTime"]) > since + spec["leaseDurationSeconds"])

    await eventually(outlasted, "the Lease is renewed for longer than it lasts")
    assert await empty.counts("slow") != {"slow-a": 4}, "it still thinks"
    mood("good")
    await empty.spread("slow", 4)
    spec = (await empty.api.get(lease))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", before["leaseTransitions"])


async def test_a_hanging_assignor_is_reported_and_stops_neither_others_nor_the_process(
    empty: World, start: Start, mood: Mood
) -> None:
    operator = await start(empty, "one", program=IMPATIENT).leads()
    for name, assignor in (("moody", "example.com/moody"), ("calm", "solace")):
        await empty.queue(name, {"type": "External", "external": {"onDeadline": "Force"}}, partitions=4)
        await empty.group(name, assignors=[assignor])
        await empty.pod(f"{name}-a", name)
        await empty.spread(name, 4)
    mood("hang")
    await empty.pod("moody-b", "moody")
    said = await empty.told("moody", "PlanOverdue")
    assert "has not finished for 5 s: fix the installed assignor that spec.assignors names" in said
    await empty.pod("calm-b", "calm")
    await empty.spread("calm", 2, 2)
    lease = leases_path(empty.namespace, "operator")
    since = to_seconds((await empty.api.get(lease))["spec"]["renewTime"])

    async def outlasted() -> bool:
        return to_seconds((await empty.api.get(lease))["spec"]["renewTime"]) > since + 5 + LOOKS * LOOK_EVERY

    await eventually(outlasted, "the Lease is renewed for longer than anything may hang")
    assert operator.process.poll() is None
    mood("good")
    await empty.spread("moody", 2, 2)
    await empty.told("moody", "Ready")


async def test_an_operator_stops_without_waiting_for_a_hanging_plan(
    empty: World, start: Start, mood: Mood, tmp_path: Path
) -> None:
    operator = await start(empty, "one").leads()
    mood("hang")
    await empty.external("moody", partitions=4)
    await empty.group("moody", assignors=["example.com/moody"])
    await empty.pod("moody-a", "moody")

    async def hangs() -> bool:
        return (tmp_path / "hangs").exists()

    await eventually(hangs, "the plan is under way")
    assert operator.stop() == 0
    assert (await empty.api.get(leases_path(empty.namespace, "operator")))["spec"]["holderIdentity"] == ""


# -- A fleet changes its assignor by two rolling restarts, as docs/guides/change-assignor.md says.


async def roll(world: World, group: str, turn: int, announced: str) -> None:
    """One pod after the other is replaced by one that announces these."""
    for n in range(2):
        await world.pod(f"{group}-{turn}-{n}", group, annotations={"baton.dev/assignors": announced})
        await world.delete_pod(f"{group}-{turn - 1}-{n}")


async def test_a_fleet_changes_its_assignor_by_two_rolling_restarts(shop: World) -> None:
    for queue in ("change", "change-too"):
        await shop.queue(queue, {"type": "External", "external": {"onDeadline": "Force"}}, 5)
    await shop.group("change", ["change", "change-too"], assignors=["range"])
    announced = {"baton.dev/assignors": "range"}
    await asyncio.gather(*(shop.pod(f"change-0-{n}", "change", annotations=announced) for n in range(2)))
    for queue in ("change", "change-too"):
        await shop.spread("change", 2, 3, queue=queue)
    await shop.shows("change", assignor="range")
    await shop.change("consumergroups", "change", {"spec": {"assignors": ["solace", "range"]}})

    await shop.pod("change-1-0", "change", annotations={"baton.dev/assignors": "range,solace"})
    await shop.delete_pod("change-0-0")
    assert (await shop.status("change"))["assignor"] == "range", "an old pod is still there"
    await shop.pod("change-1-1", "change", annotations={"baton.dev/assignors": "range,solace"})
    await shop.delete_pod("change-0-1")
    await shop.shows("change", assignor="solace")

    async def even() -> bool:
        entries = await shop.entries("change")
        return {name: sum(map(len, entry.owned.values())) for name, entry in entries.items()} == {
            "change-2-0": 5,
            "change-2-1": 5,
        }

    await roll(shop, "change", 2, "solace")
    await eventually(even, "totals are even, as solace makes them", shown=lambda: shop.ledger_data("change"))
    await shop.change("consumergroups", "change", {"spec": {"assignors": ["solace"]}})
    await shop.shows("change", assignor="solace")
    await shop.told("change", "Ready")


async def test_a_pod_with_a_misspelt_assignor_is_named_and_still_served(shop: World) -> None:
    await shop.external("slip", partitions=4)
    await shop.group("slip", assignors=["range"])
    await shop.pod("slip-a", "slip", annotations={"baton.dev/assignors": "rnage"})
    message = await shop.told("slip", "BadAnnotation")
    assert (
        "slip-a: annotation baton.dev/assignors names 'rnage', and there is no such assignor, so that the pod counts" in message
    )
    await shop.spread("slip", 4)

    async def event() -> bool:
        return any("names 'rnage'" in one["note"] for one in await shop.events("BadAnnotation"))

    await eventually(event, "the pod has an event")
    await shop.delete_pod("slip-a")
    await shop.pod("slip-b", "slip", annotations={"baton.dev/capacity": "lots"})
    await shop.told("slip", "BadAnnotation", says="slip-b: annotation baton.dev/capacity is 'lots', and counts as 1")
    await shop.spread("slip", 4)
