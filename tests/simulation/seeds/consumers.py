"""A consumer: one process in a pod. It acts from the ledger as it last saw it, and may be slow, silent or stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from baton.model.ledger import MemberEntry

if TYPE_CHECKING:
    from tests.simulation.seeds.world import World

Key = tuple[str, int]


@dataclass(eq=False, slots=True)
class Consumer:
    world: World
    name: str
    uid: str
    joined: float
    instance: str | None = None
    subscribed: frozenset[str] | None = None
    pace: float = 0.7
    """Seconds between looks for work."""
    work: float = 0.3
    """Seconds for a batch; None of it is interrupted by a revoke."""
    silent: bool = False
    """Once told to let go it neither finishes nor says anything; but its heart beats."""
    terminating: bool = False
    stopped: bool = False
    dead: bool = False
    lapsed: bool = False
    """Its session was not renewed in time."""
    owned: dict[Key, int] = field(default_factory=dict)
    revoking: dict[Key, int] = field(default_factory=dict)
    read_to: dict[Key, int] = field(default_factory=dict)
    busy: dict[Key, tuple[int, int, int]] = field(default_factory=dict)
    """A batch in work: epoch, start, end."""
    words: set[tuple[str, str, int, int]] = field(default_factory=set)
    idle: bool = True
    """Its key owns and revokes nothing."""

    @property
    def alive(self) -> bool:
        return not self.dead and not self.stopped

    def start(self) -> None:
        self.world.clock.later(self.world.rng.random() * self.pace, self._tick)

    def told(self, text: str | None) -> None:
        """It looks at its key of the ledger. One with another UID was written for an earlier pod."""
        if not self.alive:
            return
        entry = None if text is None else MemberEntry.from_json(text)
        if entry is not None and entry.uid != self.uid:
            entry = None
        owned = {} if entry is None else _flat(entry.owned)
        revoking = {} if entry is None else _flat(entry.revoking)
        for key, epoch in owned.items():
            if self.owned.get(key) != epoch:
                self.world.told(self, key, epoch)
                if self.owned.get(key, self.revoking.get(key)) is not None and key in self.busy:
                    del self.busy[key]  # granted anew: what it had in work under the old epoch is not its any more
                self.read_to.pop(key, None)
        self.owned, self.revoking = owned, revoking
        for key in [key for key in self.busy if key not in owned and key not in revoking]:
            del self.busy[key]
        self.idle = not owned and not revoking
        self.words = {word for word in self.words if revoking.get((word[1], word[2])) == word[3]}
        if not self.silent:
            for key, epoch in revoking.items():
                if key not in self.busy:
                    self._release(key, epoch)

    def restart_in_place(self) -> None:
        """The container, not the pod: it has forgotten how far it had read."""
        self.busy.clear()
        self.read_to.clear()

    def speak(self) -> None:
        """It is not silent any more."""
        self.silent = False
        for key in list(self.busy):
            self._finish(key)
        self.told((self.world.store.data or {}).get(self.name))

    def stop(self) -> None:
        self.stopped = True

    def wake(self) -> None:
        """SIGCONT: it goes on with what it was doing, before it learns of anything. Where nothing fences it looks at its Lease
        first."""
        self.stopped = False
        if self.lapsed:
            for key in [key for key in self.owned if not self.world.queues[key[0]].fenced]:
                self._drop(key)
            for key in [key for key in self.busy if not self.world.queues[key[0]].fenced]:
                self._drop(key)
        for key in list(self.busy):
            self._finish(key)
        self._look_for_work()

    def _drop(self, key: Key) -> None:
        self.owned.pop(key, None)
        self.busy.pop(key, None)
        self.read_to.pop(key, None)

    def _tick(self) -> None:
        if self.dead:
            return
        if not self.stopped:
            self._look_for_work()
        self.world.clock.later(self.pace, self._tick)

    def _look_for_work(self) -> None:
        for key, epoch in list(self.owned.items()):
            if key in self.busy:
                continue
            answer = self.world.read(self, key, epoch, self.read_to.get(key))
            if answer == "stale":
                self._drop(key)
            elif answer == "paused":
                if self.terminating and not self.silent:  # nobody refreshes its map any more: the queue tells it
                    self._release(key, epoch)
            elif isinstance(answer, tuple) and answer[1] > answer[0]:
                self.busy[key] = (epoch, *answer)
                self.read_to[key] = answer[1]
                self.world.clock.later(self.work, lambda key=key: self._finish(key))  # type: ignore[misc]

    def _finish(self, key: Key) -> None:
        if self.stopped or self.dead or key not in self.busy or (self.silent and key in self.revoking):
            return
        epoch, start, end = self.busy.pop(key)
        taken = self.world.acknowledge(self, key, epoch, start, end)
        if taken is None:  # no answer: again, until there is one
            self.busy[key] = (epoch, start, end)
            self.world.clock.later(1.0, lambda: self._finish(key))
            return
        if not taken:
            self._drop(key)
        if key in self.revoking and not self.silent:
            self._release(key, self.revoking[key])

    def _release(self, key: Key, epoch: int) -> None:
        self.read_to.pop(key, None)
        self.owned.pop(key, None)
        self.words.add((self.uid, *key, epoch))
        self.world.session_changed(self)


def _flat(queues: object) -> dict[Key, int]:
    return {(queue, number): epoch for queue, grants in queues.items() for number, epoch in grants.items()}  # type: ignore[attr-defined]
