"""The API server is away, etcd is restarted, the leader is stopped past its Lease: consumers on a fenced queue work on."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton.kube.errors import ApiError, UnavailableError
from baton.model.times import to_seconds
from cluster import Cluster
from tests.integration.operator.interrupted import interrupted
from tests.integration.operator.under_load.conftest import GROUP, PODS, Busy
from tests.integration.operator.world import KEEPS, LAPSES_SOON, Operator
from tests.mostly_long import mostly_long
from tests.waiting import eventually

Start = Callable[..., Operator]

AWAY = 30.0
"""Seconds: twice as long as a session's Lease lasts."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[Cluster]:
    """For this file only: it is stopped."""
    with Cluster(node=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubeconfig(control_plane: Cluster) -> Path:
    return control_plane.kubeconfig


async def test_consumers_work_on_while_the_api_server_is_away(busy: Busy, start: Start, control_plane: Cluster) -> None:
    await start(busy.world).leads()
    await busy.settled()
    before = await busy.world.owned(GROUP)
    control_plane.stop_process("kube-apiserver")
    until = time.monotonic() + AWAY
    while time.monotonic() < until:
        await busy.works_on()
    await asyncio.to_thread(control_plane.start_process, "kube-apiserver")
    await busy.proven()
    assert await busy.world.owned(GROUP) == before
    await busy.world.set_ready("a", False)  # and the operator has not been left behind
    await busy.settled(*PODS[1:])
    await busy.world.set_ready("a", True)
    await busy.proven()


async def test_no_replica_leads_while_the_api_server_hangs_and_one_does_afterwards(
    busy: Busy, start: Start, control_plane: Cluster
) -> None:
    operators = [await start(busy.world, name).running() for name in ("one", "two")]
    await busy.settled()
    before, looked = await busy.world.owned(GROUP), (await busy.world.status(GROUP))["lastChangeTime"]

    async def leading(count: int) -> bool:
        return sum(operator.metric("baton_leader") or 0.0 for operator in operators) == count

    control_plane.signal_process("kube-apiserver", signal.SIGSTOP)
    try:
        until = time.monotonic() + AWAY
        await eventually(lambda: leading(0), "no replica leads")
        while time.monotonic() < until:
            await busy.works_on()
            assert await leading(0)
            assert [operator.get("/healthz")[0] for operator in operators] == [200, 200]
    finally:
        control_plane.signal_process("kube-apiserver", signal.SIGCONT)
    await eventually(lambda: answers(busy), "the API server answers")
    await eventually(lambda: leading(1), "one leads")
    await busy.proven()
    assert await busy.world.owned(GROUP) == before
    assert await leading(1)
    await busy.world.set_ready("a", False)
    await busy.settled(*PODS[1:])
    assert to_seconds((await busy.world.status(GROUP))["lastChangeTime"]) >= to_seconds(looked) + AWAY
    await busy.world.set_ready("a", True)
    await busy.proven()


async def test_a_restart_of_etcd_during_a_rebalance_loses_nothing(busy: Busy, start: Start, control_plane: Cluster) -> None:
    await start(busy.world).leads()
    await busy.settled()
    await busy.world.set_ready("b", False)
    await busy.settled("a", "c", "d")
    await busy.world.set_ready("b", True)
    control_plane.stop_process("etcd")
    await busy.works_on()
    await asyncio.to_thread(control_plane.start_process, "etcd")
    await eventually(lambda: answers(busy), "the API server answers")
    await busy.proven()


async def answers(busy: Busy) -> bool:
    try:
        return await busy.world.get_group(GROUP) is not None
    except (ApiError, UnavailableError):
        return False


@pytest.mark.parametrize(
    "place",
    mostly_long(
        ["before:grant#1", "before:ledger-write#2", "before:pause#1", "after:grant#1", "before:status-write#2"],
        always={"before:grant#1"},
    ),
)
async def test_a_leader_suspended_past_its_lease_changes_nothing_when_it_resumes(busy: Busy, start: Start, place: str) -> None:
    first = start(busy.world, "one", *LAPSES_SOON, program=interrupted(f"STOP:{place}"))
    for number in range(4):
        pod = PODS[number]
        await busy.world.set_ready(pod, False)
        await eventually(lambda: stopped_or(busy, first, 3), f"{pod} has left")
        await busy.world.set_ready(pod, True)
        await eventually(lambda: stopped_or(busy, first, 4), f"{pod} is back")
        if stopped(first):
            break
    assert stopped(first), first.log.read_text()
    second = await start(busy.world, "two", *KEEPS).leads()
    await busy.settled()
    # What the first was about to do is out of date by now.
    await busy.world.set_ready("c", False)
    await busy.settled("a", "b", "d")
    ledger, owners = await busy.world.ledger_data(GROUP), (await busy.queue.check()).owners
    first.process.send_signal(signal.SIGCONT)
    await first.follows()
    assert second.metric("baton_leader") == 1.0
    assert await busy.world.ledger_data(GROUP) == ledger
    assert (await busy.queue.check()).owners == owners
    await busy.world.set_ready("c", True)
    await busy.proven()
    assert second.stop() == 0


async def stopped_or(busy: Busy, operator: Operator, members: int) -> bool:
    if stopped(operator):
        return True
    return len(await busy.world.entries(GROUP)) == members and not (await busy.world.status(GROUP)).get("moving")


def stopped(operator: Operator) -> bool:
    """By a signal, and not at its end."""
    assert operator.process.poll() is None, operator.log.read_text()
    return operator.state == "T"
