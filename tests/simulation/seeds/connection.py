"""The way from an operator to a server and back. What was sent arrives, whatever has become of the sender by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tests.simulation.seeds.operators import Operator

T = TypeVar("T")


class Connection:
    """One operator's."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._environment = operator.environment

    async def carry(self, about: float, do: Callable[[], T], lost: Callable[[], bool] = lambda: False) -> T:
        """Do it there, after about so many seconds, and answer after as many. `lost`: nothing is answered any more."""
        environment, loop = self._environment, self._environment.loop
        answer: asyncio.Future[T] = loop.create_future()
        back = environment.latency(about)

        def arrive() -> None:
            if lost():
                return
            try:
                result = do()
            except Exception as error:
                loop.later(back, _failed, answer, error)
            else:
                loop.later(back, _answered, answer, result, lost)
            self._operator.boundary()

        self._operator.boundary()
        loop.later(environment.latency(about), arrive)
        return await answer


def _answered(answer: asyncio.Future[T], result: T, lost: Callable[[], bool]) -> None:
    """It was done. The answer may be lost nevertheless."""
    if not answer.done() and not lost():
        answer.set_result(result)


def _failed(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
