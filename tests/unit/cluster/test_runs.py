"""Whose a cluster is that was left running, and who ends it. No Kubernetes runs here: a cluster is a folder with a process."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster import Cluster, ClusterError, runs
from cluster.__main__ import main
from cluster.images import ROOT
from cluster.processes import Process, Registry

Left = Callable[[str, Path | None], Process]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Left]:
    """Leaves a cluster of this name running, by a clone that is somewhere else (None: by this one)."""
    made = []

    def leave(name: str, clone: Path | None) -> Process:
        with monkeypatch.context() as elsewhere:
            if clone is not None:
                elsewhere.setattr(runs, "ROOT", clone)
            runs.claim(folder / name, os.getpid())
        runs.keep(folder / name)
        made.append(registry := Registry(folder / name))
        return registry.start("etcd", ["sleep", "3600"])

    yield leave
    for registry in made:
        registry.stop("etcd", grace=0)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another clone."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "Makefile").touch()
    return tmp_path / "other"


def down(*arguments: str) -> list[str]:
    done = CliRunner().invoke(main, ["down", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output.splitlines()


def test_down_ends_this_clones_clusters_and_names_the_others(folder: Path, left: Left, other: Path) -> None:
    ours, theirs = left("control-1-1", None), left("control-2-1", other)
    assert down() == [
        f"control-1-1: ending its processes and removing {folder / 'control-1-1'} (up to a minute for a node with pods)",
        "stopped control-1-1",
        f"left alone: control-2-1 was left running by {other}: stop it with: make -C {other} cluster-down",
    ]
    assert (ours.alive(), theirs.alive()) == (False, True)
    assert runs.folders() == [folder / "control-2-1"]


def test_down_in_another_clone_ends_its_clusters(folder: Path, left: Left, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = left("control-1-1", None), left("control-2-1", other)
    monkeypatch.setattr(runs, "ROOT", other)
    assert down()[2:] == ["stopped control-2-1"]
    assert (ours.alive(), theirs.alive()) == (True, False)


def test_a_cluster_of_a_deleted_clone_can_be_ended_by_any(folder: Path, left: Left, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    process = left("control-1-1", gone)
    (line,) = down()
    assert line == f"left alone: control-1-1 was left running by {gone}, which is gone: stop it with: make cluster-down ALL=1"
    assert process.alive()
    assert down("--all")[1:] == ["stopped control-1-1"]
    assert not process.alive() and runs.folders() == []


def test_a_cluster_in_use_is_never_ended(folder: Path) -> None:
    runs.claim(folder / "control-1-1", os.getpid())
    (line,) = down("--all")
    assert re.match(rf"left alone: control-1-1 is in use by process {os.getpid()} \(.*\) of {ROOT}, and ends with it$", line)


def test_stopped_leftovers_are_removed_by_any_clone(folder: Path, left: Left, other: Path) -> None:
    left("control-1-1", other)
    Registry(folder / "control-1-1").stop("etcd", grace=0)
    assert down() == ["removed what was left of control-1-1"]


def test_the_node_names_the_clone_that_has_it(folder: Path, left: Left, other: Path) -> None:
    left(runs.NODE, other)
    expected = f"the cluster node was left running by {other}: stop it with: make -C {other} cluster-down"
    with pytest.raises(ClusterError, match=f"^{re.escape(expected)}$"):
        runs.claim(folder / runs.NODE, os.getpid())
    for command in ("install", "load"):
        refused = CliRunner().invoke(main, [command]).exception
        assert isinstance(refused, ClusterError) and str(refused) == expected


def test_a_process_takes_no_folder_of_a_running_cluster(folder: Path, left: Left) -> None:
    taken = Cluster(node=False).folder.name
    number = int(taken.rpartition("-")[2]) + 1
    left(f"control-{os.getpid()}-{number}", None)
    assert Cluster(node=False).folder.name == f"control-{os.getpid()}-{number + 1}"
