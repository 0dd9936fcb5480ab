"""A wrong environment fails at the start, with an error that names what to set."""

from pathlib import Path

import pytest

from baton.consumer import Consumer, Pod
from baton.consumer.api_server import ApiConnection
from baton.queues import consumer_side
from baton.queues.kind import QueueKind
from baton.queues.kinds import KINDS

POD = {"BATON_GROUP": "orders", "POD_NAME": "orders-0", "POD_NAMESPACE": "shop", "POD_UID": "a-uid"}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "set BATON_REDIS_URL or BATON_KAFKA_URL in the container's env"),
        ("redis.shop:6379", "BATON_REDIS_URL cannot be used. The queue's URL is not a Redis URL"),
        ("redis://redis/orders", "does not end with the number of a database"),
        ("redis://redis/?protocol=3", "has the unknown option protocol: use"),
        ("redis://redis/?decode_responses=true", "has the unknown option decode_responses: use"),
    ],
)
def test_a_url_that_cannot_be_used_is_said_before_the_consumer_begins(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (POD | {"BATON_REDIS_URL": url}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="BATON_REDIS_URL") as problem:
        Consumer.from_environment()
    assert said in str(problem.value)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (POD | {"POD_UID": ""}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="set POD_UID in the container's env"):
        Consumer.from_environment()


def test_without_a_service_account_it_is_said_where_one_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (POD | {"BATON_REDIS_URL": "redis://redis"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ValueError, match="this is no pod of a cluster"):
        Consumer.from_environment()
    server = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ValueError, match="do not set automountServiceAccountToken to false"):
        ApiConnection.in_pod(tmp_path, server)


@pytest.mark.parametrize("grace", ["30s", "-5", "nan", "inf", "half a minute"])
def test_a_grace_period_that_is_no_number_of_seconds_is_named(grace: str) -> None:
    with pytest.raises(ValueError, match=f"BATON_GRACE_SECONDS is '{grace}': set it to the pod's terminationGracePeriodSeconds"):
        Pod.from_environment(POD | {"BATON_GRACE_SECONDS": grace})
    assert Pod.from_environment(POD | {"BATON_GRACE_SECONDS": "5.2"}).grace == 5.2
    assert Pod.from_environment(POD).grace == 30.0


def test_a_pre_stop_hook_takes_of_the_grace_period() -> None:
    assert Pod.from_environment(POD | {"BATON_PRESTOP_SECONDS": "10"}).grace == 20.0
    assert Pod.from_environment(POD | {"BATON_PRESTOP_SECONDS": "40"}).grace == 0.0
    with pytest.raises(ValueError, match="BATON_PRESTOP_SECONDS is '10s': set it to the seconds of the pod's preStop hook"):
        Pod.from_environment(POD | {"BATON_PRESTOP_SECONDS": "10s"})


def test_an_environment_with_queues_of_two_kinds_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    another = QueueKind(
        name="Toy",
        about="",
        resource="",
        operator="",
        fenced=True,
        session_required=True,
        variable="BATON_TOY_URL",
        consumer="toy:Toy",
    )
    monkeypatch.setattr(consumer_side, "KINDS", (*KINDS, another))
    with pytest.raises(ValueError, match=r"BATON_REDIS_URL and BATON_TOY_URL are set .* keep the one of the group's queues"):
        consumer_side.addressed({"BATON_REDIS_URL": "redis://redis", "BATON_TOY_URL": "toy://there"})
    assert consumer_side.addressed({"BATON_REDIS_URL": "", "BATON_TOY_URL": "toy://there"}) == (another, "toy://there")
    with pytest.raises(ValueError, match="set BATON_REDIS_URL or BATON_KAFKA_URL or BATON_TOY_URL in the container's env"):
        consumer_side.addressed({})
