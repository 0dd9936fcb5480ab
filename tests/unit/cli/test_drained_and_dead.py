"""A drained pod, and dead letters, are to be seen in `baton status` and `baton doctor`."""

import json
from typing import Any

from baton.cli.cluster_facts import ClusterFacts
from baton.cli.doctor import CheckResult, Verdict, pods, queues
from baton.cli.group import look
from baton.cli.group_words import Severity, problems_of
from baton.kube.objects import queue_view
from baton.kube.pods import PodView, view
from tests.unit.cli.test_status_screen import MANIFEST, queue, shown


def pod(name: str, *, drain: bool, going: bool = False) -> PodView:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "labels": {"baton.dev/group": "orders"}}
    metadata["annotations"] = {"baton.dev/drain": "true"} if drain else {}
    if going:
        metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    found = view({"metadata": metadata, "spec": {}, "status": status})
    assert found is not None
    return found


PODS = [pod("a", drain=True), pod("b", drain=False), pod("c", drain=True), pod("d", drain=True, going=True)]


def test_the_screen_names_drained_pods_and_queues_with_dead_letters() -> None:
    one = look(MANIFEST, {}, [queue("orders", partitions=4, deadLetters=3)], pods=PODS, now=5.0)
    found = {problem.what: (problem.rest, problem.severity) for problem in problems_of(one)}
    assert found["Drained"] == (": a, c, until `baton drain orders a -n shop --undo`", Severity.WARNING)
    assert found["3 dead letters of orders"] == (": `baton dead-letters list orders -n shop`", Severity.WARNING)
    assert "Drained: a, c" in shown(one) and "3 dead letters of orders" in shown(one)
    told = json.loads(json.dumps(one.to_json()))
    assert (told["drained"], told["queues"]["orders"]["deadLetters"]) == (["a", "c"], 3)


def test_nothing_is_said_where_there_are_none() -> None:
    one = look(MANIFEST, {}, [queue("orders", partitions=4, deadLetters=0)], pods=PODS[1:2], now=5.0)
    assert {"Drained", "0 dead letters of orders"}.isdisjoint(problem.what for problem in problems_of(one))
    assert "dead letter" not in shown(one)


def test_the_doctor_warns_of_both() -> None:
    group = look(MANIFEST, {}, now=5.0)
    facts = ClusterFacts(5.0, groups=[group], pods=PODS, queues=[queue_view(queue("orders", deadLetters=1, conditions=[]))])
    (drained,) = pods(facts)
    assert drained == CheckResult(
        Verdict.WARNING,
        "pods of shop/orders",
        "no partitions for a, c: somebody drains them",
        "baton drain orders a -n shop --undo, unless that is meant",
    )
    (dead,) = queues(facts)
    assert (dead.verdict, dead.says) == (Verdict.WARNING, "1 dead letter waits for somebody")
    assert dead.cure.startswith("look (baton dead-letters list orders -n shop)")


def test_a_queue_that_no_group_names_is_told_once_and_as_no_failure() -> None:
    unused = {"type": "Ready", "status": "Unknown", "reason": "Unused", "message": "no ConsumerGroup names this queue"}
    conditions = [{**unused, "lastTransitionTime": "1970-01-01T00:00:00Z"}]
    (told,) = queues(ClusterFacts(5.0, queues=[queue_view(queue("orders", conditions=conditions))]))
    assert (told.verdict, told.says) == (Verdict.WARNING, "no group names it")
