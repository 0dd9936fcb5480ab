"""`baton dev`: two consumers, a producer and a Redis on this machine; nothing of Kubernetes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from baton.cli.main import main
from baton.consumer.api_server import ApiConnection
from baton.dev.folder import DevFolder
from baton.queues.redis import RedisProducer
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

BATON = Path(sys.executable).parent / "baton"
KEYS = 40
CONSUMER = """
import json, os, sys, time
from baton.consumer import Consumer

def handle(entry):
    if entry.value == b"hang":
        time.sleep(3600)
    with open(sys.argv[1], "a") as lines:
        record = {"key": entry.key.decode(), "sequence": int(entry.value), "partition": entry.partition, "epoch": entry.epoch,
                  "member": os.environ["POD_NAME"], "time": time.time(), "redelivered": entry.redelivered}
        lines.write(json.dumps(record) + chr(10))

Consumer.from_environment().run(handle)
"""


class Dev:
    """A folder of `baton dev`, and the processes that use it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.environment = {**os.environ, "BATON_DEV_FOLDER": str(folder / "dev"), "TMPDIR": str(folder)}
        for variable in ("BATON_REDIS_URL", "BATON_KAFKA_URL"):
            self.environment.pop(variable, None)
        self.said, self.address = folder / "said", folder / "dev" / "address.json"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = self._run([str(BATON), "dev", *arguments], self.said)
        self._stack.callback(stopped, process)
        return process

    def consumer(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(BATON), "dev", "run", *options, "--", sys.executable, "-c", CONSUMER, str(self.folder / f"{name}.jsonl")]
        return self._run(command, self.folder / f"{name}.log")

    def group(self) -> dict[str, Any]:
        """Return the state that the API server of `baton dev` shows to a test."""
        place = DevFolder(self.address.parent).address()
        api = ApiConnection.from_environment({"BATON_API_SERVER": place.api, "BATON_API_TOKEN": place.token})
        return api.request("GET", "/group")

    def last(self) -> str:
        """Return the last line about owners. Kafka's client may log a line after it."""
        return str(["", *re.findall(r"^\d\d:\d\d:\d\d  (.*)$", self.said.read_text(), re.MULTILINE)][-1])

    def _run(self, command: list[str], output: Path) -> subprocess.Popen[bytes]:
        file = self._stack.enter_context(output.open("wb"))
        process = ChildProcess(command, stdout=file, stderr=file, env=self.environment, start_new_session=True)
        self._stack.callback(ended, process)
        return process


