"""Turns of requests, in virtual time, with calls of given durations."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from baton.kube.namespace_turns import FEWEST, MOST_IDLE, NamespaceTurns, Order
from baton.simulation import virtual_time
from tests.unit.kube.virtual_tests import told_by

AT_ONCE, LATE, HANGS = 8, 1.0, 10.0


class Server:
    """Counts requests under way, by namespace."""

    def __init__(self) -> None:
        self.turns = NamespaceTurns(AT_ONCE, LATE)
        self.now = asyncio.get_running_loop().time
        self.under_way: dict[str, int] = {}
        self.most = 0
        self.order: list[tuple[str, Order]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def call(self, namespace: str, seconds: float, order: Order = Order.LEDGER) -> None:
        async with self.turns.take(namespace, order):
            self.order.append((namespace, order))
            self.under_way[namespace] = self.under_way.get(namespace, 0) + 1
            self.most = max(self.most, sum(self.under_way.values()))
            try:
                await asyncio.sleep(seconds)
            finally:
                self.under_way[namespace] -= 1

    def calls(self, number: int, namespace: str, seconds: float, order: Order = Order.LEDGER) -> None:
        self.tasks += [asyncio.create_task(self.call(namespace, seconds, order)) for _ in range(number)]

    async def took(self, namespace: str, seconds: float, order: Order = Order.LEDGER) -> float:
        begun = self.now()
        await self.call(namespace, seconds, order)
        return self.now() - begun


@told_by
def played(story: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server()
        await story(server)
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
        assert not any(server.under_way.values())
        server.most = 0
        server.calls(AT_ONCE, "after", 0.1)
        server.calls(AT_ONCE, "wards", 0.1)
        await asyncio.sleep(0.3)
        assert server.most == 6, "all turns were given back, and one leaves as many to others as it takes"

    virtual_time.run(main())


@played
async def test_the_most_important_request_goes_first(server: Server) -> None:
    server.calls(AT_ONCE, "busy", 0.1)
    server.calls(2, "shop", 0.1)
    await asyncio.sleep(0.01)
    server.order.clear()
    for order in reversed(Order):
        server.calls(3, "shop", 0.1, order)
    await asyncio.sleep(1)
    assert [order for namespace, order in server.order if namespace == "shop"] == sorted(list(Order) * 3)


@played
async def test_namespaces_take_turns_however_many_requests_wait(server: Server) -> None:
    server.calls(1000, "crowd", 0.1)
    server.calls(1000, "throng", 0.1)
    await asyncio.sleep(0)
    assert await server.took("shop", 0.1) == pytest.approx(0.1), "one turn is left free"
    assert server.most <= AT_ONCE


@played
async def test_a_hundred_hanging_namespaces_leave_turns_to_others(server: Server) -> None:
    for number in range(100):
        server.calls(20, f"busy-{number}", HANGS)
    await asyncio.sleep(100 / AT_ONCE + 3)  # so long it takes to find out
    for _ in range(100):
        assert await server.took("shop", 0.1) == pytest.approx(0.1)
    assert server.most <= AT_ONCE * (HANGS / LATE + 2)


@played
async def test_a_hanging_namespace_delays_no_other(server: Server) -> None:
    server.calls(200, "busy", HANGS)
    for _ in range(300):
        assert await server.took("shop", 0.1) == pytest.approx(0.1)
    assert server.under_way["busy"] <= FEWEST


@played
async def test_requests_behind_hanging_ones_are_sent_eventually(server: Server) -> None:
    server.calls(10, "busy", HANGS)
    await asyncio.sleep(HANGS * 10)
    assert all(task.done() and task.exception() is None for task in server.tasks)


@pytest.mark.parametrize("order", [Order.READ, Order.STATUS, Order.ANNOTATION, Order.EVENT])
@played
async def test_hanging_requests_of_one_kind_delay_no_ledger_of_their_namespace(server: Server, order: Order) -> None:
    server.calls(200, "shop", HANGS, order)
    await asyncio.sleep(0)
    for _ in range(300):
        assert await server.took("shop", 0.1) <= 0.1 + LATE


@played
async def test_a_namespace_that_answers_again_has_all_its_turns(server: Server) -> None:
    server.calls(10, "shop", HANGS)
    await asyncio.sleep(HANGS * 10)
    server.calls(100, "shop", 0.1)
    await asyncio.sleep(5)
    assert all(task.done() for task in server.tasks)
    server.calls(AT_ONCE, "shop", 0.1)
    await asyncio.sleep(0)
    assert server.under_way["shop"] == AT_ONCE // 2


@played
async def test_idle_namespaces_are_forgotten(server: Server) -> None:
    for number in range(2 * MOST_IDLE):
        server.calls(1, f"shop-{number}", 1.5 * LATE)
        if number % AT_ONCE == 0:
            await asyncio.sleep(2 * LATE)
    await asyncio.gather(*server.tasks)
    assert await server.took("shop", 0.1) == pytest.approx(0.1)
    assert len(server.turns._lines) <= MOST_IDLE + len(Order) + 1


@played
async def test_one_late_answer_in_fifty_hardly_delays_its_namespace(server: Server) -> None:
    begun = server.now()
    for number in range(400):
        server.calls(1, "shop", 5.0 if number % 50 == 0 else 0.5)
    await asyncio.gather(*server.tasks)
    assert server.now() - begun <= 2 * 400 * 0.6 / (AT_ONCE // 2)


@played
async def test_a_server_that_is_slow_for_all_still_answers_all(server: Server) -> None:
    for number in range(10):
        server.calls(4, f"shop-{number}", 2.0)
    await asyncio.sleep(20)
    assert all(task.done() and task.exception() is None for task in server.tasks)
    assert server.most <= AT_ONCE * 3


@played
async def test_nothing_begins_while_turns_are_closed(server: Server) -> None:
    leads = False
    server.turns.may_begin = lambda: leads
    server.calls(3, "shop", 0.1)
    await asyncio.sleep(100)
    assert server.order == []
    leads = True
    server.turns.go_on()
    await asyncio.sleep(0.2)
    assert len(server.order) == 3


@played
async def test_a_cancelled_request_returns_its_turn(server: Server) -> None:
    server.calls(20, "shop", 0.5)
    await asyncio.sleep(0)
    for task in server.tasks[10:]:
        task.cancel()
    await asyncio.sleep(0.5)
    for task in server.tasks[4:8]:  # they have just been given their turns
        task.cancel()
    assert await server.took("shop", 0.1) <= 1.2
