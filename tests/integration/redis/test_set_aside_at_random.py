"""Ranges that are set aside in between, and checkpoints that are lost: an entry is done, in the queue or in the dead letters."""

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import RangeToFinish, RangeToLog, RangeToSetAside, SetAside, Unlogged
from tests.integration.redis.conftest import Queue
from tests.integration.redis.test_ranges_at_random import Batch, World, play
from tests.redis_server import RedisServer


class SettingAside(World):
    """Without failovers: what one loses of the dead letters is lost."""

    def __init__(self, seed: int, queue: Queue, raw: redis.Redis) -> None:
        super().__init__(seed, queue, raw)
        self.aside: set[int] = set()
        """Where batches begin that were."""
        self.before: set[bytes] = set()
        """What was done under checkpoints that are lost."""

    async def step(self) -> None:
        actions = {
            self.send: 4, self.grant: 1, self.pause: 1, self.driver: 8, self.begin_task: 5, self.task: 20, self.finish: 3,
            self.restart_driver: 1, self.zombie: 2, self.read_singly: 1, self.jump: 0.5, self.foreign: 0.5, self.set_aside: 3,
            self.lose_the_checkpoint: 0.3,
        }  # fmt: skip
        (action,) = self.dice.choices(list(actions), list(actions.values()))
        await action()
        self.all_is_there()

    def log(self, batch: Batch) -> None:
        if batch.start not in self.aside:
            return super().log(batch)
        answers = self.twice(lambda: self.ranges.log(self.query, [RangeToLog(0, batch.start, batch.end)]))
        assert answers == [SetAside()]
        batch.rows = {}
        self.committed += 1
        self.tasks = [one for one in self.tasks if one.batch is not batch]
        return None

    async def set_aside(self) -> None:
        """The query has failed for its batch: another begins."""
        if len(self.batches) == self.committed or self.batches[-1].logged_by != self.query:
            return
        batch = self.batches[-1]
        told = [RangeToSetAside(0, batch.start, batch.end, 3)]
        (answer,) = self.twice(lambda: self.ranges.set_aside(self.query, told, "why"))
        if isinstance(answer, SetAside):
            self.aside.add(batch.start)
        else:
            assert isinstance(answer, Unlogged) and self.acknowledged, answer
        self.tasks.clear()
        await self.restart_driver()

    async def lose_the_checkpoint(self) -> None:
        """What was done and not finished comes again."""
        self.before = self.done()
        self.tasks.clear()
        await self.restart_driver()
        self.batches.clear()
        self.committed, self.begins_at = 0, self.ranges.positions()[0].committed
        self.before -= set(self.entries(self.begins_at, 2**53).values())

    def letters(self) -> list[bytes]:
        found: list[tuple[bytes, dict[bytes, bytes]]] = self.raw.xrange(self.keys.dead)  # type: ignore[assignment]  # redis-py's is wider
        return [fields[b"value"] for _, fields in found if fields[b"key"]]

    def done(self) -> set[bytes]:
        return super().done() | self.before

    def all_is_there(self) -> None:
        there, letters = set(self.entries(0, 2**53).values()), self.letters()
        assert len(letters) == len(set(letters))
        assert not set(letters) & (there | self.done())
        assert self.everything() <= there | self.done() | self.acknowledged | set(letters)

    def everything(self) -> set[bytes]:
        return {str(number).encode() for number in range(self.sent)}

    async def end(self) -> None:
        self.tasks.clear()
        self.epoch, self.owner = self.epoch + 1, "a"
        await self.queue.operator.grant(0, Uid("a"), Epoch(self.epoch))
        while True:
            known = len(self.batches)
            await self.driver()
            if known == self.committed == len(self.batches):
                break
            self.tasks.clear()
            await self.begin_task()
            while self.tasks:
                await self.task()
        await self.finish()
        self.ranges.finish(self.query, [RangeToFinish(0, self.begins_at)])
        assert self.everything() == self.done() | self.acknowledged | set(self.letters())
        assert self.entries(0, 2**53) == {}
        assert (await self.queue.operator.check()).lag[0] == 0


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_an_entry_is_done_or_there_or_a_dead_letter(server: RedisServer, seed: int) -> None:
    await play(SettingAside, server, seed)
