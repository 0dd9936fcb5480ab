"""Membership of pods."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from baton.kube.leases import LeaseView
from baton.kube.members import LeftOut, membership
from baton.kube.pods import PodView, view
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.session import PodReleases, Release, format_releases, parse_releases
from tests.ids import reading

POD = PodView("shop", MemberId("a"), Uid("u-a"), "orders", ready_since=100.0, running=True)
SESSION = LeaseView("shop", "baton-a", "orders", Uid("u-a"))
EXECUTOR = replace(
    POD, name=MemberId("exec-3"), uid=Uid("u-3"), spark_role="executor", executor_id="3", owners=frozenset({Uid("u-driver")})
)
DRIVER = LeaseView("shop", "orders-driver", "orders", Uid("u-driver"), registered="3", spark_app="app-1")


def who(pods: list[PodView], leases: list[LeaseView] | None = None, lapsed: bool = False, required: bool = False) -> set[str]:
    return set(membership("orders", pods, leases or [], lambda lease: lapsed, sessions_required=required).members)


def says(*releases: Release) -> dict[Uid, PodReleases]:
    return parse_releases(format_releases(releases))


@pytest.mark.parametrize(
    ("pod", "takes_part"),
    [
        (POD, True),
        (replace(POD, ready_since=None), False),
        (replace(POD, terminating=True), True),
        (replace(POD, terminating=True, ready_since=None), True),
        (replace(POD, terminating=True, running=False), False),
        (replace(POD, name=MemberId("group")), False),
        (replace(POD, spark_role="driver"), False),
    ],
)
def test_with_optional_sessions_a_ready_pod_is_a_member_without_one(pod: PodView, takes_part: bool) -> None:
    assert bool(who([pod])) is takes_part


@pytest.mark.parametrize("pod", [POD, replace(POD, terminating=True)])
def test_with_required_sessions_a_pod_without_one_takes_no_part(pod: PodView) -> None:
    assert who([pod], required=True) == set()
    assert who([pod], [replace(SESSION, holder=Uid("u-before"))], required=True) == set()
    assert who([pod], [replace(SESSION, holder=None)], required=True) == set()
    assert who([pod], [SESSION], required=True) == {"a"}


@pytest.mark.parametrize(
    ("pod", "leases", "lapsed", "why"),
    [
        (POD, [], False, LeftOut.NO_SESSION),
        (POD, [SESSION], True, LeftOut.LAPSED),
        (replace(POD, ready_since=None), [SESSION], False, LeftOut.NOT_READY),
        (replace(POD, name=MemberId("group")), [], False, LeftOut.NAME_TAKEN),
        (EXECUTOR, [], False, LeftOut.NO_DRIVER),
        (EXECUTOR, [replace(DRIVER, holder=None)], False, LeftOut.NO_DRIVER),
        (EXECUTOR, [replace(DRIVER, holder=Uid("u-other"))], False, LeftOut.OTHER_DRIVER),
        (EXECUTOR, [replace(DRIVER, registered="")], False, LeftOut.NOT_REGISTERED),
        (EXECUTOR, [DRIVER], True, LeftOut.LAPSED),
    ],
)
def test_the_reason_why_a_pod_takes_no_part_is_known(pod: PodView, leases: list[LeaseView], lapsed: bool, why: LeftOut) -> None:
    seen = membership("orders", [pod], leases, lambda lease: lapsed, sessions_required=True)
    assert seen.left_out == {pod.name: why}


def test_no_reason_is_given_for_a_stopping_pod() -> None:
    seen = membership("orders", [replace(POD, terminating=True)], [], lambda lease: False, sessions_required=True)
    assert (seen.members, seen.left_out) == ({}, {})


def test_a_problem_of_a_lease_is_reported_only_if_it_belongs_to_a_pod() -> None:
    others = replace(SESSION, name="baton-z"), replace(SESSION, holder=Uid("u-before")), DRIVER
    leases = [replace(lease, problem="bad") for lease in (SESSION, *others)]
    assert membership("orders", [POD], leases[:1], lambda lease: False).unread == {"baton-a": "bad"}
    assert membership("orders", [POD], leases[1:], lambda lease: False).unread == {}


def test_the_lease_of_an_earlier_pod_of_that_name_is_ignored() -> None:
    assert who([POD], [replace(SESSION, holder=Uid("u-before"))], lapsed=True) == {"a"}


@pytest.mark.parametrize(
    ("pod", "driver", "takes_part"),
    [
        (EXECUTOR, DRIVER, True),
        (EXECUTOR, None, False),
        (EXECUTOR, replace(DRIVER, registered="4"), False),
        (EXECUTOR, replace(DRIVER, holder=Uid("u-other")), False),
        (replace(EXECUTOR, owners=frozenset(), spark_app="app-1"), replace(DRIVER, holder=Uid("laptop")), True),
        (replace(EXECUTOR, owners=frozenset(), spark_app="app-2"), replace(DRIVER, holder=Uid("laptop")), False),
        (replace(EXECUTOR, spark_app="app-1"), replace(DRIVER, holder=Uid("laptop")), False),
        (EXECUTOR, replace(DRIVER, holder=None), False),
        (replace(EXECUTOR, terminating=True), replace(DRIVER, registered=""), True),
    ],
)
def test_an_executor_is_a_member_once_its_driver_has_registered_it(
    pod: PodView, driver: LeaseView | None, takes_part: bool
) -> None:
    assert bool(who([pod], [driver] if driver else [])) is takes_part


NOT_READY = replace(POD, ready_since=None)
ENDED = replace(NOT_READY, running=False)


@pytest.mark.parametrize(
    ("pod", "leases", "lapsed", "may_still_work"),
    [
        pytest.param(NOT_READY, [SESSION], False, True, id="not Ready, its session renewed"),
        pytest.param(NOT_READY, [], False, True, id="not Ready, without a session"),
        pytest.param(NOT_READY, [SESSION], True, False, id="its session lapsed"),
        pytest.param(POD, [SESSION], True, False, id="Ready, and its session lapsed"),
        pytest.param(replace(POD, terminating=True), [SESSION], True, False, id="stopping, and its session lapsed"),
        pytest.param(ENDED, [SESSION], False, False, id="it has ended"),
        pytest.param(ENDED, [], False, False, id="it has ended, without a session"),
        pytest.param(replace(ENDED, terminating=True), [SESSION], False, False, id="asked to stop, and it has ended"),
        pytest.param(replace(NOT_READY, name=MemberId("group")), [], False, False, id="it never had anything"),
        pytest.param(replace(EXECUTOR, ready_since=None), [DRIVER], False, True, id="an executor that is not Ready"),
        pytest.param(EXECUTOR, [replace(DRIVER, registered="")], False, True, id="not registered"),
        pytest.param(EXECUTOR, [], False, True, id="without a driver's Lease"),
        pytest.param(replace(EXECUTOR, terminating=True), [], False, True, id="stopping, without a driver's Lease"),
        pytest.param(EXECUTOR, [DRIVER], True, False, id="its driver's session lapsed"),
    ],
)
def test_a_pod_that_takes_no_part_may_work_until_it_ends_or_its_session_lapses(
    pod: PodView, leases: list[LeaseView], lapsed: bool, may_still_work: bool
) -> None:
    seen = membership("orders", [pod], leases, lambda lease: lapsed)
    assert seen.members == {}
    assert seen.away == ({pod.name: pod.uid} if may_still_work else {})


def test_with_required_sessions_a_pod_that_lost_its_lease_may_still_work() -> None:
    assert membership("orders", [POD], [], lambda lease: False, sessions_required=True).away == {"a": "u-a"}


def test_a_member_is_not_away() -> None:
    assert membership("orders", [POD, replace(POD, name=MemberId("b"), terminating=True)], [], lambda lease: False).away == {}


def test_a_session_releases_only_its_own_pods_grants() -> None:
    own = Release(Uid("u-a"), QueueName("orders"), 1, Epoch(7))
    foreign = Release(Uid("u-b"), QueueName("orders"), 2, Epoch(7))
    seen = membership("orders", [POD], [replace(SESSION, own_releases=says(own, foreign))], lambda lease: False)
    assert own in seen.releases and foreign not in seen.releases


def test_a_driver_releases_the_grants_of_its_executors() -> None:
    word = Release(Uid("u-3"), QueueName("orders"), 1, Epoch(7))
    other = replace(EXECUTOR, name=MemberId("exec-4"), uid=Uid("u-4"), owners=frozenset({Uid("u-else")}))
    false_word = Release(Uid("u-4"), QueueName("orders"), 2, Epoch(7))
    driver = replace(DRIVER, own_releases=says(word, false_word))
    seen = membership("orders", [EXECUTOR, other], [driver], lambda lease: False)
    assert word in seen.releases and false_word not in seen.releases


def test_an_unreadable_grant_is_reported_when_it_is_looked_up() -> None:
    said = parse_releases('{"u-a":{"orders":"9-3@5","returns":"1@2"}}')
    seen = membership("orders", [POD], [replace(SESSION, own_releases=said)], lambda lease: False)
    assert Release(Uid("u-a"), QueueName("returns"), 1, Epoch(2)) in seen.releases
    assert list(seen.refused()) == []
    assert Release(Uid("u-a"), QueueName("orders"), 4, Epoch(5)) not in seen.releases
    assert list(seen.refused()) == [("baton-a", "annotation baton.dev/releases: orders: the range '9-3@5' ends before it begins")]


@pytest.mark.parametrize("label", ["app/index", "topology.kubernetes.io/zone"])
def test_an_empty_label_counts_as_absent(label: str) -> None:
    empty = view(manifest(labels={"baton.dev/group": "orders", label: ""}))
    assert empty is not None
    member = membership("orders", [empty], [], lambda lease: False, "app/index").members[MemberId("a")]
    assert (member.instance, member.zone) == (None, None)


def test_an_empty_application_belongs_to_no_driver() -> None:
    executor = replace(EXECUTOR, owners=frozenset(), spark_app=None)
    assert who([executor], [replace(DRIVER, spark_app=None)]) == set()


def test_a_pods_labels_and_annotations_reach_the_engine() -> None:
    pod = replace(
        POD,
        labels=(("app/index", "7"), ("topology.kubernetes.io/zone", "z1")),
        subscribed=frozenset({QueueName("orders")}),
        assignors=("range",),
    )
    member = membership("orders", [pod], [], lambda lease: False, "app/index").members[MemberId("a")]
    assert (member.uid, member.joined, member.instance, member.zone) == ("u-a", 100.0, "7", "z1")
    assert (member.subscribed, member.assignors) == (reading("orders"), ("range",))


def test_ready_and_unready_pods_are_counted() -> None:
    pods = [POD, replace(POD, name=MemberId("b"), ready_since=None), replace(POD, name=MemberId("c"), terminating=True)]
    assert membership("orders", pods, [], lambda lease: False).pods == 2


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "a", "uid": "u-a", "labels": {"baton.dev/group": "orders"}, **changes},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z"}],
        },
    }


def test_a_pods_manifest_is_read() -> None:
    assert view(manifest()) == replace(POD, labels=(("baton.dev/group", "orders"),))
    assert view({"metadata": {"namespace": "shop", "name": "a", "uid": "u"}}) is None
    told = view(
        manifest(annotations={"baton.dev/subscribed": "orders, returns", "baton.dev/assignors": " ", "baton.dev/ledger": "x"})
    )
    assert told is not None
    assert (told.subscribed, told.assignors, told.told) == (reading("orders", "returns"), None, "x")


@pytest.mark.parametrize(
    ("annotations", "capacity", "assignors", "said"),
    [
        ({"baton.dev/capacity": " 2.5 "}, Fraction(5, 2), None, []),
        ({"baton.dev/capacity": " "}, Fraction(1), None, []),
        ({"baton.dev/capacity": "0"}, Fraction(1), None, ["baton.dev/capacity is '0', and counts as 1: give a number above 0"]),
        ({"baton.dev/capacity": "NaN"}, Fraction(1), None, ["baton.dev/capacity is 'NaN'"]),
        ({"baton.dev/capacity": "-1"}, Fraction(1), None, ["baton.dev/capacity"]),
        ({"baton.dev/capacity": "1e400"}, Fraction(1), None, ["baton.dev/capacity"]),
        ({"baton.dev/capacity": "٣"}, Fraction(1), None, ["baton.dev/capacity"]),
        ({"baton.dev/assignors": "range,example.com/mine"}, Fraction(1), ("range", "example.com/mine"), []),
        (
            {"baton.dev/assignors": "range,stiky"},
            Fraction(1),
            ("range",),
            ["baton.dev/assignors names 'stiky', and there is no such assignor: choose of average, "],
        ),
        (
            {"baton.dev/assignors": "rnage"},
            Fraction(1),
            None,
            ["names 'rnage', and there is no such assignor, so that the pod counts as supporting all: choose of average, "],
        ),
    ],
)
def test_an_invalid_annotation_is_reported_with_the_cure(
    annotations: dict[str, str], capacity: Fraction, assignors: tuple[str, ...] | None, said: list[str]
) -> None:
    seen = view(manifest(annotations=annotations))
    assert seen is not None and (seen.capacity, seen.assignors) == (capacity, assignors)
    assert len(seen.problems) == len(said)
    assert all(part in problem for part, problem in zip(said, seen.problems, strict=True))


def test_a_drivers_trouble_is_reported_once_with_or_without_executors() -> None:
    driver = replace(DRIVER, registered="3,4", trouble="Redis does not answer")
    executors = [EXECUTOR, replace(EXECUTOR, name=MemberId("exec-4"), uid=Uid("u-4"), executor_id="4")]
    pod = replace(POD, name=MemberId("orders-driver-7"), uid=Uid("u-driver"), spark_role="driver")

    def told(pods: list[PodView], *, lapsed: bool = False) -> dict[MemberId, str]:
        return dict(membership("orders", pods, [driver], lambda _: lapsed).trouble)

    assert told(executors) == {"orders-driver": "Redis does not answer"}
    assert told([pod, *executors]) == {"orders-driver-7": "Redis does not answer"}
    assert told([pod]) == {"orders-driver-7": "Redis does not answer"}
    assert told(executors, lapsed=True) == {}


def test_a_drivers_failed_query_and_missing_rights_are_reported_while_it_lives() -> None:
    driver = replace(DRIVER, query_failure="the sink is full", missing_rights="no pods: create")

    def told(lease: LeaseView, *, lapsed: bool = False) -> tuple[dict[MemberId, str], dict[MemberId, str]]:
        seen = membership("orders", [], [lease], lambda _: lapsed)
        return dict(seen.query_failures), dict(seen.missing_rights)

    assert told(driver) == ({"orders-driver": "the sink is full"}, {"orders-driver": "no pods: create"})
    assert told(driver, lapsed=True) == told(replace(driver, holder=None)) == ({}, {})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_does_not_count(phase: str) -> None:
    ended = view(manifest() | {"status": manifest()["status"] | {"phase": phase}})
    assert ended is not None and not ended.ready and not ended.running
    seen = membership("orders", [ended, POD], [], lambda _: False)
    assert (seen.pods, seen.ended, list(seen.left_out), list(seen.members)) == (1, 1, [], [POD.name])


def test_a_failed_driver_is_known_by_its_last_words() -> None:
    driver = replace(POD, name=MemberId("orders-driver-x"), spark_role="driver", failure="MissingRights: no")
    seen = membership("orders", [driver, replace(driver, name=MemberId("fine"), failure=None)], [], lambda lease: False)
    assert (seen.drivers, seen.pods) == ({"orders-driver-x": "MissingRights: no"}, 0)


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, "runs"),
        ({"ready_since": None, "running": False, "hindrance": "Unschedulable: no cpu"}, "is not Ready (Unschedulable: no cpu)"),
        ({"ready_since": None, "running": False}, "is not Ready (it has not started yet)"),
        ({"terminating": True}, "stops"),
        ({"ready_since": None, "ended": True}, "has come to its end"),
    ],
)
def test_the_state_of_a_driver_that_has_not_failed_is_known(changes: dict[str, Any], how: str) -> None:
    driver = replace(POD, name=MemberId("orders-driver-x"), spark_role="driver", **changes)
    seen = membership("orders", [driver], [], lambda lease: False)
    assert (seen.idle_drivers, seen.pods, seen.stopping) == ({"orders-driver-x": how}, 0, 0)


def test_why_a_pod_is_not_ready_and_how_many_are_stopping_is_known() -> None:
    pods = [
        replace(POD, ready_since=None, hindrance="Unschedulable: no cpu"),
        replace(POD, name=MemberId("b"), terminating=True, running=False),
        replace(POD, name=MemberId("c"), terminating=True),
    ]
    seen = membership("orders", pods, [], lambda lease: False)
    assert (seen.unready, seen.stopping, set(seen.members)) == ({"a": "Unschedulable: no cpu"}, 1, {"c"})


@pytest.mark.parametrize(
    ("role", "state", "words"),
    [
        ("driver", {"lastState": {"terminated": {"exitCode": 1, "message": "Trace\nRights: no\n\n"}}}, "Rights: no"),
        (
            "driver",
            {"state": {"terminated": {"exitCode": 1, "message": "Rights: no\n26/11/23 06:42:27 INFO Hooks: Shutdown\n"}}},
            "Rights: no",
        ),
        (
            "driver",
            {
                "state": {
                    "terminated": {"exitCode": 1, "message": "\tat a.B.c(D)\nCaused by: no pods\n\tat a.B.c(D)\n\t... 1 more\n"}
                }
            },
            "Caused by: no pods",
        ),
        ("driver", {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}, "exit code 1 (Error), see its log"),
        (
            "driver",
            {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "0 of 6"}}},
            "exit code 137 (OOMKilled), see its log",
        ),
        ("driver", {"state": {"terminated": {"exitCode": 0, "message": "done"}}}, None),
        ("driver", {"state": {"running": {}}}, None),
        ("executor", {"lastState": {"terminated": {"exitCode": 1, "message": "no"}}}, None),
    ],
)
def test_a_drivers_last_words_are_read_from_its_container(role: str, state: dict[str, Any], words: str | None) -> None:
    metadata = {"namespace": "shop", "name": "d", "uid": "u", "labels": {"baton.dev/group": "orders", "spark-role": role}}
    seen = view({"metadata": metadata, "status": {"containerStatuses": [state]}})
    assert seen is not None
    assert seen.failure == words
