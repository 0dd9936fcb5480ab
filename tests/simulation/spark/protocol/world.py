"""Spark's drivers, tasks and logs around a queue: everything that can happen next, one step at a time.

A world can be copied and compared, so that small ones can be walked through in every order.
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.spark.partition import Partition
from tests.simulation.spark.protocol.driver import Driver, Offset
from tests.simulation.spark.protocol.promises import Promises
from tests.simulation.spark.protocol.shape import Shape
from tests.simulation.spark.protocol.task import Task, uid

Step = tuple[str | int, ...]
"""What happens, and to whom."""

PAGE = 2
POD = "pod"


class World:
    """`steps` says what may happen, and `do` makes it happen."""

    def __init__(self, shape: Shape) -> None:
        self.shape = replace(shape)
        self.partitions = {number: self._made() for number in range(shape.partitions)}
        self.replicas = {number: one.copy() for number, one in self.partitions.items()}
        self.promises = Promises()
        self.offsets: list[Offset] = []
        """Spark's offset log."""
        self.drivers: list[Driver] = []
        self.started = 0
        self.tasks: list[Task] = []
        self.executors = frozenset(f"e{number}" for number in range(shape.executors))
        self.next_executor = shape.executors
        self.staged: dict[int, int] = {}
        """Partition to the one that its entries wait for."""
        self.queries = 0
        self.excused = False
        """A query need not succeed: entries were lost, or a pod has read singly."""

    def copy(self) -> "World":
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        other.shape, other.promises = replace(self.shape), self.promises.copy()
        other.partitions = {number: one.copy() for number, one in self.partitions.items()}
        other.replicas = {number: one.copy() for number, one in self.replicas.items()}
        other.drivers = [one.copy() for one in self.drivers]
        other.tasks = [replace(one) for one in self.tasks]
        other.offsets, other.staged = list(self.offsets), dict(self.staged)
        return other

    def key(self) -> str:
        """Equal for worlds that nobody can tell apart."""
        around = self.shape, self.partitions, self.replicas, self.staged, self.queries
        return repr((around, self.promises, self.offsets, self.drivers, self.tasks, sorted(self.executors)))

    def _made(self) -> Partition:
        return Partition(uid="u0", epoch=1, broken=self.shape.broken)

    # -- what may happen

    def steps(self) -> Iterator[Step]:
        yield from self._around()
        for driver in self.drivers:
            for what in () if driver.busy else driver.steps(sorted(self.executors)):
                yield ("drive", driver.number, *what)
            if self.shape.deaths:
                yield ("die", driver.number)
        for place in range(len(self.tasks)):
            yield ("page", place)

    def _around(self) -> Iterator[Step]:
        shape = self.shape
        if len(self.drivers) < shape.drivers:
            yield ("start",)
        if shape.lost and self.drivers:
            yield from (("lose", executor) for executor in sorted(self.executors))
        if shape.failovers:
            yield from (("sync",), ("fail_over",))
        for number, one in self.partitions.items():
            if shape.entries and number not in self.staged and number not in self.staged.values():
                yield ("add", number)
            if shape.grants:
                yield from self._moves(number, one)
            if shape.seals and number not in self.staged and number not in self.staged.values():
                yield ("seal", number)
            if shape.singles:
                yield ("single", number)
            if one.uid == POD and one.pending:
                yield ("acknowledge", number)
        yield from (("drained", new) for new, former in self.staged.items() if self.partitions[former].drained())

    def _moves(self, number: int, one: Partition) -> Iterator[Step]:
        """What the operator may do with a partition."""
        yield from (("grant", number, executor) for executor in sorted(self.executors) if one.uid != uid(executor))
        if not one.paused:
            yield ("pause", number)

    # -- it happens

    def do(self, step: Step) -> None:
        getattr(self, f"_{step[0]}")(*step[1:])
        self.promises.nothing_is_gone(self.partitions)

    def _add(self, number: int) -> None:
        self.shape.entries -= 1
        self.promises.added.add((number, self.partitions[number].add()))

    def _start(self) -> None:
        self.drivers.append(self._driver(self.started))
        self.started += 1

    def _driver(self, number: int) -> Driver:
        return Driver(number)

    def _drive(self, number: int, what: str, *arguments: object) -> None:
        driver = next(one for one in self.drivers if one.number == number)
        driver.do(self, what, *arguments)
        if driver.over and driver in self.drivers:
            self.end(driver)

    def _die(self, number: int) -> None:
        self.shape.deaths -= 1
        self.end(next(one for one in self.drivers if one.number == number))

    def end(self, driver: Driver) -> None:
        driver.over = True
        self.drivers.remove(driver)
        for task in self.tasks:
            task.given_up |= task.driver == driver.number

    def _lose(self, executor: str) -> None:
        """Spark has another made instead."""
        self.shape.lost -= 1
        self.executors = self.executors - {executor} | {f"e{self.next_executor}"}
        self.next_executor += 1
        for task in self.tasks:
            if task.executor == executor and not task.given_up:
                task.given_up = True
                for driver in self.drivers:
                    if driver.number == task.driver and driver.running.get(task.slot) == task.attempt:
                        driver.running[task.slot] = 0

    def _pause(self, number: int) -> None:
        self.partitions[number].pause(self.partitions[number].epoch)

    def _grant(self, number: int, executor: str) -> None:
        self.shape.grants -= 1
        self.partitions[number].grant(uid(executor), self.partitions[number].epoch + 1)

    def _sync(self) -> None:
        self.replicas = {number: one.copy() for number, one in self.partitions.items()}

    def _fail_over(self) -> None:
        """The replica takes over. What was written since the last `sync` is lost, but for grants: the operator waits for the
        replica to have them."""
        self.shape.failovers -= 1
        for number, one in self.partitions.items():
            kept = self.replicas.get(number, self._made())
            self.promises.lost |= {(number, entry) for entry in set(one.entries) - set(kept.entries)}
            self.partitions[number] = replace(kept, loans=dict(kept.loans), history=one.history + 1, uid=one.uid, epoch=one.epoch)
        self._sync()
        self.promises.queries, self.promises.attempts = {}, {}
        self.excused |= bool(self.promises.lost)

    def _seal(self, number: int) -> None:
        self.shape.seals -= 1
        new = len(self.partitions)
        self.partitions[new], self.staged[new] = self._made(), number

    def _drained(self, new: int) -> None:
        del self.staged[new]

    def _single(self, number: int) -> None:
        self.shape.singles -= 1
        one = self.partitions[number]
        if one.uid != POD:
            one.grant(POD, one.epoch + 1)
        one.read(POD, one.epoch, 1)
        self.excused = True

    def _acknowledge(self, number: int) -> None:
        one = self.partitions[number]
        entry = min(one.pending)
        if one.ack(POD, one.epoch, entry)[1]:
            self.promises.acknowledged.add((number, entry))
        else:
            one.pending -= {entry}

    def _page(self, place: int) -> None:
        """A task asks whether it may, and reads, in one transaction."""
        task = self.tasks[place]
        evaluation, number, _ = task.slot
        one = self.partitions[number]
        asked = (task.uid, task.epoch, task.start, task.end, evaluation, task.attempt, task.executor)
        answer = self.promises.answered(number, task.query, one.reading(task.query, *asked))
        driver = next((d for d in self.drivers if d.number == task.driver and d.running.get(task.slot) == task.attempt), None)
        if answer[0] != "OK":
            del self.tasks[place]
            if driver and not task.given_up:
                driver.failed(self, task.slot)
                if driver.over:
                    self.end(driver)
            return
        self.promises.let_in(number, task.query, f"{task.slot}", task.attempt)
        page = one.page(task.cursor, task.end, PAGE)
        task.rows += tuple(page)
        task.cursor = page[-1] if page else task.end
        if len(page) == PAGE and task.cursor != task.end:
            return
        del self.tasks[place]
        self.promises.whole(task.batch, number, task.rows)
        if driver and not task.given_up:
            del driver.running[task.slot]
            driver.rows[task.slot] = task.rows
