"""`make cluster-load` on a machine that has built nothing but the Go programs: each example's image, loaded and run."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cluster import runs
from cluster.built_images import EXAMPLES
from cluster.programs import HELM, KUBE, cache

pytestmark = [pytest.mark.long, pytest.mark.own_node, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
IMPORTS = {
    "redis": "import baton.queues.redis",
    "kafka": "import baton.queues.kafka, confluent_kafka",
    "external": "import baton.consumer",
    "spark": "from baton.spark import jar; open(jar()).close()",
}
Make = Callable[..., str]


@pytest.fixture
def make() -> Iterator[Make]:
    """Runs make with an empty cache; gives what it says."""
    with tempfile.TemporaryDirectory(dir=cache(), prefix="empty-") as folder:
        for program in (KUBE, HELM):
            place = program.path().parent
            (Path(folder) / place.name).symlink_to(place)

        def call(*words: str) -> str:
            environment: Mapping[str, str] = os.environ | {"BATON_CACHE": folder}
            done = subprocess.run(
                ["make", "--silent", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout + done.stderr

        yield call
        left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line]
        assert left == []


@pytest.fixture
def kubectl(make: Make) -> Iterator[Callable[..., str]]:
    """Of a cluster with a node that `make cluster-up` started."""
    make("cluster-up")

    def call(*words: str) -> str:
        command = [str(KUBE.path()), "kubectl", f"--kubeconfig={runs.RUNS / runs.NODE / 'kubeconfig'}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    yield call
    make("cluster-down")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_image_of_an_example_is_built_with_an_empty_cache_and_runs(
    make: Make, kubectl: Callable[..., str], example: str
) -> None:
    make("cluster-load", f"ONLY={example}")
    image = EXAMPLES[example].name
    command = ("--command", "--", "python", "-c", f"{IMPORTS[example]}; print('imported')")
    kubectl("run", "loaded", f"--image={image}", "--image-pull-policy=Never", "--restart=Never", *command)
    kubectl("wait", "pod/loaded", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s")
    assert kubectl("logs", "loaded") == "imported\n"
