"""A step, then the ledger, then the effects; and steps whose write got no answer."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from baton.controller.group_loop import Finalizer
from baton.controller.large_work import MUCH, LargeWork
from baton.controller.runtime import GroupRuntime
from baton.engine import Effect, Grant, GroupState, load
from baton.engine.observation import GroupSpec, Observation, ObservedMember, ObservedQueue, Outcome
from baton.engine.results import StateChanged
from baton.engine.state import IN_DOUBT, in_doubt
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import FINALIZER, GroupView, group_view, groups_path
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from tests.unit.kube.memory_api import ShopApi

ORDERS = QueueName("orders")


class Surroundings:
    """Clock, ledger and queues of a runtime."""

    def __init__(self) -> None:
        self.drained: frozenset[tuple[Partition, Epoch]] = frozenset()
        self.outcomes: frozenset[Outcome] = frozenset()
        self.wanted: list[Effect] = []
        self.stands: Mapping[str, str] = {}
        self.mute = False
        """Writes are carried out, and their answers are lost."""
        self.refusing = False

    def now(self) -> float:
        return 100.0

    async def write(self, data: Mapping[str, str]) -> None:
        if self.refusing:
            raise ApiError(403, "", "the quota is used up")
        if self.mute:
            self.stands = data
            raise UnavailableError("the answer was lost")
        self.stands = data

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        self.wanted = list(effects)


def fleet(*names: str, partitions: int = 2) -> Observation:
    members = {MemberId(name): ObservedMember(Uid(f"uid-{name}")) for name in names}
    return Observation(GroupSpec(delay=0.0), {ORDERS: ObservedQueue(partitions)}, members)


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


@pytest.fixture
def runtime(around: Surroundings) -> GroupRuntime:
    return GroupRuntime(GroupState("shop/orders"), around, around, around, LargeWork().of("shop"))


async def test_nothing_of_a_step_is_done_before_it_is_written(runtime: GroupRuntime, around: Surroundings) -> None:
    around.mute = True
    before = runtime.state
    with pytest.raises(UnavailableError):
        await runtime.advance(fleet("a"))
    assert runtime.state is before
    assert not around.wanted


async def test_a_step_written_without_an_answer_is_continued(runtime: GroupRuntime, around: Surroundings) -> None:
    around.mute = True
    with pytest.raises(UnavailableError):
        await runtime.advance(fleet("a"))
    around.mute = False
    made = runtime.settle(around.stands)
    assert made is not None
    assert any(isinstance(one, StateChanged) for one in made.events), "what happened can be told"
    assert runtime.state == load(around.stands)
    assert not around.wanted, "the next step has its effects"
    assert runtime.settle(around.stands) is None
    await runtime.advance(fleet("a"))
    granted = {one.partition: (one.uid, one.epoch) for one in around.wanted if isinstance(one, Grant)}
    assert granted, "what it decided is carried out"
    await runtime.advance(fleet("a", "b"))
    for grant in around.wanted:
        if isinstance(grant, Grant) and (before := granted.get(grant.partition)) is not None and before[0] != grant.uid:
            assert grant.epoch > before[1], "an epoch that was in the ledger is not given to another pod"


async def test_a_step_that_the_ledger_does_not_have_is_forgotten(runtime: GroupRuntime, around: Surroundings) -> None:
    around.mute = True
    with pytest.raises(UnavailableError):
        await runtime.advance(fleet("a"))
    before = runtime.state
    assert runtime.settle({}) is None
    assert runtime.settle(around.stands) is None
    assert runtime.state is before


async def test_a_step_whose_write_was_refused_is_forgotten(runtime: GroupRuntime, around: Surroundings) -> None:
    around.refusing = True
    with pytest.raises(ApiError):
        await runtime.advance(fleet("a"))
    around.refusing = False
    assert runtime.settle({}) is None
    assert not around.stands


async def test_a_queue_doubted_since_an_unanswered_step_stays_doubted(runtime: GroupRuntime, around: Surroundings) -> None:
    await runtime.advance(fleet("a"))
    around.mute = True
    with pytest.raises(UnavailableError):
        await runtime.advance(fleet("a", "b"))
    around.mute = False
    runtime.state = in_doubt(runtime.state, ORDERS)
    assert runtime.settle(around.stands) is not None
    assert runtime.state.queues[ORDERS].incarnation == IN_DOUBT


async def test_a_step_for_many_members_runs_aside_though_there_are_few_partitions(
    runtime: GroupRuntime, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    do = runtime._work.do

    async def heard(much: int, *arguments: Any, **named: Any) -> Any:
        asked.append(much)
        return await do(much, *arguments, **named)

    monkeypatch.setattr(runtime._work, "do", heard)
    await runtime.advance(fleet(*(f"pod-{number}" for number in range(MUCH)), partitions=1))
    assert asked[0] > MUCH


# -- The finalizer of a group beside those of others.


OTHERS = "example.com/backup"


def make_group(api: ShopApi, *finalizers: str) -> dict[str, Any]:
    body = {"metadata": {"name": "orders", "finalizers": list(finalizers)}, "spec": {"queues": [{"name": "orders"}]}}
    return api.server.request("create", groups_path("shop"), body=body)


def group_now(api: ShopApi) -> GroupView:
    return group_view(api.server.request("get", groups_path("shop", "orders")))


async def test_the_finalizer_is_added_and_removed_beside_others() -> None:
    api = ShopApi()
    make_group(api, OTHERS)
    finalizer = Finalizer(api, "shop", "orders")
    await finalizer.put_on(group_now(api))
    assert set(group_now(api).finalizers) == {OTHERS, FINALIZER}
    assert await finalizer.take_off(group_now(api))
    assert group_now(api).finalizers == (OTHERS,)


async def test_a_finalizer_added_meanwhile_stays_and_the_removal_is_retried() -> None:
    api = ShopApi()
    make_group(api, FINALIZER)
    finalizer, before = Finalizer(api, "shop", "orders"), group_now(api)
    api.server.request("patch", groups_path("shop", "orders"), body={"metadata": {"finalizers": [FINALIZER, OTHERS]}})
    assert not await finalizer.take_off(before)
    assert set(group_now(api).finalizers) == {OTHERS, FINALIZER}
    assert await finalizer.take_off(group_now(api))
    assert group_now(api).finalizers == (OTHERS,)


async def test_a_deleted_group_needs_no_removal() -> None:
    api = ShopApi()
    make_group(api, FINALIZER)
    before = group_now(api)
    api.remove(groups_path("shop", "orders"))
    assert await Finalizer(api, "shop", "orders").take_off(before)
