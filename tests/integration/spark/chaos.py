"""Two drivers of one group under load and random faults, by a seed: on a real Spark and a real Redis.

Prints a line per fault, and checks the table at the end.
"""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from baton.dev.server import DevServer
from baton.model.lease import holder_of
from baton.queues.redis import RedisProducer
from tests.file_sink import committed, out_of_order, written
from tests.integration.spark.chaos_operator import Ledgers, Operator
from tests.integration.spark.driver_program import Place, command, to_files
from tests.network import Link, Network, Way
from tests.processes import ChildProcess
from tests.promises import promised
from tests.redis_server import RedisServer
from tests.waiting import HOUR, until


class Kind(Enum):
    DRIVER_KILLED = "the driver that has the Lease gets SIGKILL, with its executors"
    DRIVER_STOPPED = "the driver that has the Lease gets SIGSTOP, with its executors"
    EXECUTOR_KILLED = "an executor gets SIGKILL"
    EXECUTOR_STOPPED = "an executor gets SIGSTOP"
    QUEUE_RESTARTED = "Redis gets SIGKILL, and starts again"
    QUEUE_FULL = "Redis has no memory for more"
    QUEUE_CUT_OFF = "the driver that has the Lease does not reach Redis"
    API_ANSWERS_LOST = "the API server's answers to the driver that has the Lease are lost, and its ledger stands still"
    GRANTED_ON = "partitions are taken back, and granted on released or not"
    RESIZED = "the queue gets another number of partitions"


class Trouble(NamedTuple):
    kind: Kind
    pause: float
    """Seconds after the previous fault."""
    at_work: bool
    """Whether to wait until the fleet has recovered from the previous fault: rows have been written since."""
    lasts: float
    dice: int
    """Chooses the affected process, and the extent."""

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.lasts:g} s)" if self.kind in _LAST else self.kind.value


_LAST = frozenset(Kind) - {Kind.DRIVER_KILLED, Kind.EXECUTOR_KILLED, Kind.RESIZED}
_OFTEN = (Kind.GRANTED_ON, Kind.GRANTED_ON, Kind.GRANTED_ON)
_AT_WORK = 0.7
_LONGEST = {Kind.DRIVER_STOPPED: 8.0, Kind.EXECUTOR_STOPPED: 8.0, Kind.API_ANSWERS_LOST: 6.0, Kind.GRANTED_ON: 1.5}


_FEW = (Kind.DRIVER_KILLED, Kind.EXECUTOR_KILLED, Kind.API_ANSWERS_LOST, Kind.GRANTED_ON)


def troubles(seed: int) -> Iterator[Trouble]:
    """Each kind of fault at least once. Some hit a fleet at work, others a fleet that has not recovered."""
    return _by_seed(seed, (*Kind, *_OFTEN))


def a_few_troubles(seed: int) -> Iterator[Trouble]:
    """The most important faults, in a minute and a half."""
    return _by_seed(seed, _FEW)


def _by_seed(seed: int, kinds: Iterable[Kind]) -> Iterator[Trouble]:
    chance, shuffled = random.Random(seed), list(kinds)
    chance.shuffle(shuffled)
    for kind in shuffled:
        lasts = round(chance.uniform(0.1, 1.0) * _LONGEST.get(kind, 3.0), 2)
        yield Trouble(kind, round(chance.uniform(0.0, 3.0), 2), chance.random() < _AT_WORK, lasts, chance.randrange(1 << 30))


ROOT = Path(__file__).parents[3]
DRIVERS = ("driver-1", "driver-2")
_EXECUTOR = re.compile(r"^\s*(\d+) .*CoarseGrainedExecutorBackend", re.MULTILINE)
_WAITING = 1000
"""Entries that may wait."""
_FULL = 2**16
"""A memory limit in bytes that Redis exceeds by far."""


