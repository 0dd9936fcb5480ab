"""`make cluster-up` and `make cluster-down`: what they print is what outside checks go by."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster import runs
from cluster.__main__ import main
from cluster.cluster import Cluster
from cluster.faults import ClusterError

ROOT = Path(__file__).parents[3]


def test_make_machine_lists_what_is_installed() -> None:
    said = subprocess.run(["make", "--silent", "machine"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"machine: the \d+ Debian packages are installed; \S+/kube and \S+/helm are built\n", said)


def test_a_cluster_without_a_node_is_up_until_it_is_taken_down() -> None:
    up = subprocess.run(["make", "--silent", "cluster-up", "NODE=0"], cwd=ROOT, capture_output=True, text=True, check=True)
    try:
        kubeconfig, kubectl = (
            re.search(pattern, up.stdout, re.MULTILINE)
            for pattern in (r"^ *export KUBECONFIG=(\S+)$", r"^ *alias kubectl='(.+)'$")
        )
        assert kubeconfig is not None and kubectl is not None, up.stdout
        listed = subprocess.run(
            [*kubectl[1].split(), "get", "namespaces", "-o", "name"],
            env={"KUBECONFIG": kubeconfig[1]},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "namespace/default" in listed.stdout
    finally:
        down = subprocess.run(["make", "--silent", "cluster-down"], cwd=ROOT, capture_output=True, text=True, check=False)
    folder = Path(kubeconfig[1]).parent
    assert not folder.exists()
    # Clusters of other processes may run, as in the middle of other tests: they stay, and are no fault of this one.
    assert (down.returncode, down.stderr) == (0, "")
    assert f"stopped {folder.name}" in down.stdout.splitlines()


def test_a_cluster_in_use_is_left_alone_and_named(control_plane: Cluster) -> None:
    down = subprocess.run([sys.executable, "-m", "cluster", "down"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (down.returncode, down.stderr) == (0, "")
    assert re.search(rf"^left alone: {control_plane.folder.name} is in use by process \d+ ", down.stdout, re.MULTILINE)
    assert "namespace/default" in control_plane.kubectl("get", "namespaces", "-o", "name")


@pytest.mark.parametrize("command", ["install", "load"])
def test_install_and_load_need_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    refused = CliRunner().invoke(main, [command]).exception
    assert isinstance(refused, ClusterError)
    assert str(refused) == "no cluster with a node was left running: start one with: make cluster-up"
