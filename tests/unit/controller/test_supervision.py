"""Background tasks that fail or end are logged, counted and restarted."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import baton
from baton.controller.problems import Problem
from baton.controller.retrying import AT_ONCE, Retrying, RoundPacing
from baton.controller.supervision import FIRST_PAUSE, GIVE_UP_AFTER, LONGEST_PAUSE, TaskName, Tasks, end
from baton.kube.clock import ApiServerClock
from baton.kube.errors import UnavailableError
from baton.simulation import virtual_time
from tests.waiting import PATIENCE

MAKERS = {"create_task", "ensure_future", "run_coroutine_threadsafe"}


class Work:
    """What a task does, each time it is started: an error to raise, or None to end."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.began: list[float] = []

    async def __call__(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        if not self.ends:
            await asyncio.Event().wait()
        end = self.ends.pop(0)
        if end is not None:
            raise end


def kept(work: Work, seconds: float = 600.0) -> Tasks:
    """Its tasks after this many virtual seconds."""

    async def main() -> Tasks:
        loop = asyncio.get_running_loop()
        tasks = Tasks(ApiServerClock(loop.time, loop.time))
        task = tasks.keep("events", work)
        await asyncio.sleep(seconds)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        return tasks

    return virtual_time.run(main())


def test_tasks_that_fail_or_end_are_counted_and_restarted() -> None:
    work = Work(KeyError("a"), None, RecursionError())
    assert +kept(work).failures == {"events": 3}
    assert len(work.began) == 4


def test_an_unrequested_cancellation_is_a_failure() -> None:
    work = Work(asyncio.CancelledError())
    assert +kept(work).failures == {"events": 1}
    assert len(work.began) == 2


def test_a_task_that_keeps_failing_is_restarted_less_and_less_often() -> None:
    work = Work(*[ValueError()] * 100)
    kept(work)
    pauses = [after - before for before, after in zip(work.began, work.began[1:], strict=False)]
    assert pauses[0] == FIRST_PAUSE
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE


async def test_a_task_that_fails_once_is_reported_once() -> None:
    tasks = Tasks(ApiServerClock())

    async def fails() -> None:
        raise ValueError

    await asyncio.gather(tasks.start("mount-refresh", fails()), return_exceptions=True)
    await asyncio.sleep(0)
    assert +tasks.failures == {"mount-refresh": 1}


def test_every_task_has_a_count_of_zero_before_it_fails() -> None:
    assert Tasks(ApiServerClock()).failures == dict.fromkeys(get_args(TaskName), 0)


def test_only_supervision_makes_tasks() -> None:
    package = Path(baton.__file__).parent
    found = [
        f"{file.relative_to(package)}:{line}"
        for layer in ("controller", "kube")
        for file in sorted((package / layer).rglob("*.py"))
        if file.name not in ("supervision.py", "elector.py")  # the elector's thread is awaited
        for line in unsupervised(ast.parse(file.read_text()))
    ]
    assert found == []


def unsupervised(tree: ast.AST) -> Iterator[int]:
    """Lines that make a task, by whatever name it came in. Those of a TaskGroup fail the task that they belong to."""
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if ast.unparse(item.context_expr) == "asyncio.TaskGroup()" and isinstance(item.optional_vars, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in MAKERS:
            of_group = isinstance(node.value, ast.Name) and node.value.id in groups
            if not of_group:
                yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            yield from (node.lineno for alias in node.names if alias.name in MAKERS)


async def deaf(cancellations: float) -> None:
    """A task that swallows this many cancellations."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if cancellations <= 0:
                raise
            cancellations -= 1


def ended(cancellations: float) -> tuple[bool, float]:
    """Whether `end` ends a task that swallows this many, and the virtual seconds that it took."""

    async def main() -> tuple[bool, float]:
        task = asyncio.create_task(deaf(cancellations))
        await asyncio.sleep(0)
        await end([task])
        return task.done(), asyncio.get_running_loop().time()

    return virtual_time.run(main())


def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    assert ended(0) == (True, 0.0)
    over, took = ended(3)
    assert over and took < GIVE_UP_AFTER


def test_a_task_that_never_ends_is_given_up() -> None:
    assert ended(GIVE_UP_AFTER) == (False, GIVE_UP_AFTER)


# -- Work that is retried until it succeeds.


def test_work_fails_from_its_first_failed_attempt_until_one_works() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        said: list[Problem] = []
        retrying = Retrying(ApiServerClock(loop.time, loop.time), said.append)
        fails = [True, False]

        async def work() -> bool:
            await asyncio.sleep(10)
            if fails.pop(0):
                raise UnavailableError("away")
            return True

        working = asyncio.create_task(retrying.until_it_works(work))
        for seconds, failing in ((5, False), (5.25, True), (5, True)):  # it works, waits half a second, works again
            await asyncio.sleep(seconds)
            assert retrying.failing == failing, loop.time()
        assert await working
        assert not retrying.failing

    virtual_time.run(story())


async def test_other_work_gets_a_turn_between_batches_of_rounds() -> None:
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


async def test_a_cancelled_round_delays_no_other() -> None:
    pace = RoundPacing()
    waiting = [asyncio.create_task(pace.turn()) for _ in range(3 * AT_ONCE)]
    await asyncio.sleep(0)
    for one in waiting[AT_ONCE:]:
        one.cancel()
    async with asyncio.timeout(PATIENCE):
        await pace.turn()
    await asyncio.gather(*waiting, return_exceptions=True)
