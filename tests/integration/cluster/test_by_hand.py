"""`make cluster-up` and `make cluster-down`: what they print is what outside checks go by."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]


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
        # It ends with an error where clusters of other processes run, as in the middle of other tests; this one it removes.
        subprocess.run(["make", "--silent", "cluster-down"], cwd=ROOT, capture_output=True, check=False)
    assert not Path(kubeconfig[1]).exists()