class Driver:
    """One of the two drivers. Restarted when it has ended."""

    def __init__(self, place: Place, log: Path, api: Link, redis: Link) -> None:
        self.name, self.api, self.redis = place.name, api, redis
        self.starts = 0
        self.place, self._log = place, log
        self._process: subprocess.Popen[bytes] | None = None

    def see_to(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.signal(signal.SIGKILL)  # what it has left
            self.starts += 1
            with self._log.open("ab") as log:
                self._process = ChildProcess(
                    command(to_files, self.place), cwd=ROOT, stdout=log, stderr=log, start_new_session=True
                )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver, its JVM and its executors."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def executors(self) -> list[int]:
        if self._process is None:
            return []
        listing = ["ps", "-ww", "-o", "pid=,args=", "-s", str(self._process.pid)]
        listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in _EXECUTOR.findall(listed)]

    def end(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()


class Producer:
    """Sends numbers, each once, until it is stopped."""

    def __init__(self, url: str, queue: str, lag: Callable[[], int]) -> None:
        """`lag`: entries that were sent and are not done. Sending pauses while it is large."""
        self.sent = 0
        self._lag = lag
        self._producer = RedisProducer(url, queue, patience=HOUR)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """Stop sending. Returns how many numbers were sent."""
        self._stopping.set()
        self._thread.join()
        self._producer.close()
        return self.sent

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            if self._lag() > _WAITING:
                continue
            self._producer.send_many([(f"key-{number % 61}", str(number)) for number in range(self.sent, self.sent + 20)])
            self.sent += 20


class Chaos:
    """The fleet, its servers and the faults."""

    def __init__(self, folder: Path, redis: RedisServer, network: Network, server: DevServer) -> None:
        self.table, self._redis, self._server = folder / "table", redis, server
        queue, api = f"default/{folder.name}".replace("_", "-"), urlsplit(server.url)
        assert api.hostname and api.port
        self.ledgers = Ledgers({name: folder / f"ledger-{name}" for name in DRIVERS})
        self.drivers: dict[str, Driver] = {}
        for name, ledger in self.ledgers.folders.items():
            ledger.mkdir()
            links = network.link(api.hostname, api.port), network.link(redis.bind, redis.port)
            place = Place(
                name=name,
                api=f"http://127.0.0.1:{links[0].port}",
                token=server.token,
                redis=f"redis://127.0.0.1:{links[1].port}/0",
                queue=queue,
                group=queue.rpartition("/")[2],
                ledger=str(ledger),
                checkpoint=str(folder / "checkpoint"),
                table=str(self.table),
                temporary_files=str(folder),
            )
            self.drivers[name] = Driver(place, folder / f"{name}.log", *links)
        self.operator = Operator(redis.url, queue, 4, server, self.ledgers)
        self.producer = Producer(redis.url, queue, self.operator.lag)
        self._mends: list[tuple[float, Callable[[], object]]] = []

    def go_on(self) -> None:
        """Restart processes that have ended, and undo faults that are over. Call it repeatedly."""
        now = time.monotonic()
        due = [mend for until, mend in self._mends if until <= now]
        self._mends = [(until, mend) for until, mend in self._mends if until > now]
        for mend in due:
            mend()
        for driver in self.drivers.values():
            driver.see_to()

    def rows(self) -> int:
        """The number of rows in the table."""
        return sum(written(self.table).values())

    def starts(self) -> int:
        """How often a driver was started."""
        return sum(driver.starts for driver in self.drivers.values())

    def mend(self) -> None:
        """Undo all faults now."""
        self._mends = [(0.0, mend) for _, mend in self._mends]
        self.go_on()

    def driver(self) -> Driver:
        """The driver that holds the Lease, or any driver."""
        holders = [holder_of(lease) for lease in self._server.leases()]
        return self.drivers[holders[0] if holders and holders[0] in self.drivers else DRIVERS[0]]

    def befall(self, trouble: Trouble) -> None:
        driver, dice = self.driver(), trouble.dice
        match trouble.kind:
            case Kind.DRIVER_KILLED:
                driver.signal(signal.SIGKILL)
            case Kind.DRIVER_STOPPED:
                driver.signal(signal.SIGSTOP)
                self._later(trouble, lambda: driver.signal(signal.SIGCONT))
            case Kind.EXECUTOR_KILLED | Kind.EXECUTOR_STOPPED:
                self._executor(driver, trouble)
            case Kind.GRANTED_ON:
                for number in range(self.operator.partitions):
                    if dice >> number & 1:
                        self.operator.take_back(number, trouble.lasts)
            case Kind.RESIZED:
                self.operator.partitions = 2 + dice % 6
            case _:
                self._servers(driver, trouble)

    def _servers(self, driver: Driver, trouble: Trouble) -> None:
        match trouble.kind:
            case Kind.QUEUE_RESTARTED:
                if self._redis.running:
                    self._redis.kill()
                    self._later(trouble, self._redis.start)
            case Kind.QUEUE_FULL:
                self._memory(_FULL)
                self._later(trouble, lambda: self._memory(0))
            case Kind.QUEUE_CUT_OFF:
                driver.redis.silence()
                self._later(trouble, driver.redis.heal)
            case Kind.API_ANSWERS_LOST:
                driver.api.silence(frozenset({Way.ANSWERS}))
                self.ledgers.frozen.add(driver.name)
                self._later(trouble, lambda: self._heard_again(driver))

    def _executor(self, driver: Driver, trouble: Trouble) -> None:
        pids = driver.executors()
        if not pids:
            return
        pid = pids[trouble.dice % len(pids)]
        if trouble.kind is Kind.EXECUTOR_KILLED:
            _signal(pid, signal.SIGKILL)
        else:
            _signal(pid, signal.SIGSTOP)
            self._later(trouble, lambda: _signal(pid, signal.SIGCONT))

    def _heard_again(self, driver: Driver) -> None:
        driver.api.heal()
        self.ledgers.frozen.discard(driver.name)

    def _memory(self, most: int) -> None:
        with self._redis.client() as client, suppress(Exception):  # it may be away: then it starts with all it wants
            client.config_set("maxmemory", most)

    def _later(self, trouble: Trouble, mend: Callable[[], object]) -> None:
        self._mends.append((time.monotonic() + trouble.lasts, mend))


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def running(folder: Path) -> Iterator[Chaos]:
    """A fleet with its operator and producer running, and two drivers that are starting."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(fsync="always"))
        network = stack.enter_context(Network())
        server = DevServer("default", folder.name, lambda: None)
        server.start()
        stack.callback(server.close)
        chaos = Chaos(folder, redis, network, server)
        for driver in chaos.drivers.values():
            stack.callback(driver.end)
        chaos.operator.start()
        stack.callback(chaos.operator.stop)
        chaos.producer.start()
        yield chaos


# -- the course of a test

BUSY = 240.0
"""Seconds that a busy machine may take to start a driver and its executors, and until a fleet works again."""
_TOLD_EVERY = 15.0


def see_every_row_once(folder: Path, seed: int, troubles: Iterable[Trouble]) -> None:
    """Inject these faults into a fleet under load, and read its table. Raises AssertionError if a row is missing, written twice,
    or after a later row of its partition."""
    with running(folder) as chaos:
        course = _Course(chaos, seed)
        try:
            course.until(lambda: chaos.rows() > 0, "the first rows are in the table")
            for trouble in troubles:
                course.rest(trouble)
                course.tell(str(trouble))
                chaos.befall(trouble)
            course.rest(trouble)
            chaos.mend()  # before: nothing can be sent while Redis is full or away
            sent = chaos.producer.stop()
            course.tell(f"all is mended, {sent:,} were sent")
            course.until(lambda: chaos.rows() >= sent, "all rows are in the table")
        except BaseException:
            for driver in chaos.drivers:
                print((folder / f"{driver}.log").read_text()[-4000:])
            raise
        rows = written(chaos.table)
        twice = [place for place, count in rows.items() if count > 1]
        with promised():
            assert not twice, f"seed {seed}: {twice[:10]}"
            assert len(rows) == sent, f"seed {seed}"
            assert out_of_order(chaos.table) == [], f"seed {seed}"
        batches = len(committed(chaos.table / "_spark_metadata"))
        course.tell(f"each once and in order, in {batches} batches; drivers were started {chaos.starts()} times")


class _Course:
    """What happens, and when."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self._chaos, self._seed = chaos, seed
        self._begun = self._told = time.monotonic()

    def tell(self, what: str) -> None:
        self._told = time.monotonic()
        print(f"seed {self._seed}: {self._told - self._begun:5.1f} s, {self._chaos.rows():,} rows: {what}", flush=True)

    def until(self, look: Callable[[], bool], what: str) -> None:
        """Like `tests.waiting.until`, but restarts ended processes and undoes faults that are over."""

        def going() -> bool:
            self._chaos.go_on()
            if time.monotonic() - self._told > _TOLD_EVERY:
                self.tell(f"waiting until {what}")
            return look()

        until(going, what, BUSY)

    def rest(self, trouble: Trouble) -> None:
        """Wait until the fleet may be disturbed."""
        begun, before = time.monotonic(), self._chaos.rows()
        self.until(lambda: time.monotonic() - begun >= trouble.pause, "it is time")
        if trouble.at_work:
            self.until(lambda: self._chaos.rows() > before, "there are more rows in the table")
