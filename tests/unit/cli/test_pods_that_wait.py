"""`baton status` and `baton doctor` say why pods are not Ready."""

from dataclasses import replace

from baton.api import Condition, ConditionStatus
from baton.cli.cluster_facts import ClusterFacts
from baton.cli.doctor import CheckResult, Verdict, pods
from baton.cli.group import GroupLook, look
from baton.kube.pods import PodView
from baton.model.ids import MemberId, Uid
from tests.unit.cli.test_status_screen import MANIFEST, shown

NO_ROOM = "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."
CRASH = "container app: CrashLoopBackOff: exit code 1 (Error), see its log"


def pod(name: str, hindrance: str | None = None) -> PodView:
    return PodView("shop", MemberId(name), Uid(name), "orders", hindrance=hindrance)


WAITING = [pod("c", NO_ROOM), pod("b", NO_ROOM), pod("d", CRASH), pod("e")]


def looked(*conditions: Condition) -> GroupLook:
    one = look(MANIFEST, {}, pods=WAITING, now=5.0)
    return replace(one, status=one.status.model_copy(update={"conditions": list(conditions)}))


def test_the_doctor_tells_pods_apart_by_what_they_wait_for() -> None:
    found = list(pods(ClusterFacts(5.0, groups=[look(MANIFEST, {}, now=5.0)], pods=WAITING)))
    about = "pods of shop/orders"
    assert found == [
        CheckResult(Verdict.WARNING, about, "e is not Ready", "kubectl describe pod -n shop e: its probe, its image, its node"),
        CheckResult(Verdict.WARNING, about, f"b, c are not Ready: {NO_ROOM}", "kubectl describe pod -n shop b"),
        CheckResult(Verdict.WARNING, about, f"d is not Ready: {CRASH}", "kubectl logs -n shop d --all-containers --previous"),
    ]


def test_the_status_names_pods_that_something_keeps_from_being_ready() -> None:
    screen = " ".join(shown(looked()).split())
    assert f"b, c are not Ready: {NO_ROOM}" in screen and f"d is not Ready: {CRASH}" in screen
    assert "e is not Ready" not in screen, "it only starts"
    assert looked().to_json()["notReady"] == {"b": NO_ROOM, "c": NO_ROOM, "d": CRASH}


def test_the_status_says_once_what_a_condition_says() -> None:
    message = f"2 of the 4 pods that are asked for take part; b, c: not Ready ({NO_ROOM})"
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
