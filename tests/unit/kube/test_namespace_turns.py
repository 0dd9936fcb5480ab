"""Whose requests may be under way: in virtual time, with calls that say how long they take."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from baton.kube.namespace_turns import OVERSHOOT, PATIENCE, Bounds, NamespaceTurns
from baton.simulation import virtual_time

BOUNDS = Bounds(answered=8, unanswered=8, each=4, each_unanswered=2, long=1.0)
HANGS = 10.0
"""Seconds."""


class Server:
    """Counts what is under way, by namespace."""

    def __init__(self) -> None:
        self.turns = NamespaceTurns(BOUNDS)
        self.now = asyncio.get_running_loop().time
        self.under_way: dict[str, int] = {}
        self.most = 0
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def call(self, namespace: str, seconds: float, what: str = "PUT configmaps") -> None:
        async with self.turns.take(namespace, what):
            self.order.append(namespace)
            self.under_way[namespace] = self.under_way.get(namespace, 0) + 1
            self.most = max(self.most, sum(self.under_way.values()))
            try:
                await asyncio.sleep(seconds)
            finally:
                self.under_way[namespace] -= 1

    def calls(self, number: int, namespace: str, seconds: float, what: str = "PUT configmaps") -> None:
        self.tasks += [asyncio.create_task(self.call(namespace, seconds, what)) for _ in range(number)]

    async def took(self, namespace: str, seconds: float, what: str = "PUT configmaps") -> float:
        begun = self.now()
        await self.call(namespace, seconds, what)
        return self.now() - begun


def played(story: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server()
        await story(server)
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
        await asyncio.sleep(0)
        assert not any(server.under_way.values())
        pools = server.turns._answered, server.turns._unanswered
        assert [(pool.busy, pool._waiting, pool._namespaces, pool._kinds) for pool in pools] == [(0, {}, {}, {})] * 2

    virtual_time.run(main())


def test_namespaces_take_turns_however_many_wait_in_one() -> None:
    async def story(server: Server) -> None:
        server.calls(1000, "crowd", 0.1)
        server.calls(1000, "throng", 0.1)
        await asyncio.sleep(0)
        assert (server.most, server.under_way) == (8, {"crowd": 4, "throng": 4})
        assert await server.took("shop", 0.1) <= 0.25
        assert server.most == 8

    played(story)


def test_the_kinds_of_a_namespace_take_turns() -> None:
    async def story(server: Server) -> None:
        server.calls(1000, "shop", 0.1, "PATCH pods")
        await asyncio.sleep(0)
        assert await server.took("shop", 0.1) <= 0.25

    played(story)


def test_who_hangs_waits_for_each_other_and_for_nobody_else() -> None:
    async def story(server: Server) -> None:
        for number in range(100):
            server.calls(20, f"busy-{number}", HANGS)
        await asyncio.sleep(100 / BOUNDS.answered + 3)  # so long it takes to find out, with a call of each
        for _ in range(100):
            assert await server.took("shop", 0.1) == pytest.approx(0.1)
            assert server.most <= BOUNDS.answered + OVERSHOOT * BOUNDS.unanswered

    played(story)


def test_a_namespace_is_found_out_once_and_not_for_each_kind_of_request() -> None:
    async def story(server: Server) -> None:
        for number in range(40):
            for what in ("POST configmaps", "PATCH pods", "PATCH status", "PATCH consumergroups"):
                server.calls(2, f"busy-{number}", HANGS, what)
        await asyncio.sleep(40 / BOUNDS.answered + 3)
        assert await server.took("shop", 0.1) == pytest.approx(0.1)

    played(story)


def test_while_it_is_found_out_nobody_waits_for_more_than_a_moment_for_each_namespace() -> None:
    async def story(server: Server) -> None:
        for number in range(3):
            server.calls(200, f"busy-{number}", HANGS)
        await asyncio.sleep(0)
        assert await server.took("shop", 0.1) <= BOUNDS.long + 0.2

    played(story)


def test_a_namespace_where_all_hangs_has_few_under_way_and_the_others_fail_unsent() -> None:
    async def story(server: Server) -> None:
        server.calls(200, "busy", HANGS)
        await asyncio.sleep(HANGS + 1)
        assert server.under_way["busy"] <= BOUNDS.each_unanswered
        await asyncio.sleep(2 * PATIENCE)
        assert all(task.done() for task in server.tasks)
        assert "not sent within 15 s" in str(server.tasks[-1].exception())
        assert len(server.order) < 20

    played(story)


def test_other_calls_of_the_namespace_go_on() -> None:
    async def story(server: Server) -> None:
        server.calls(4, "shop", HANGS, "POST configmaps")
        await asyncio.sleep(1.5)
        server.calls(20, "shop", HANGS, "POST configmaps")
        await asyncio.sleep(HANGS + 1)
        first = await server.took("shop", 0.1, "PATCH pods")
        assert first <= HANGS
        assert await server.took("shop", 0.1, "PATCH pods") == pytest.approx(0.1)

    played(story)


def test_what_is_answered_again_goes_on_as_before() -> None:
    async def story(server: Server) -> None:
        server.calls(200, "shop", HANGS)
        await asyncio.sleep(20 + PATIENCE)
        server.most = 0
        server.calls(100, "shop", 0.1)
        await asyncio.sleep(5)
        assert all(task.done() for task in server.tasks[-100:])
        assert server.turns._slow == {}
        server.calls(8, "shop", 0.1)
        await asyncio.sleep(0)
        assert server.under_way["shop"] == BOUNDS.each

    played(story)


def test_who_hangs_every_other_time_gets_no_more_than_a_few_turns_of_others() -> None:
    async def story(server: Server) -> None:
        for number in range(20):
            for _ in range(100):
                server.calls(1, f"busy-{number}", HANGS)
                server.calls(1, f"busy-{number}", 0.1)
        await asyncio.sleep(5)
        for _ in range(50):
            assert await server.took("shop", 0.1) <= 0.1 + 2 * BOUNDS.long

    played(story)


def test_a_server_that_is_slow_for_all_still_answers_all() -> None:
    async def story(server: Server) -> None:
        for number in range(10):
            server.calls(4, f"shop-{number}", 2.0)
        await asyncio.sleep(PATIENCE)
        assert all(task.done() and task.exception() is None for task in server.tasks)
        assert server.most <= BOUNDS.answered + 2 * BOUNDS.unanswered

    played(story)


def test_too_many_that_take_long_are_ended() -> None:
    async def story(server: Server) -> None:
        server.turns = NamespaceTurns(replace(BOUNDS, unanswered=1))
        for number in range(100):
            server.calls(1, f"busy-{number}", HANGS)
        await asyncio.sleep(5)
        assert server.most <= BOUNDS.answered + OVERSHOOT + 1
        assert any(task.done() and isinstance(task.exception(), TimeoutError) for task in server.tasks)
        assert await server.took("shop", 0.1) <= 10 * BOUNDS.long

    played(story)


def test_who_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    async def story(server: Server) -> None:
        server.calls(20, "shop", 0.5)
        await asyncio.sleep(0)
        for task in server.tasks[10:]:
            task.cancel()
        await asyncio.sleep(0.5)
        for task in server.tasks[4:8]:  # they have just been given their turns
            task.cancel()
        assert await server.took("shop", 0.1) <= 1.2

    played(story)
