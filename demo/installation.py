"""What the story plays in: cluster, Redis, operator, queue, group, Spark application, producer."""

import json
from pathlib import Path

import yaml

from cluster import Cluster
from cluster.cluster import OPERATOR_NAMESPACE
from demo import manifests
from demo.story import Story

ROOT = Path(__file__).resolve().parent.parent


class Installation:
    """The cluster with everything installed in it, one part after the other."""

    def __init__(self, cluster: Cluster, story: Story) -> None:
        self.cluster, self.story = cluster, story
        self.folder = cluster.folder / "demo"
        self.folder.mkdir()

    def apply(self, name: str, *objects: manifests.Json) -> None:
        """Write the objects where a curious user can read them, and apply them."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump_all(objects, sort_keys=False))
        self.cluster.kubectl("apply", "-f", str(path))

    def install_operator(self) -> None:
        self.story.deed(f"helm install baton charts/baton --namespace {OPERATOR_NAMESPACE}")
        self.cluster.install_operator(self.folder / "values.json")
        self.story.good("the operator is available: two replicas, one leads")

    def create_group(self, url: str, replicas: int) -> None:
        self.story.deed("kubectl apply: a PartitionedQueue of 12 partitions and a ConsumerGroup")
        self.apply("queue", manifests.namespace(), *manifests.queue(url), manifests.group(replicas))

    def start_spark(self, executors: int) -> None:
        image = self.cluster.load_spark_image(ROOT / "manifests" / "examples" / "spark" / "entrypoint.sh")
        volumes, mounts = self.cluster.host_volumes()
        files = {
            "app.py": (ROOT / "demo" / "app.py").read_text(),
            "executor.yaml": json.dumps(manifests.executor(volumes, mounts)),
        }
        environment = {
            "BATON_GROUP": manifests.GROUP,
            "QUEUE": manifests.QUEUE,
            "DEMO_ROOT": f"{manifests.NAMESPACE}/{manifests.QUEUE}",
            "EXECUTOR_IMAGE": image,
            "EXECUTORS": str(executors),
        }
        self.story.deed(f"kubectl apply: a Spark driver, which starts {executors} executors")
        self.apply(
            "spark", *manifests.access(), manifests.application(files), manifests.driver(image, environment, volumes, mounts)
        )
