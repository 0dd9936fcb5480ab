"""Why a pod is not Ready, in Kubernetes' words."""

from typing import Any

import pytest

from baton.kube.pods import LONGEST_REASON, PodView, hindrance, view

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def unscheduled(message: str = NO_ROOM) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def waiting(reason: str, message: str | None = None, *, kind: str = "containerStatuses", **more: Any) -> dict[str, Any]:
    state = {"reason": reason, **({} if message is None else {"message": message})}
    return {"phase": "Pending", kind: [{"name": "app", "state": {"waiting": state}, **more}]}


def pod(status: dict[str, Any], **metadata: Any) -> PodView:
    seen = view(
        {"metadata": {"namespace": "shop", "name": "a", "uid": "u", "labels": {"baton.dev/group": "orders"}, **metadata}}
        | {"status": status}
    )
    assert seen is not None
    return seen


CRASHED: dict[str, Any] = {
    "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "the password is swordfish"}}
}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (unscheduled(), f"Unschedulable: {NO_ROOM}"),
        (
            unscheduled("pod has unbound immediate\nPersistentVolumeClaims"),
            "Unschedulable: pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "nope:1"'),
            'container app: ImagePullBackOff: Back-off pulling image "nope:1"',
        ),
        (
            waiting("CreateContainerConfigError", 'secret "s" not found'),
            'container app: CreateContainerConfigError: secret "s" not found',
        ),
        (waiting("CreateContainerError"), "container app: CreateContainerError"),
        (
            waiting("CrashLoopBackOff", "back-off 10s restarting failed container=app pod=a_shop(u)", **CRASHED),
            "container app: CrashLoopBackOff: exit code 3 (Error), see its log",
        ),
        (
            waiting("CrashLoopBackOff", "back-off 10s", kind="initContainerStatuses", **CRASHED),
            "container app: CrashLoopBackOff: exit code 3 (Error), see its log",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
            },
            "container app: exit code 1 (Error), see its log",
        ),
        (waiting("ContainerCreating"), None),
        (waiting("PodInitializing"), None),
        ({"phase": "Pending"}, None),
        ({}, None),
        ({"phase": "Running", "containerStatuses": [{"name": "app", "state": {"running": {}}}]}, None),
        (unscheduled() | {"phase": "Failed"}, None),
    ],
)
def test_why_a_pod_is_not_ready_is_said_in_kubernetes_words(status: dict[str, Any], words: str | None) -> None:
    assert hindrance(status) == words
    assert pod(status).hindrance == words


def test_the_reason_is_bounded_and_on_one_line() -> None:
    words = hindrance(unscheduled("\x1b[31mno\nroom " * 10_000))
    assert words is not None and len(words) == LONGEST_REASON + 1 and words.isprintable()


def test_a_ready_or_stopping_pod_has_no_reason() -> None:
    status = waiting("CrashLoopBackOff", "back-off 10s")
    assert pod(status | {"conditions": [{"type": "Ready", "status": "True"}]}).hindrance is None
    assert pod(status, deletionTimestamp="2026-11-22T00:00:00Z").hindrance is None


def test_without_a_reason_the_phase_is_given() -> None:
    assert pod({"phase": "Pending"}).unready == "it has not started yet"
    assert pod({"phase": "Running"}).unready == "it runs: its probes, or its node"
    assert pod(unscheduled()).unready == f"Unschedulable: {NO_ROOM}"
