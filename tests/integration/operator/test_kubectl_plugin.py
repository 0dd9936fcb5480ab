"""The real kubectl runs `kubectl baton` where the command is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton import __version__
from cluster.programs import KUBE
from tests.integration.operator.world import World

SCRIPTS = Path(sys.executable).parent


def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    command = [str(KUBE.path()), "kubectl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_kubectl_finds_the_plugin() -> None:
    listed = kubectl("plugin", "list")
    assert str(SCRIPTS / "kubectl-baton") in listed.stdout.splitlines(), listed
    assert kubectl("baton", "--version").stdout == f"baton, version {__version__}\n"


@pytest.mark.parametrize("form", [("-n", "{namespace}", "orders"), ("{namespace}/orders",)])
async def test_it_shows_a_group_with_kubectls_own_options(empty: World, kubeconfig: Path, form: tuple[str, ...]) -> None:
    await empty.external("orders", partitions=2)
    await empty.group("orders")
    words = [word.format(namespace=empty.namespace) for word in form]
    done = kubectl("baton", "status", "--kubeconfig", str(kubeconfig), *words)
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, f"{empty.namespace}/orders: Unknown"), done
    missing = kubectl("baton", "pause", "--kubeconfig", str(kubeconfig), "-n", empty.namespace, "nothing")
    assert missing.returncode == 1 and missing.stderr.startswith("baton pause: ")
