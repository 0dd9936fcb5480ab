"""`baton doctor`: its findings and their cures."""

import asyncio
import json
from dataclasses import replace
from errno import ECONNREFUSED
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name

from baton.api import Condition, ConditionStatus
from baton.api.group import ConsumerGroupSpec
from baton.cli import doctor, rebalance
from baton.cli.doctor import (
    MOST_OPERATORS,
    OWN,
    AccountRight,
    CheckResult,
    ClusterFacts,
    Verdict,
    accounts,
    findings,
    groups,
    pods,
    queues,
)
from baton.cli.group import GroupLook, Leader, look
from baton.cli.group_words import Severity, problems_of
from baton.cli.pause import follows
from baton.controller.problems import Reason
from baton.kube.objects import queue_view
from baton.kube.pods import PodView, view
from baton.model.ids import MemberId, Uid
from baton.queues.opening import QueueToOpen, SecretText
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.explanations import explained
from baton.queues.redis.operator_side import address
from baton.queues.redis.resource import RedisSource
from baton.queues.redis.url import read
from tests.unit.cli.test_status import MANIFEST, queue, shown
from tests.unit.kube.test_pod_status import unscheduled

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"


def unreachable() -> str:
    """Return the operator's message about a queue whose server does not run."""

    async def unused(name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        raise AssertionError("the URL stands in the queue itself")

    source = RedisSource.model_validate({"url": "redis://redis.shop:6380"})
    where = asyncio.run(address(QueueToOpen("shop", "orders", source, 100, 5, unused, Path("/etc/baton/tls"))))
    with pytest.raises(QueueUnreachable) as told, explained(read(where.text, stands_in=where.stands_in), "shop/orders"):
        raise ConnectionError("Error 111 connecting") from ConnectionRefusedError(ECONNREFUSED, "Connect call failed ('::1', 1)")
    return str(told.value)


def facts() -> ClusterFacts:
    away = {"type": "Ready", "status": "False", "reason": Reason.QUEUE_UNREACHABLE.value, "message": unreachable()}
    seen = queue("orders", conditions=[{**away, "lastTransitionTime": "1970-01-01T00:00:00Z"}])
    metadata = {"name": "orders-7d4b9c6f5-x2x8k", "namespace": "shop", "uid": "u", "labels": {"baton.dev/group": "orders"}}
    pod = view({"metadata": metadata, "status": unscheduled()})
    rights = [AccountRight(verb, what, "shop", what != "leases.coordination.k8s.io", why) for verb, what, why in OWN]
    assert pod is not None
    return ClusterFacts(
        5.0, groups=[look(MANIFEST, {}, [seen], now=5.0)], queues=[queue_view(seen)], pods=[pod], own_rights=rights
    )


def test_the_sample_of_the_reference_is_the_doctors_output(capsys: pytest.CaptureFixture[str]) -> None:
    abouts = ("queue shop/orders", "your rights", "pods of shop/orders")
    found = [one for one in findings(facts()) if one.about in abouts]
    doctor._tell([*found, *[CheckResult(Verdict.OK, "another", "is as it should be")] * 12], everything=False)
    sample = PAGE.read_text().partition("## `baton doctor`")[2].split("```\n")[3].partition("```")[0]
    assert sample == capsys.readouterr().out


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


def test_no_drained_pods_and_dead_letters_are_no_problem() -> None:
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
        "a, c are drained: no partitions",
        "baton drain orders a -n shop --undo, unless that is intended",
    )
    (dead,) = queues(facts)
    assert (dead.verdict, dead.says) == (Verdict.WARNING, "1 dead letter waits")
    assert dead.cure.startswith("inspect (baton dead-letters list orders -n shop)")


def test_an_unused_queue_is_one_warning() -> None:
    unused = {"type": "Ready", "status": "Unknown", "reason": "Unused", "message": "no ConsumerGroup names this queue"}
    conditions = [{**unused, "lastTransitionTime": "1970-01-01T00:00:00Z"}]
    (told,) = queues(ClusterFacts(5.0, queues=[queue_view(queue("orders", conditions=conditions))]))
    assert (told.verdict, told.says) == (Verdict.WARNING, "no group names it")


NO_ROOM = "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."
CRASH = "container app: CrashLoopBackOff: exit code 1 (Error), see its log"


def waiting_pod(name: str, hindrance: str | None = None) -> PodView:
    return PodView("shop", MemberId(name), Uid(name), "orders", hindrance=hindrance)


