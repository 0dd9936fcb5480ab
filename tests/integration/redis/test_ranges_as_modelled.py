"""The scripts and the simulation's model give the same answers to the same random requests."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import redis

from baton.queues.redis import scripts
from baton.queues.redis.keys import PartitionKeys, partition_keys
from baton.queues.redis.scripts import Script
from tests.integration.redis.conftest import make_queue
from tests.integration.redis.logged import words_of_one
from tests.redis_command import history_of
from tests.redis_server import RedisServer
from tests.simulation.spark.partition import Answer, Partition

LIVES, STEPS = 150, 60
WEIGHTS = {
    "ahead": 1, "log": 2, "reading": 2, "finish": 1, "fence": 1, "set_aside": 1,
    "add": 2, "grant": 1, "pause": 1, "single": 2, "ack": 1, "keep": 1, "fail_over": 1, "look": 1,
}  # fmt: skip
"""The relative frequency of each step."""
UIDS = ("a", "b")


class Server:
    """One partition at the real server."""

    def __init__(self, client: redis.Redis, keys: PartitionKeys, add: Callable[[], None]) -> None:
        self.client, self.keys, self.add = client, keys, add
        self.kept: dict[str, bytes | None] = {}
        self.histories = self.versions = 0

    def run(self, script: Script, *arguments: object) -> Answer:
        return plain(script.run(self.client, self.keys, arguments))

    def run_many(self, script: Script, *arguments: object) -> Answer:
        """Run a script for many partitions, on this one."""
        words = words_of_one(self.client, script, self.keys, *arguments)
        return tuple(int(word) if word.isdigit() else word for word in words)

    def last(self) -> int:
        return int(self.client.hget(self.keys.progress, "last") or 0)

    def keep(self) -> None:
        """Save the state that a replica has."""
        self.kept = {
            key: self.client.dump(key) for key in (self.keys.owner, self.keys.stream, self.keys.progress, self.keys.dead)
        }

    def fail_over(self) -> None:
        """Fail over to the replica: later writes are lost."""
        for key, text in self.kept.items():
            if text is None:
                self.client.delete(key)
            else:
                self.client.restore(key, 0, text, replace=True)
        self.histories += 1
        self.client.hset(self.keys.progress, "history", f"before-{self.histories}")

    def reading(self, after: int, arguments: Sequence[object], count: int) -> tuple[Answer, list[int]]:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.eval(scripts.READING.text, len(self.keys), *self.keys, *map(str, arguments))
            pipe.xrange(self.keys.stream, f"({after}-0", f"{arguments[4]}-0", count=count)
            answer, found = pipe.execute()
        return plain(answer), [number(entry_id) for entry_id, _ in found]

    def drained(self) -> bool:
        self.versions += 1
        return bool(scripts.DRAINED.run(self.client, self.keys, [history_of(self.client), self.versions]))

    def read(self, uid: str, epoch: int, count: int) -> Answer:
        answer = self.run(scripts.READ, uid, epoch, 0, count, 0, 1, "p", 1, 10**6)
        if answer[0] != "OK":
            return answer
        about = str(answer[7]).split()
        return ("OK", *(number(entry_id.encode()) for entry_id in about[::5]))


def plain(answer: Any) -> Answer:
    found = answer if isinstance(answer, list) else [answer]
    return tuple(one.decode() if isinstance(one, bytes) else one for one in found)


def number(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])


class Life:
    """One random life of a partition, at the server and in the model."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        begun = server.last()
        self.model = Partition(last=begun, committed=begun, done=begun, delivered=begun)
        self.kept = self.model.copy()
        self.queries = self.epochs = 0
        self.places = [begun]
        self.told: list[str] = []
        server.keep()

    def step(self) -> None:
        (step,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, step)()

    def same(self, what: str, real: object, modelled: object) -> None:
        self.told.append(f"{what}: {real}")
        assert real == modelled, "\n".join([*self.told, f"{self.model}"])

    def query(self) -> int:
        """Return mostly the latest query, sometimes the next or an earlier one."""
        self.queries += self.rng.random() < 0.1
        return max(0, self.queries - (self.rng.random() < 0.1))

    def place(self) -> int:
        known = [*self.places[-6:], *self.model.entries[-6:]]
        return self.rng.choice(known)

    def range(self) -> tuple[int, int]:
        if self.model.logged is not None and self.rng.random() < 0.6:
            return self.model.logged, self.model.planned
        one, other = sorted([self.place(), self.place()])
        return one, max(other, one + 1)

    def owner(self) -> tuple[str, int]:
        if self.rng.random() < 0.85:
            return self.model.uid, self.model.epoch
        return self.rng.choice(UIDS), max(0, self.model.epoch - self.rng.choice([0, 1]))

    # -- requests to both

    def add(self) -> None:
        self.server.add()
        self.same("add", self.server.last(), self.model.add())

    def grant(self) -> None:
        self.epochs += 1
        uid, epoch = self.rng.choice(UIDS), self.epochs
        real = self.server.run(scripts.GRANT, uid, epoch)
        self.model.grant(uid, epoch)
        self.same("grant", real[:2], (self.model.uid, self.model.epoch))

    def pause(self) -> None:
        _, epoch = self.owner()
        self.same("pause", self.server.run(scripts.PAUSE, epoch, "")[0], self.model.pause(epoch))

    def single(self) -> None:
        asked = (*self.owner(), self.rng.randint(1, 4))
        real = self.server.read(*asked)
        self.same(f"read {asked}", real if real[0] == "OK" else real[:1], self.model.read(*asked))

    def ack(self) -> None:
        uid, epoch = self.owner()
        one = self.rng.choice(sorted(self.model.pending) or [self.place()])
        real = self.server.run(scripts.ACK, uid, epoch, "", f"{one}-0")
        self.same(f"ack {one}", real if real[0] == "OK" else real[:1], self.model.ack(uid, epoch, one))

    def ahead(self) -> None:
        asked = (self.query(), *self.owner(), self.place(), self.rng.randint(1, 5))
        real = self.server.run_many(scripts.AHEAD, *asked, 0)
        modelled = self.model.ahead(*asked)
        self.same(f"ahead {asked}", real[: len(modelled)], modelled)
        if real[0] == "OK":
            self.places.append(int(real[1]))

    def log(self) -> None:
        asked = (self.query(), *self.range())
        self.same(f"log {asked}", self.server.run_many(scripts.LOG, *asked), self.model.log(*asked))

    def reading(self) -> None:
        start, end = self.range()
        uid, epoch = self.rng.choice([self.owner(), ("", 0)])
        attempt = f"1.{self.rng.randint(0, 1)}", self.rng.randint(1, 4), self.rng.choice("12")
        asked = (self.query(), uid, epoch, start, end, *attempt)
        after = self.rng.choice([start, *self.model.page(start, end, 9)])
        answer, page = self.server.reading(after, asked, 2)
        self.same(f"reading {asked}", answer, self.model.reading(*asked))
        if answer[0] == "OK":
            self.same("page", page, self.model.page(after, end, 2))

    def finish(self) -> None:
        asked = (self.query(), self.range()[1])
        self.same(f"finish {asked}", self.server.run_many(scripts.FINISH, *asked), self.model.finish(*asked))

    def set_aside(self) -> None:
        asked = (self.query(), *self.range())
        real = self.server.run_many(scripts.ASIDE, *asked, 3, "why")
        self.same(f"aside {asked}", real, self.model.set_aside(*asked))

    def fence(self) -> None:
        query = self.query()
        self.same(f"fence {query}", self.server.run_many(scripts.FENCE, query), self.model.fence(query))

    def keep(self) -> None:
        self.server.keep()
        self.kept = self.model.copy()

    def fail_over(self) -> None:
        self.told.append("failover")
        histories = self.model.history
        self.server.fail_over()
        self.model = self.kept.copy()
        self.model.history = histories + 1
        self.server.drained()
        self.model.gap = self.server.last() - self.model.last
        self.look()
        self.keep()

    def look(self) -> None:
        self.same("drained", self.server.drained(), self.model.drained())
        self.same("bounds", self.server.run_many(scripts.BOUNDS), self.model.bounds())


async def test_scripts_and_model_give_the_same_answers(server: RedisServer) -> None:
    for seed in range(LIVES):
        queue = await make_queue(server.url, partitions=1)
        with queue.raw() as client:
            life = Life(Server(client, partition_keys(queue.name, 0), partial(queue.send, "x")), random.Random(seed))
            life.told.append(f"seed {seed}")
            for _ in range(STEPS):
                life.step()
            ids = [number(entry_id) for entry_id, _ in client.xrange(life.server.keys.stream)]
            life.same("stream", tuple(ids), life.model.entries)
            letters = [number(fields[b"offset"]) for _, fields in client.xrange(life.server.keys.dead)]
            life.same("dead letters", tuple(letters), life.model.dead)
            assert all(one < other for one, other in pairwise(ids))
        await queue.close()
