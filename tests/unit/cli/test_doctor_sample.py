"""What the reference shows of `baton doctor` is what it says."""

import asyncio
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name

from baton.cli import doctor
from baton.cli.cluster_facts import OWN, AccountRight, ClusterFacts
from baton.cli.doctor import CheckResult, Verdict, findings
from baton.cli.group import look
from baton.controller.problems import Reason
from baton.kube.objects import queue_view
from baton.kube.pods import view
from baton.queues.opening import QueueToOpen, SecretText
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.connection import explained
from baton.queues.redis.operator_side import address
from baton.queues.redis.resource import RedisSource
from baton.queues.redis.url import read
from tests.unit.cli.test_status_screen import MANIFEST, queue
from tests.unit.kube.test_pod_status import unscheduled

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"


def unreachable() -> str:
    """What the operator says of a queue whose server is not there."""

    async def nobody(name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        raise AssertionError("the URL stands in the queue itself")

    source = RedisSource.model_validate({"url": "redis://redis.shop:6380"})
    where = asyncio.run(address(QueueToOpen("shop", "orders", source, 100, 5, nobody, Path("/etc/baton/tls"))))
    with pytest.raises(QueueUnreachable) as told, explained(read(where.text, stands_in=where.stands_in), "shop/orders"):
        raise ConnectionError("Error 111 connecting to redis.shop:6380. Connection refused.")
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


def test_the_sample_of_the_reference_is_what_the_doctor_says(capsys: pytest.CaptureFixture[str]) -> None:
    abouts = ("queue shop/orders", "your rights", "pods of shop/orders")
    found = [one for one in findings(facts()) if one.about in abouts]
    doctor._tell([*found, *[CheckResult(Verdict.OK, "another", "is as it should be")] * 12], everything=False)
    sample = PAGE.read_text().partition("## `baton doctor`")[2].split("```\n")[3].partition("```")[0]
    assert sample == capsys.readouterr().out