WAITING = [waiting_pod("c", NO_ROOM), waiting_pod("b", NO_ROOM), waiting_pod("d", CRASH), waiting_pod("e")]


def looked(*conditions: Condition) -> GroupLook:
    one = look(MANIFEST, {}, pods=WAITING, now=5.0)
    return replace(one, status=one.status.model_copy(update={"conditions": list(conditions)}))


def test_the_doctor_groups_pods_by_cause() -> None:
    found = list(pods(ClusterFacts(5.0, groups=[look(MANIFEST, {}, now=5.0)], pods=WAITING)))
    about = "pods of shop/orders"
    assert found == [
        CheckResult(Verdict.WARNING, about, "e is not Ready", "kubectl describe pod -n shop e: its probe, its image, its node"),
        CheckResult(Verdict.WARNING, about, f"b, c are not Ready: {NO_ROOM}", "kubectl describe pod -n shop b"),
        CheckResult(Verdict.WARNING, about, f"d is not Ready: {CRASH}", "kubectl logs -n shop d --all-containers --previous"),
    ]


def test_the_status_names_pods_that_cannot_become_ready() -> None:
    screen = " ".join(shown(looked()).split())
    assert f"b, c are not Ready: {NO_ROOM}" in screen and f"d is not Ready: {CRASH}" in screen
    assert "e is not Ready" not in screen, "it only starts"
    assert looked().to_json()["notReady"] == {"b": NO_ROOM, "c": NO_ROOM, "d": CRASH}


def test_the_status_does_not_repeat_a_condition() -> None:
    message = f"2 of the 4 requested pods take part; b, c: not Ready ({NO_ROOM})"
    scaling = Condition(
        type="Settled",
        status=ConditionStatus.FALSE,
        reason="Scaling",
        message=message,
        last_transition_time="1970-01-01T00:00:00Z",
        observed_generation=1,
    )
    screen = " ".join(shown(looked(scaling)).split())
    assert screen.count(NO_ROOM) == 1 and f"d is not Ready: {CRASH}" in screen


def deployment(namespace: str, *arguments: str) -> dict[str, Any]:
    spec = {"serviceAccountName": "baton", "containers": [{"args": list(arguments)}]}
    return {"metadata": {"namespace": namespace}, "spec": {"template": {"spec": spec}}}


def test_the_operator_of_most_groups_comes_first() -> None:
    fakes = [deployment(f"a-tenant-{number}") for number in range(MOST_OPERATORS)]
    leaders = [Leader("ops/baton"), Leader("ops/baton"), Leader("a-tenant-0/baton")]
    found = accounts([*fakes, deployment("ops", "--namespace=shop")], leaders)
    assert found[:2] == [("system:serviceaccount:ops:baton", ("shop",)), ("system:serviceaccount:a-tenant-0:baton", ())]
    assert len(found) == MOST_OPERATORS


def test_operators_without_groups_are_sorted_by_name() -> None:
    found = accounts([deployment("b"), deployment("a"), deployment("a")], [])
    assert [account for account, _ in found] == ["system:serviceaccount:a:baton", "system:serviceaccount:b:baton"]


# -- A paused group, and the commands pause and rebalance.


def test_pausing_warns_that_partitions_of_ended_pods_wait() -> None:
    assert "partitions of pods that end wait without an owner" in follows("orders", "shop", paused=True)
    assert "owner" not in follows("orders", "shop", paused=False)


@pytest.mark.parametrize(("paused", "unowned", "warned"), [(True, 2, True), (True, 0, False), (False, 2, False)])
def test_the_doctor_warns_of_partitions_without_an_owner_in_a_paused_group(paused: bool, unowned: int, warned: bool) -> None:
    status = {**MANIFEST["status"], "state": "Paused", "unowned": unowned}
    manifest = {**MANIFEST, "spec": {**MANIFEST["spec"], "paused": paused}, "status": status}
    found = [one for one in groups(ClusterFacts(5.0, groups=[look(manifest, {}, (), now=5.0)])) if "without an owner" in one.says]
    assert [(one.verdict, one.cure) for one in found] == [(Verdict.WARNING, "baton resume orders -n shop")] * warned


@pytest.mark.parametrize("paused", [True, False])
def test_rebalancing_a_paused_group_warns_that_nothing_moves(paused: bool) -> None:
    spec = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "paused": paused})
    assert ("nothing moves until `baton resume orders -n shop`" in rebalance.follows("orders", "shop", spec)) == paused
