"""Resources simulate as they are: what `kubectl get cg,pq -o yaml` prints, and the files that people apply."""

from pathlib import Path

import pytest

from baton.simulation import ScenarioError, read_scenario, simulate

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"

QUEUE = """
apiVersion: baton.dev/v1alpha1
kind: PartitionedQueue
metadata: {name: orders, namespace: shop, generation: 3}
spec:
  source: {type: Redis, redis: {url: "redis://redis.shop:6379/0"}}
  partitions: 6
  rebalance: {delaySeconds: 7, maxHandoffSeconds: 0}
  partitionAttributes: [{partitions: 0-3, zones: [east]}, {partitions: 4-5, zones: [west], weight: 3}]
status: {partitions: 6}
"""
GROUP = """
apiVersion: baton.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: billing, namespace: shop, annotations: {a: b}}
spec:
  queues: [{name: orders}]
  assignors: [machine-room-nearby]
  assignorOptions: {within: circle}
  membership: {session: Optional}
status: {members: 2}
"""
ANOTHER = GROUP.replace("billing", "mail")
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: billing, namespace: shop}
"""


def file(folder: Path, *documents: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text("\n---\n".join(documents))
    return path


def test_the_specs_of_the_resources_are_simulated(tmp_path: Path) -> None:
    scenario = read_scenario(file(tmp_path, QUEUE, GROUP, DEPLOYMENT))
    result = simulate(scenario)
    granted = [line for line in result.lines if line["event"] == "grant" and line["t"] == 7]
    owners = {line["partition"]: line["member"] for line in granted}
    assert owners.keys() == set(range(6)), "after the queue's delay"
    assert {owners[number] for number in range(4)} == {"billing-2"}, "who is in the room of these partitions"
    assert {owners[number] for number in (4, 5)} == {"billing-1"}
    assert result.summary["deadline_misses"] > 0, "a hand-off does not wait"


def test_a_list_from_kubectl_is_read_as_its_items(tmp_path: Path) -> None:
    items = "".join("- " + one.strip().replace("\n", "\n  ") + "\n" for one in (QUEUE, GROUP))
    listed = file(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert simulate(read_scenario(listed)).lines == simulate(read_scenario(file(tmp_path, QUEUE, GROUP))).lines


def test_the_members_in_the_status_join_crash_and_are_replaced(tmp_path: Path) -> None:
    rebalance = "spec:\n  rebalance: {delaySeconds: 20, maxConcurrentHandoffs: 1000}"
    scenario = read_scenario(file(tmp_path, QUEUE, GROUP.replace("spec:", rebalance)))
    joined, more, crash, replaced = scenario.events
    assert more.at == 4 * 20, "four delays apart; a bound is no delay"
    assert [one.id for one in joined.join] == ["billing-1", "billing-2"]
    assert [one.id for one in more.join] == ["billing-3"]
    assert crash.leave == ("billing-1",)
    assert (replaced.terminate, [one.id for one in replaced.join]) == (("billing-3",), ["billing-4"])
    assert read_scenario(file(tmp_path, QUEUE, GROUP, "until: 5\n")).events == (joined,)


def test_a_document_without_a_kind_overrides_the_resources(tmp_path: Path) -> None:
    own = "group: {rebalance: {delaySeconds: 0.5}}\nevents: [{at: 0, join: [a]}]\nuntil: 9\n"
    scenario = read_scenario(file(tmp_path, QUEUE, GROUP, own))
    assert (len(scenario.events), scenario.until) == (1, 9)
    result = simulate(scenario)
    assert [line["t"] for line in result.lines if line["event"] == "grant"] == [0.5] * 6


def test_one_of_several_groups_is_chosen(tmp_path: Path) -> None:
    path = file(tmp_path, QUEUE, GROUP, ANOTHER)
    assert read_scenario(path, "shop/mail").events == read_scenario(path, "mail").events
    assert read_scenario(path, "mail").events[0].join[0].id == "mail-1"
    with pytest.raises(ScenarioError, match=r"choose one by --group: shop/billing, shop/mail$"):
        read_scenario(path)
    with pytest.raises(ScenarioError, match=r"there is no ConsumerGroup post here; choose one of shop/billing, shop/mail$"):
        read_scenario(path, "post")


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ((QUEUE,), "there is no ConsumerGroup here; add it"),
        ((GROUP,), "ConsumerGroup billing needs PartitionedQueue orders; add it"),
        ((QUEUE.replace("namespace: shop", "namespace: mall"), GROUP), "ConsumerGroup billing needs PartitionedQueue orders"),
        ((QUEUE, GROUP, GROUP.replace("namespace: shop", "namespace: mall")), "there are several ConsumerGroups here"),
        ((QUEUE.replace("  partitions: 6\n", "", 1).replace("status: {partitions: 6}", ""), GROUP), "write spec.partitions"),
        ((QUEUE, GROUP.replace("assignors:", "assignor:")), r"group\.assignor: there is no such field; did you mean assignors\?"),
        (
            (QUEUE.replace("  partitions: 6\n", "  partitions: six\n", 1), GROUP),
            r"queues\.orders\.partitions: expected a whole number",
        ),
        (
            (QUEUE.replace("partitions: 6\n", "partitons: 6\n", 1).replace("\nstatus: {partitions: 6}", ""), GROUP),
            "did you mean partitions",
        ),
        ((QUEUE.replace("spec:", "spc:"), GROUP), r"PartitionedQueue orders: spc: there is no such field; did you mean spec\?"),
        ((QUEUE, GROUP.replace("spec:", "spc:")), r"ConsumerGroup billing: spc: there is no such field; did you mean spec\?"),
        (
            (QUEUE.replace("type: Redis", "tpye: Redis"), GROUP),
            r"queues\.orders\.source\.tpye: there is no such field; did you mean type\?",
        ),
        (
            (QUEUE, GROUP.replace("assignors:", "scale: {targetRef: {kind: Deployment, nam: a}}\n  assignors:")),
            r"group\.scale\.targetRef\.nam: there is no such field; did you mean name\?",
        ),
        ((QUEUE, GROUP.replace("queues:", "queue:")), r"group\.queue: there is no such field; did you mean queues\?"),
        (
            (QUEUE, GROUP.replace("  queues: [{name: orders}]\n", "")),
            "ConsumerGroup billing: it names no queue; write spec.queues",
        ),
        ((QUEUE, GROUP.partition("spec:")[0]), "ConsumerGroup billing: spec is missing"),
        (
            (QUEUE.replace("v1alpha1", "v1"), GROUP),
            "PartitionedQueue orders: apiVersion: expected baton.dev/v1alpha1, found baton.dev/v1",
        ),
        ((QUEUE, GROUP.replace("ConsumerGroup", "ConsumerGroups")), "billing: kind: expected ConsumerGroup or PartitionedQueue"),
        ((QUEUE, GROUP, "a: 1\n", "b: 2\n"), "a scenario is a mapping with queues, group"),
    ],
)
def test_a_file_that_cannot_be_simulated_is_rejected_with_the_cure(documents: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=said):
        read_scenario(file(tmp_path, *documents))


def test_the_partitions_of_a_topic_come_from_another_document(tmp_path: Path) -> None:
    example = (EXAMPLES / "kafka-consumer" / "queue.yaml").read_text()
    with pytest.raises(
        ScenarioError, match=r"its topic says .*; add a document with queues: \{orders: \{partitions: 12\}\}, or "
    ):
        read_scenario(file(tmp_path, example))
    scenario = read_scenario(file(tmp_path, example, "queues: {orders: {partitions: 12}}\n"))
    assert scenario.queues["orders"].partitions == 12
    assert simulate(scenario).summary["state"] == "Ready"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/queue.yaml")), ids=lambda path: path.parent.name)
def test_the_shipped_examples_can_be_simulated(path: Path, tmp_path: Path) -> None:
    documents = path.read_text()
    if "type: Kafka" in documents:
        documents += "\n---\nqueues: {orders: {partitions: 12}}\n"
    result = simulate(read_scenario(file(tmp_path, documents)))
    assert result.summary["state"] == "Ready"
    assert result.summary["dual_ownership"] == 0
