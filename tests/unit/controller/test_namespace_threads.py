"""Threads that namespaces share."""

import asyncio
import threading

from baton.controller.namespace_threads import NamespaceThreads


class Works:
    """Each goes on until all are told to end."""

    def __init__(self, threads: int) -> None:
        self.threads = NamespaceThreads(threads, "test")
        self.tasks: list[asyncio.Task[asyncio.Future[None]]] = []
        self.begun: list[str] = []
        self._end = threading.Event()

    async def begin(self, namespace: str) -> asyncio.Task[asyncio.Future[None]]:
        task = asyncio.create_task(self._begin(namespace))
        self.tasks.append(task)
        for _ in range(10):
            await asyncio.sleep(0)
        return task

    async def _begin(self, namespace: str) -> asyncio.Future[None]:
        thread = await self.threads.begin(namespace, 0, self._work)
        self.begun.append(namespace)
        return thread

    async def end(self) -> None:
        self._end.set()
        await asyncio.gather(*[await task for task in self.tasks if not task.cancelled()])

    def _work(self) -> None:
        assert self._end.wait(60)


async def test_no_namespace_holds_all_of_them() -> None:
    works = Works(8)
    for namespace in ("evil",) * 20 + ("worse",) * 20 + ("shop", "bank"):
        await works.begin(namespace)
    assert works.begun == ["evil"] * 4 + ["worse"] * 2 + ["shop", "bank"]
    await works.end()
    assert len(works.begun) == 42


async def test_namespaces_take_turns() -> None:
    works = Works(1)
    for namespace in ("a", "a", "a", "b", "b", "c"):
        await works.begin(namespace)
    await works.end()
    assert works.begun == ["a", "a", "b", "c", "a", "b"]


async def test_who_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    works = Works(2)
    for namespace in ("a", "a", "b"):
        await works.begin(namespace)
    assert works.begun == ["a", "b"]
    works.tasks[1].cancel()
    c = await works.begin("c")
    await works.end()
    assert works.begun == ["a", "b", "c"] and c.done()


async def test_all_are_busy_only_where_none_was_free_since() -> None:
    works = Works(2)
    await works.begin("a")
    later = asyncio.get_running_loop().time() + 1
    assert not works.threads.all_busy_since(later)
    await works.begin("b")
    assert works.threads.all_busy_since(later)
    assert not works.threads.all_busy_since(0)
    await works.end()
    assert not works.threads.all_busy_since(later)
