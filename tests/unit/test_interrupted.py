"""The program that ends or stops an operator at an exact request does so right there."""

import asyncio
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.operator.interrupted import UNKNOWN_EFFECT, InterruptedQueue, Interruption
from tests.waiting import PATIENCE

PROGRAM = """
import asyncio, sys
from tests.integration.operator.interrupted import InterruptedApi, InterruptedQueue, Interruption
from baton.kube.api import Api

class Queue:
    async def pause(self, number):
        pass

    async def grant(self, number):
        print("granted", number, flush=True)

async def main(text):
    queue = InterruptedQueue(Queue(), Interruption(text))
    for number in range(1, 4):
        await queue.pause(number)
        await queue.grant(number)
    InterruptedApi(Api(None), Interruption(text))._effect("/api/v1/namespaces/shop/secrets/orders", {})

asyncio.run(main(sys.argv[1]))
"""


def run(text: str) -> tuple[int, int]:
    """The exit code, and how many grants there were."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, text], capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout.count("granted")


@pytest.mark.parametrize(
    ("text", "grants"),
    [("KILL:before:grant#2", 1), ("KILL:after:grant#2", 2), ("KILL:before:pause#1", 0)],
)
def test_the_process_is_killed_right_there(text: str, grants: int) -> None:
    assert run(text) == (-signal.SIGKILL, grants)


def test_a_place_that_is_not_reached_so_often_ends_nothing_but_a_write_that_is_no_known_effect_does() -> None:
    assert run("KILL:after:grant#4") == (UNKNOWN_EFFECT, 3)


def test_what_fails_has_no_after() -> None:
    class Failing:
        async def grant(self, number: int) -> None:
            raise FileNotFoundError

    queue: Any = InterruptedQueue(Failing(), Interruption("KILL:after:grant#1"))  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        asyncio.run(queue.grant(1))  # and this process lives
