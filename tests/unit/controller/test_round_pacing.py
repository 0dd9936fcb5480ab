"""Many that are woken at once do not all go on at once."""

import asyncio

from baton.controller.retrying import AT_ONCE, RoundPacing
from tests.waiting import PATIENCE


async def test_others_have_their_turn_between_some_and_the_next() -> None:
    pace = RoundPacing()
    went: list[str] = []

    async def one(name: str) -> None:
        await pace.turn()
        went.append(name)

    rounds = [asyncio.create_task(one(str(number))) for number in range(3 * AT_ONCE)]
    for _ in range(20):
        await asyncio.sleep(0)
        went.append("another")
    assert [name for name in went if name != "another"] == [str(number) for number in range(3 * AT_ONCE)]
    between = "".join("|" if name == "another" else "." for name in went).split("|")
    assert max(map(len, between)) == AT_ONCE
    await asyncio.gather(*rounds)


async def test_who_is_cancelled_holds_up_nobody() -> None:
    pace = RoundPacing()
    waiting = [asyncio.create_task(pace.turn()) for _ in range(3 * AT_ONCE)]
    await asyncio.sleep(0)
    for one in waiting[AT_ONCE:]:
        one.cancel()
    async with asyncio.timeout(PATIENCE):
        await pace.turn()
    await asyncio.gather(*waiting, return_exceptions=True)
