"""The programs of the consumer guide do what it says, each in its own process; and how a process ends."""

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from struct import pack

import pytest

from baton.model.ids import Epoch, Uid
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import write_ledger
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually, until

ROOT = Path(__file__).parents[3]
GUIDES = "".join((ROOT / "docs" / "guides" / page).read_text() for page in ("consumer.md", "values.md", "state.md"))
PROGRAMS = re.findall(r"^```python\n(.*?)^```", GUIDES, re.DOTALL | re.MULTILINE)
SMALLEST, BATCHES, MODELS, CALLBACKS, LIFESPAN, DESERIALIZERS, PRODUCER, AVRO, PROTOBUF, DATABASE, SEQUENCES, FLUSH = PROGRAMS

COMING_FROM = (ROOT / "docs" / "guides" / "coming-from.md").read_text()
CONFLUENT, OURS, AIOKAFKA, LIMITED, CELERY, REJECTING, BREAKER = re.findall(
    r"^```python\n(.*?)^```", COMING_FROM, re.DOTALL | re.MULTILINE
)


class Process:
    """A pod's container, with a program of the guide."""

    def __init__(self, queue: Queue, directory: Path, uid: str, program: str) -> None:
        self.uid, self._queue, self._directory = uid, queue, directory
        self._ledger = directory / f"ledger-{uid}"
        self._ledger.mkdir()
        self._output = directory / f"output-{uid}"
        arguments = (str(Path(__file__).with_name("guide_program.py")), uid, str(self._ledger), queue.url, queue.name)
        with self._output.open("w") as output:
            self.process = ChildProcess(
                (sys.executable, *arguments),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        assert self.process.stdin is not None
        self.process.stdin.write(program.encode())
        self.process.stdin.close()

    def ledger(self, owned: Mapping[int, int], revoking: Mapping[int, int] | None = None) -> None:
        write_ledger(self._ledger, self._queue, Uid(self.uid), owned, revoking)

    @property
    def output(self) -> str:
        return self._output.read_text()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self._directory.joinpath("signalled").touch()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.process.wait(PATIENCE)


class Fleet:
    """Processes that take over from each other."""

    def __init__(self, queue: Queue, directory: Path) -> None:
        self.queue, self._directory = queue, directory
        self.processes: list[Process] = []
        self._epoch = 0

    async def start(self, program: str) -> Process:
        """Start another process and grant it both partitions."""
        self.processes.append(Process(self.queue, self._directory, f"pod-{len(self.processes)}", program))
        await self.grant(self.processes[-1])
        return self.processes[-1]

    async def grant(self, process: Process) -> None:
        self._epoch += 1
        for partition in (0, 1):
            await self.queue.operator.grant(partition, Uid(process.uid), Epoch(self._epoch))
        process.ledger({0: self._epoch, 1: self._epoch})

    async def call_back(self, process: Process) -> None:
        process.ledger({}, {0: self._epoch, 1: self._epoch})
        for partition in (0, 1):
            await self.queue.operator.pause(partition, Epoch(self._epoch))

    async def outstanding(self) -> int:
        return sum([await self.queue.operator.outstanding(partition) for partition in (0, 1)])

    async def outstanding_is(self, count: int) -> bool:
        return await self.outstanding() == count

    async def lag_is_none(self) -> bool:
        return await self.lag() == 0

    async def lag(self) -> int:
        return sum((await self.queue.operator.check()).lag.values())

    def rows(self, question: str) -> list[tuple[bytes, object]]:
        """Query the database; empty before the program has created its tables."""
        with closing(sqlite3.connect(self._directory / "state.db", timeout=30)) as database:
            try:
                return database.execute(question).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise


@pytest.fixture
async def fleet(queue: Queue, tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(queue, tmp_path)
    yield fleet
    for process in fleet.processes:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


@pytest.mark.parametrize("program", [SMALLEST, BATCHES], ids=["smallest", "batches"])
async def test_the_first_programs_print_and_acknowledge_their_entries(fleet: Fleet, queue: Queue, program: str) -> None:
    process = await fleet.start(program)
    queue.send("hello", "world")
    until(lambda: "world" in process.output, process.output)
    until(lambda: [line.rpartition(" ")[2] for line in process.output.splitlines()][-2:] == ["b'hello'", "b'world'"])
    await eventually(fleet.lag_is_none)
    await fleet.call_back(process)
    assert process.end() == 0


async def test_the_deserializer_program_sets_bad_values_aside(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(DESERIALIZERS)
    queue.send('{"n": 1}', "no JSON", '{"n": 2}')
    until(lambda: f"{queue.key(0).decode()} 2" in process.output)
    assert f"{queue.key(0).decode()} 1" in process.output
    await eventually(fleet.lag_is_none)
    assert (await queue.dead_letters())[0] == 1
    sends = os.environ | {"BATON_REDIS_URL": queue.url, "BATON_DEV_QUEUE": queue.name}
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", PRODUCER], env=sends, check=True, timeout=PATIENCE)
    until(lambda: "customer-19 99" in process.output)


FASTAVRO = """
import json, sys
from types import SimpleNamespace

read = lambda file, schema: dict(zip([field["name"] for field in schema["fields"]], json.load(file)))
sys.modules["fastavro"] = SimpleNamespace(parse_schema=lambda schema: schema, schemaless_reader=read)
"""
ORDERS_PB2 = """
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="orders.proto")
order = file.message_type.add(name="Order")
for number, (name, kind) in enumerate({"id": 3, "amount": 1}.items(), 1):
    order.field.add(name=name, number=number, type=kind, label=1)
orders = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
sys.modules["orders_pb2"] = type(sys)("orders_pb2")
sys.modules["orders_pb2"].Order = message_factory.GetMessageClass(orders.message_types_by_name["Order"])
"""


@pytest.mark.parametrize(
    ("program", "values"),
    [
        (MODELS, ['{"id": 1, "amount": 2.5}', '{"id": "x", "amount": 2}', '{"id": 3, "amount": 4}']),
        (FASTAVRO + AVRO, ["[1, 2.5]", "[1, 2", "[3, 4]"]),
        (ORDERS_PB2 + PROTOBUF, [b"\x08\x01\x11" + pack("<d", 2.5), b"\x08", b"\x08\x03\x11" + pack("<d", 4)]),
    ],
    ids=["pydantic", "avro", "protobuf"],
)
async def test_model_programs_set_bad_values_aside(fleet: Fleet, queue: Queue, program: str, values: list[str | bytes]) -> None:
    process = await fleet.start(program)
    queue.send(*values)
    until(lambda: all(f"{line}\n" in process.output for line in ("1 2.5", "3 4.0")), process.output)
    await eventually(fleet.lag_is_none)
    assert (await queue.dead_letters())[0] == 1


PAYMENTS = """
import sys
from contextlib import nullcontext
from types import SimpleNamespace

class CircuitBreakerError(Exception): ...

class CircuitBreaker:
    def __init__(self, fail_max, reset_timeout):
        self.reset_timeout = 0.1

    def call(self, function, **arguments):
        try:
            function(**arguments)
        except Exception as error:
            raise CircuitBreakerError() from error

failed = []

def charge(*, id, amount):
    if id == 2 and not failed:
        failed.append(id)
        raise ConnectionError()
    if id == 3:
        raise ValueError()
    print("charged", id, flush=True)

async def charge_async(*, id, amount):
    charge(id=id, amount=amount)

sys.modules["payments"] = SimpleNamespace(charge=charge, charge_async=charge_async)
sys.modules["aiolimiter"] = SimpleNamespace(AsyncLimiter=lambda rate, period: nullcontext())
sys.modules["pybreaker"] = SimpleNamespace(CircuitBreaker=CircuitBreaker, CircuitBreakerError=CircuitBreakerError)
"""
ONE, TWO, THREE = (f'{{"id": {number}, "amount": 1}}' for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("elsewhere", "program", "values"),
    [
        (CONFLUENT, OURS, (ONE, TWO, THREE)),
        (AIOKAFKA, LIMITED, (ONE, TWO, "no JSON")),
        (CELERY, REJECTING, (ONE, TWO, THREE)),
        ("", BREAKER, ("1", "2")),
    ],
    ids=["confluent-kafka", "aiokafka", "celery", "circuit breaker"],
)
async def test_the_migrated_programs_do_what_they_did_elsewhere(
    fleet: Fleet, queue: Queue, elsewhere: str, program: str, values: tuple[str, ...]
) -> None:
    compile(elsewhere, "coming-from.md", "exec")
    process = await fleet.start(PAYMENTS + program)
    queue.send(*values)
    until(lambda: "charged 1\n" in process.output and "charged 2\n" in process.output, process.output)
    await eventually(fleet.lag_is_none)
    assert (await queue.dead_letters())[0] == len(values) - 2


async def test_the_callback_program_prints_its_assignments(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(CALLBACKS)
    queue.send("a")
    until(lambda: "b'a'" in process.output)
    await fleet.call_back(process)
    until(lambda: "revoked" in process.output)
    await fleet.grant(process)
    until(lambda: process.output.count("assigned") == 2)
    words = [line for line in process.output.splitlines() if line.startswith(("assigned", "revoked", "lost", "b'"))]
    assert [re.sub(r" time left: .*", "", line) for line in words] == [
        "assigned [0, 1]",
        "b'a'",
        "revoked [0, 1]",
        "assigned [0, 1]",
    ]


async def test_state_in_a_database_is_right_after_a_crash_and_hand_off(fleet: Fleet, queue: Queue) -> None:
    first = await fleet.start(DATABASE)
    queue.send(*["1"] * 300)
    until(lambda: fleet.rows("SELECT total FROM totals WHERE total > 20"))
    first.end(signal.SIGKILL)
    second = await fleet.start(DATABASE)
    queue.send(*["1"] * 100)
    await eventually(fleet.lag_is_none)
    await fleet.call_back(second)
    await fleet.start(DATABASE)
    queue.send(*["1"] * 100)
    await eventually(fleet.lag_is_none)
    assert fleet.rows("SELECT * FROM totals") == [(queue.key(0), 500)]


async def test_the_next_owner_gets_an_incomplete_sequence_from_its_beginning(fleet: Fleet, queue: Queue) -> None:
    one, other = queue.key(0, 0), queue.key(0, 1)
    first = await fleet.start(SEQUENCES)
    queue.producer.send_many([(one, "a"), (other, "x"), (one, "b"), (other, "end")])
    until(lambda: fleet.rows("SELECT * FROM orders") == [(other, b"x end")])
    await eventually(lambda: fleet.outstanding_is(2))  # acknowledgements reach the queue a little later
    await fleet.call_back(first)
    await fleet.start(SEQUENCES)
    queue.producer.send_many([(one, "c"), (one, "end")])
    until(lambda: len(fleet.rows("SELECT * FROM orders")) == 2)
    assert fleet.rows("SELECT * FROM orders ORDER BY items") == [(one, b"a b c end"), (other, b"x end")]
    await eventually(fleet.lag_is_none)


async def test_state_in_memory_is_flushed_when_its_partition_is_revoked(fleet: Fleet, queue: Queue) -> None:
    first = await fleet.start(FLUSH)
    queue.send(*["1"] * 300)
    await eventually(lambda: fleet.outstanding_is(300))
    assert fleet.rows("SELECT * FROM totals") == []
    await fleet.call_back(first)
    await eventually(lambda: fleet.outstanding_is(0))
    assert fleet.rows("SELECT * FROM totals") == [(queue.key(0), 300)]
    second = await fleet.start(FLUSH)
    queue.send(*["1"] * 100)
    await eventually(lambda: fleet.outstanding_is(100))
    assert second.end(signal.SIGINT) == 0
    assert fleet.rows("SELECT * FROM totals") == [(queue.key(0), 400)]
    assert await fleet.lag() == 0


UNTIL_ASKED = """
import os, time
from baton.consumer import Consumer

consumer = Consumer.from_environment(on_revoked=lambda partitions, time_left: print("revoked", flush=True))

def handle(entry):
    print("begun", entry.value, flush=True)
    while not (os.path.exists("signalled") and consumer.interrupted):  # a new ledger also interrupts
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep(%s)
    print("ended", entry.value, flush=True)

consumer.run(handle)
"""


async def test_the_first_ctrl_c_lets_the_handler_finish(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(UNTIL_ASKED % 0)
    queue.send("a", "b")
    until(lambda: "begun" in process.output)
    assert process.end(signal.SIGINT) == 0
    words = [line for line in process.output.splitlines() if line.startswith(("begun", "ended", "revoked"))]
    assert words[:2] == ["begun b'a'", "ended b'a'"]
    assert set(words[2:]) == {"revoked"}
    assert await fleet.lag() == 1


async def test_the_second_ctrl_c_ends_the_process_at_once(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(UNTIL_ASKED % 3600)
    queue.send("a", "b")
    until(lambda: "begun" in process.output)
    process.send(signal.SIGINT)
    until(lambda: "asked" in process.output)
    assert process.process.poll() is None
    process.send(signal.SIGINT)
    assert process.process.wait(PATIENCE) != 0
    assert "KeyboardInterrupt" in process.output
    assert "ended" not in process.output
    assert await fleet.lag() == 2


async def test_after_sigterm_work_goes_on_until_the_partitions_were_taken(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(SMALLEST)
    queue.send("a")
    until(lambda: "b'a'" in process.output)
    process.send(signal.SIGTERM)
    queue.send("b")
    until(lambda: "b'b'" in process.output)
    await fleet.start(SMALLEST)
    assert process.process.wait(PATIENCE) == 0


FASTAPI = """
import sys
from types import SimpleNamespace

sys.modules["fastapi"] = SimpleNamespace(FastAPI=lambda lifespan: SimpleNamespace(lifespan=lifespan))
"""
SERVER = """
import signal


async def serve():
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with app.lifespan(app):
        print("serving", flush=True)
        await ended.wait()
    print("ended", flush=True)

asyncio.run(serve())
"""


async def test_a_web_servers_consumer_warns_that_it_does_not_hear_sigterm(fleet: Fleet, queue: Queue) -> None:
    process = await fleet.start(FASTAPI + LIFESPAN + SERVER)
    queue.send("a")
    until(lambda: "b'a'" in process.output and "serving" in process.output)
    assert process.output.count("Consumer.stop()") == 1
    process.send(signal.SIGTERM)
    queue.send("b")
    until(lambda: "b'b'" in process.output)
    await fleet.call_back(process)
    assert process.process.wait(PATIENCE) == 0
    assert "ended" in process.output
