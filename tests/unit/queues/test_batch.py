"""What is asked at the same time travels together, and each gets his own answer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.batches import MOST, Batches, ScriptRun


def request(number: int) -> ScriptRun:
    return ScriptRun(scripts.GRANT, [str(number)], [number])


class Server:
    def __init__(self) -> None:
        self.trips: list[int] = []
        self.sent: list[int] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, requests: Sequence[ScriptRun]) -> list[Any]:
        self.trips.append(len(requests))
        self.sent += [one.arguments[0] for one in requests]
        await self.open.wait()
        if any(one.arguments[0] == -1 for one in requests):
            raise QueueUnreachable("down")
        return [ValueError("refused") if one.arguments[0] == 7 else one.arguments[0] * 10 for one in requests]


class Hanging:
    def __init__(self) -> None:
        self.asked = False

    async def send(self, requests: Sequence[ScriptRun]) -> list[Any]:
        assert not self.asked, "it is asked again"
        self.asked = True
        raise RedisTimeoutError("no answer")


async def some_turns() -> None:
    """Of the event loop: enough for what is asked to be on its way."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_turn_of_the_event_loop_is_a_round_trip_and_answers_go_to_who_asked() -> None:
    server = Server()
    batches = Batches(server.send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in range(5)))
    assert (answers, server.trips) == ([0, 10, 20, 30, 40], [5])


async def test_many_are_sent_in_several_round_trips_that_do_not_wait_for_each_other() -> None:
    server = Server()
    server.open.clear()
    batches = Batches(server.send)
    asking = asyncio.gather(*(batches.ask(request(8)) for _ in range(2 * MOST + 1)))
    await some_turns()
    assert server.trips == [MOST, MOST, 1]
    server.open.set()
    await asking


async def test_no_more_round_trips_are_under_way_than_may_be_and_a_cancelled_request_is_not_sent() -> None:
    server = Server()
    server.open.clear()
    batches = Batches(server.send, at_once=2)
    asking = [asyncio.create_task(batches.ask(request(8)._replace(weight=MOST))) for _ in range(4)]
    await some_turns()
    asking.pop().cancel()
    await some_turns()
    assert server.trips == [1, 1]
    server.open.set()
    assert await asyncio.gather(*asking) == [80, 80, 80]
    assert server.trips == [1, 1, 1]


async def test_what_begins_something_waits_until_nothing_else_does() -> None:
    server = Server()
    server.open.clear()
    batches = Batches(server.send, at_once=1)
    asking = []
    for number, later in ((1, True), (2, True), (3, False), (4, True)):
        asking.append(asyncio.create_task(batches.ask(request(number)._replace(later=later, weight=MOST))))
        await some_turns()
    server.open.set()
    await asyncio.gather(*asking)
    assert server.sent == [1, 3, 2, 4]


async def test_what_hangs_ends_what_waits_behind_it() -> None:
    batches = Batches(Hanging().send, at_once=1)
    asking = [batches.ask(request(8)._replace(later=later, weight=MOST)) for later in (False, False, True)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisTimeoutError] * 3


async def test_what_weighs_more_shares_its_round_trip_with_fewer() -> None:
    server = Server()
    batches = Batches(server.send)
    await batches.ask_all([request(8)._replace(weight=weight) for weight in (MOST // 2, MOST // 2, 1, 2 * MOST, 1)])
    assert server.trips == [2, 1, 1, 1]


async def test_what_is_refused_is_raised_to_who_asked_for_it_alone() -> None:
    batches = Batches(Server().send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in (6, 7, 8)), return_exceptions=True)
    assert (answers[0], str(answers[1]), answers[2]) == (60, "refused", 80)


async def test_what_cannot_be_sent_is_raised_to_everybody_and_the_next_goes_on() -> None:
    batches = Batches(Server().send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in (1, -1)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [QueueUnreachable] * 2
    assert await batches.ask(request(2)) == 20


async def test_who_does_not_wait_any_more_disturbs_nobody() -> None:
    server = Server()
    server.open.clear()
    batches = Batches(server.send)
    impatient = asyncio.create_task(batches.ask(request(1)))
    patient = asyncio.create_task(batches.ask(request(2)))
    await some_turns()
    impatient.cancel()
    server.open.set()
    assert await patient == 20


async def test_when_it_is_closed_who_still_waits_is_told_so() -> None:
    server = Server()
    server.open.clear()
    batches = Batches(server.send)
    asking = asyncio.create_task(batches.ask(request(1)))
    await some_turns()
    await batches.close()
    with pytest.raises(QueueUnreachable, match="closed"):
        await asking