def stopped(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C, which also ends the Redis that `baton dev` started."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def ended(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def says(dev: Dev, *words: str) -> Callable[[], bool]:
    return lambda: all(word in dev.last() for word in words)


@pytest.mark.parametrize(("kill", "number"), [(os.kill, signal.SIGTERM), (os.kill, signal.SIGINT), (os.killpg, signal.SIGINT)])
def test_two_consumers_share_and_hand_over_in_order(dev: Dev, kill: Callable[[int, int], None], number: signal.Signals) -> None:
    dev.start("--partitions", "4", "--delay", "0")
    until(dev.address.exists, "it says where it is")
    url = json.loads(dev.address.read_text())["url"]
    with RedisProducer(url, "dev/orders", patience=60) as producer:
        share_and_hand_over(dev, producer.send_many, lambda process: kill(process.pid, number))


def test_the_output_is_that_of_the_guide(dev: Dev) -> None:
    dev.start()
    until(says(dev, ": 0-5"), "it says who owns what")
    first = dev.consumer("a")
    until(says(dev, "orders-1: 0-5"), "the first has all")
    dev.consumer("b")
    until(says(dev, "orders-2: 3-5"), "the second has its share")
    first.send_signal(signal.SIGTERM)
    until(says(dev, "orders-2: 0-5"), "the second has all")
    guide = (Path(__file__).parents[3] / "docs" / "tutorials" / "laptop.md").read_text(encoding="utf-8")
    assert told(dev.said.read_text()) == told(guide)


def told(text: str) -> list[str]:
    """Return the output of `baton dev` without times, ports and folders."""
    lines = re.findall(r"^(?:\d\d:\d\d:\d\d|Queue dev/|  baton dev run ).*$", text, re.MULTILINE)
    return [re.sub(r"^\d\d:\d\d:\d\d|:\d+(?= )|--folder \S+ ", "", line) for line in lines]


def test_another_queue_is_named_everywhere(dev: Dev) -> None:
    dev.start("--queue", "payments")
    until(says(dev, "unowned: 0-5"), "it is there")
    assert "  baton dev run -- python producer.py     finds dev/payments in BATON_DEV_QUEUE" in told(dev.said.read_text())
    show: list[str | Path] = [BATON, "dev", "run", "--", "sh", "-c", "echo $POD_NAME $BATON_DEV_QUEUE"]
    shown = subprocess.run(show, env=dev.environment, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["payments-1", "dev/payments"]


def share_and_hand_over(
    dev: Dev, send_many: Callable[[Iterator[tuple[str, str]]], object], stop: Callable[[subprocess.Popen[bytes]], object]
) -> None:
    """A queue with four partitions. `send_many` takes keys and values; `stop` asks a consumer to end."""
    records = [dev.folder / f"{name}.jsonl" for name in ("a", "b")]
    sent = dev.folder / "sent.jsonl"

    def handled() -> int:
        return sum(len(file.read_text().splitlines()) for file in records if file.exists())

    def send(begin: int, end: int) -> None:
        send_many((f"key-{key}", str(sequence)) for sequence in range(begin, end) for key in range(KEYS))
        until(lambda: handled() >= KEYS * (end - 1), "all are handled")

    first = dev.consumer("a")
    until(says(dev, "orders-1: 0-3"), "the first has all")
    send(1, 20)
    second = dev.consumer("b")
    until(says(dev, "orders-1: ", "orders-2: "), "they share")
    send(20, 40)
    stop(first)
    until(says(dev, "orders-2: 0-3"), "the second has all")
    until(lambda: first.poll() is not None, "the first has ended")
    send(40, 60)
    stop(second)
    until(lambda: second.poll() is not None, "the second has ended")
    sent.write_text("".join(json.dumps({"key": f"key-{key}", "sequence": 59}) + "\n" for key in range(KEYS)))
    checked = CliRunner().invoke(main, ["check-order", "-o", "json", *map(str, records), "--produced", str(sent)])
    assert checked.exit_code == 0, checked.output
    assert all(file.exists() for file in records)


def test_a_consumer_that_is_killed_loses_its_partitions(dev: Dev) -> None:
    dev.start("--partitions", "2", "--delay", "0")
    until(dev.address.exists)
    killed, _ = dev.consumer("a"), dev.consumer("b")
    until(says(dev, "orders-1: ", "orders-2: "), "they share")
    killed.kill()
    until(lambda: "|" not in dev.last() and "0-1" in dev.last(), "the other has both when the session has lapsed")


def test_a_killed_process_gives_up_its_name_and_a_consumer_notices_the_end(dev: Dev) -> None:
    process = dev.start("--delay", "0")
    until(says(dev, "unowned: 0-5"), "it is there")
    killed = dev.consumer("a", "--name", "mine")
    until(says(dev, "mine: 0-5"), "it owns all")

    def member() -> str | None:
        (one,) = dev.group()["processes"]
        return str(one["uid"]) if one["session"] else None

    before = member()
    killed.kill()
    killed.wait()
    dev.consumer("b", "--name", "mine")
    until(lambda: member() not in (None, before), "the next one has the name, and is a member")
    stopped(process)
    told = "`baton dev` has ended: start it again, then this program, by `baton dev run`"
    until(lambda: told in (dev.folder / "b.log").read_text(), "the consumer says what has ended")


def test_a_redis_can_be_used_again(dev: Dev) -> None:
    with RedisServer() as server:
        for _ in range(2):
            process = dev.start("--redis-url", server.url, "--delay", "0")
            until(dev.address.exists)
            consumer = dev.consumer("a")
            until(says(dev, "orders-1: 0-5"), "it has all")
            ended(consumer)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            assert not dev.address.exists()


def test_the_limits_of_the_options_are_in_force(dev: Dev) -> None:
    with RedisServer() as server, server.client() as client:
        limits = ("--max-redeliveries", "1", "--max-handoff", "3000")
        dev.start("--redis-url", server.url, "--partitions", "2", "--delay", "0", *limits)
        until(says(dev, ": 0-1"), "the queue is there")
        dev.consumer("a")
        with RedisProducer(server.url, "dev/orders", patience=60) as producer:
            producer.send("key", "no number", partition=0)
            until(lambda: client.xlen("pq:{dev/orders}:0:dead"), "its second try was its last")
            producer.send("key", "hang", partition=1)
        until(lambda: client.xinfo_groups("pq:{dev/orders}:1:stream:0")[0]["pending"], "its handler does not return")
        dev.consumer("b")

        def moves() -> list[dict[str, float]] | None:
            found: dict[str, list[dict[str, float]]] = json.loads(dev.group()["ledger"]["group"])
            return found.get("moves")

        assert [move["length"] for move in until(moves, "the second is to have its share")] == [3000]


def test_a_deleted_owner_record_is_restored(dev: Dev) -> None:
    with RedisServer() as server, server.client() as client:
        dev.start("--redis-url", server.url, "--delay", "0")
        until(dev.address.exists)
        dev.consumer("a")
        until(says(dev, "orders-1: 0-5"), "it has all")
        uid = client.hget("pq:{dev/orders}:3:owner", "uid")
        client.delete("pq:{dev/orders}:3:owner")
        until(lambda: client.hget("pq:{dev/orders}:3:owner", "uid") == uid is not None, "its owner is granted it again")


def test_a_second_baton_dev_waits_for_the_first(dev: Dev, tmp_path: Path) -> None:
    with RedisServer() as server, ExitStack() as stack:
        first = dev.start("--redis-url", server.url, "--delay", "0")
        until(dev.address.exists)
        dev.consumer("a")
        until(says(dev, "orders-1: 0-5"), "it has all")
        (tmp_path / "other").mkdir()
        other = Dev(tmp_path / "other", stack)
        other.start("--redis-url", server.url, "--delay", "0")
        until(says(other, "belongs to another `baton dev`", "--queue"), "the second says whose it is")
        with server.client() as client:
            assert client.hget("pq:{dev/orders}:0:owner", "paused") != b"1"
        stopped(first)
        until(says(other, "unowned: 0-5"), "it has what the first gave up")


def test_its_redis_ends_even_if_baton_dev_is_killed(dev: Dev) -> None:
    process = dev.start()
    until(dev.address.exists)
    with redis.Redis.from_url(json.loads(dev.address.read_text())["url"]) as client:
        assert client.ping()
        ended(process)

        def gone() -> bool:
            try:
                return not client.ping()
            except redis.ConnectionError:
                return True

        until(gone, "its Redis has ended")


def test_a_name_that_is_too_long_is_refused_with_the_limit() -> None:
    refused = CliRunner().invoke(main, ["dev", "--queue", "o" * 51])
    assert refused.exit_code == 2 and "at most 50" in refused.output


def test_a_missing_program_or_process_is_reported_in_one_line(dev: Dev, tmp_path: Path) -> None:
    alone = subprocess.run([BATON, "dev", "run", "--", "true"], env=dev.environment, capture_output=True, text=True, check=False)
    assert alone.returncode == 1 and "start one in another terminal" in alone.stderr
    nothing = dev.environment | {"PATH": str(tmp_path)}
    bare = subprocess.run([BATON, "dev"], env=nothing, capture_output=True, text=True, check=False)
    assert bare.returncode == 1 and "found neither redis-server nor valkey-server" in bare.stderr and "--redis-url" in bare.stderr
    dev.start()
    until(dev.address.exists)
    second = subprocess.run([BATON, "dev"], env=dev.environment, capture_output=True, text=True, check=False)
    assert second.returncode == 1 and "another `baton dev` uses" in second.stderr
    wrong: list[str | Path] = [BATON, "dev", "run", "--", str(tmp_path / "nothing")]
    absent = subprocess.run(wrong, env=dev.environment, capture_output=True, text=True, check=False)
    assert absent.returncode == 1 and "cannot be run" in absent.stderr
    for done in (alone, bare, second, absent):
        assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    failed = subprocess.run(
        [BATON, "dev", "run", "--", sys.executable, "-c", "raise SystemExit(7)"], env=dev.environment, check=False
    )
    assert failed.returncode == 7


def test_a_silent_redis_is_reported_and_waited_for(dev: Dev) -> None:
    with RedisServer(append_only=False) as server:
        server.kill()
        process = dev.start("--redis-url", server.url, "--delay", "0")
        until(says(dev, "does not answer"), "it reports that")
        server.start()
        until(says(dev, "unowned: 0-5"), "it goes on")
        assert process.poll() is None
    assert "Traceback" not in dev.said.read_text()
