"""Spark executors under `baton dev`: members by the word of their driver's Lease."""

from itertools import count

import pytest

from baton.dev.group import executors
from baton.kube.leases import LeaseView
from baton.kube.members import membership
from baton.model.ids import Uid

DRIVER = Uid("uid-of-the-driver")


def lease(registered: str, holder: Uid | None = DRIVER, app: str | None = "app-1") -> LeaseView:
    return LeaseView("dev", "orders-driver", "orders", holder, registered=registered, spark_app=app)


def members(of: LeaseView) -> list[str]:
    seen = membership("orders", executors(of, lambda _: 1.0), [of], lambda _: False, sessions_required=True)
    return sorted(seen.members)


def test_whom_a_driver_has_registered_takes_part() -> None:
    assert members(lease("0,1")) == ["app-1-exec-0", "app-1-exec-1"]


@pytest.mark.parametrize("of", [lease(""), lease("0,1", holder=None), lease("0,1", app=None)])
def test_nobody_takes_part_without_a_driver_that_says_so(of: LeaseView) -> None:
    assert members(of) == []


def test_an_executor_is_the_same_at_each_look_and_another_one_under_another_driver() -> None:
    times = count(1)
    since = {uid: float(next(times)) for uid in (one.uid for one in executors(lease("0,1"), lambda _: 0.0))}
    assert [one.ready_since for one in executors(lease("0,1"), since.__getitem__)] == [1.0, 2.0]
    assert not {one.uid for one in executors(lease("0,1", holder=Uid("another")), lambda _: 0.0)} & since.keys()
