"""However a cluster ends, the machine is as it was before."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import Cluster, ClusterError
from cluster.processes import Registry
from cluster.runs import NODE, RUNS, exclusive, remove_abandoned
from cluster.waiting import wait_until
from tests.integration.cluster.machine import Machine
from tests.processes import ChildProcess
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.own_node, pytest.mark.promise]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def before() -> Machine:
    """The machine as the test found it, without what a run that was killed a moment ago has left."""
    with exclusive():
        remove_abandoned()
    return Machine.now()


@contextmanager
def supervised() -> Iterator[subprocess.Popen[str]]:
    """A process that has a cluster with a running pod."""
    command = [sys.executable, "-m", "tests.integration.cluster.supervised"]
    with ChildProcess(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_ctrl_c_ends_a_cluster_with_all_that_it_made(before: Machine) -> None:
    with supervised() as process:
        during = Machine.now()
        assert during.processes and during.rules != before.rules and during.links != before.links
        with pytest.raises(ClusterError, match=f"in use by process {process.pid} "):
            Cluster(node=True).up()
        assert Machine.now().links == during.links  # who came second has not disturbed it

        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert Machine.now() == before


def test_a_cluster_whose_supervisor_is_killed_is_cleared_up_by_its_guard(before: Machine) -> None:
    with supervised() as process:
        process.kill()
        assert wait_until(lambda: Machine.now() == before, PATIENCE), difference(before)


def test_a_cluster_whose_guard_is_killed_too_is_cleared_up_by_the_next(before: Machine) -> None:
    with supervised() as process:
        Registry(RUNS / NODE).stop("guard", grace=0)
        process.kill()
        process.wait(PATIENCE)
        assert Machine.now() != before

        with Cluster(node=False):
            assert Machine.now() == before


def test_a_port_that_is_taken_is_named_and_nothing_is_left(before: Machine) -> None:
    with socket.create_server(("", 53)), pytest.raises(ClusterError, match="port 53 is taken by a name server"):
        Cluster(node=True).up()
    assert Machine.now() == before


def test_a_foreign_bridge_is_named_and_stays(before: Machine) -> None:
    subprocess.run(["ip", "link", "add", "batonbr0", "type", "bridge"], check=True)
    try:
        with pytest.raises(ClusterError, match="there is a link batonbr0 that belongs to no run folder"):
            Cluster(node=True).up()
        assert set(Machine.now().links) == {*before.links, "batonbr0"}
    finally:
        subprocess.run(["ip", "link", "del", "batonbr0"], check=True)
    assert Machine.now() == before


def test_a_node_needs_root(before: Machine) -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(ClusterError, match="run this as root"):
            Cluster(node=True).up()
    finally:
        os.seteuid(0)
    assert Machine.now() == before


def difference(before: Machine) -> str:
    now = Machine.now()
    return "\n".join(f"{name}: {getattr(now, name)}" for name in vars(before) if getattr(now, name) != getattr(before, name))
