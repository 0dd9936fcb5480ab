"""`baton send`, `baton peek` and `baton tail` on a real queue."""

import asyncio
import json
import subprocess
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from baton.cli.main import main
from baton.model.ids import Epoch
from tests.following import tailing
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.test_foreign_entries import FOREIGN, add
from tests.integration.redis.test_resizing import key
from tests.processes import ChildProcess
from tests.waiting import until

ONE = Epoch(1)
BYTES = bytes(range(256))


def call(queue: Queue, command: str, *arguments: str, given: str | bytes | None = None) -> Result:
    words = [command, "--redis-url", queue.url, queue.name, *arguments]
    with ThreadPoolExecutor(1) as away:  # outside the test's event loop, as the command runs its own
        return away.submit(CliRunner().invoke, main, words, input=given).result()


def peeked(queue: Queue, *arguments: str, partition: int = 0) -> list[Any]:
    done = call(queue, "peek", "--partition", str(partition), "-o", "json", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def values(queue: Queue, *arguments: str, partition: int = 0) -> list[str]:
    return [one["value"] for one in peeked(queue, *arguments, partition=partition)]


def everything(queue: Queue) -> dict[bytes, bytes | None]:
    """Return all data of the queue."""
    with queue.raw() as raw:
        return {name: raw.dump(name) for name in raw.scan_iter(f"pq:{{{queue.name}}}:*")}


async def test_peek_shows_a_sent_entry_as_its_consumer_reads_it(queue: Queue) -> None:
    name = queue.key(1).decode()
    done = call(queue, "send", "--key", name, "--header", "trace=a=b", "paid: 3 €")
    [shown] = peeked(queue, partition=1)
    assert done.stdout == f"{queue.name}: sent to partition 1 at offset {shown['offset']}\n"
    owner = await queue.granted("a", ONE, 1)
    [entry] = owner.read(1, ONE)
    assert (entry.offset, entry.key, entry.value) == (shown["offset"], name.encode(), "paid: 3 €".encode())
    assert entry.headers == {"trace": b"a=b"} and entry.timestamp == shown["timestamp"]
    assert (shown["key"], shown["value"], shown["headers"]) == (name, "paid: 3 €", {"trace": "a=b"})
    line = call(queue, "peek", "--partition", "1").stdout
    assert line.startswith(f"1/{entry.offset}  20") and line.endswith(f"Z  {name}  trace=a=b  paid: 3 €\n")
    assert "sent to partition 0" in call(queue, "send", "--key", name, "--partition", "0", "\udcff").output
    assert peeked(queue)[0]["valueBase64"] == b64encode(b"\xff").decode(), "bytes that are no text, as a shell gives them"


async def test_peek_changes_nothing_and_shows_unfinished_entries(queue: Queue) -> None:
    queue.send("1", "2", "3", "4")
    add(queue, *FOREIGN)
    queue.send("5", partition=0)
    owner = await queue.granted("a", ONE)
    first, second, *_ = owner.read(0, ONE, 3)
    owner.ack(0, ONE, [first.offset])
    before = everything(queue)
    assert values(queue) == ["2", "3", "4", "5"]
    assert values(queue, "--limit", "2") == ["2", "3"]
    assert values(queue, "--offset", second.offset, "--limit", "1") == ["2"]
    third = peeked(queue)[1]["offset"]
    assert values(queue, "--offset", third) == ["3", "4", "5"]
    assert values(queue, partition=1) == []
    assert everything(queue) == before


async def test_peek_shows_entries_of_a_moving_key_where_they_can_be_read(queue: Queue) -> None:
    old, new = await queue.granted("old", 1, 0), await queue.granted("new", 1, 2)
    queue.producer.send(key(0, 2), "1")
    held = old.read(0, ONE)
    await queue.operator.ensure(3)
    queue.producer.send(key(0, 2), "2")
    assert (values(queue), values(queue, partition=2)) == (["1"], [])
    old.ack(0, ONE, [entry.offset for entry in held])
    assert await queue.operator.ensure(3) is None
    assert [entry.value for entry in new.read(2, ONE)] == [b"2"]
    assert (values(queue), values(queue, partition=2)) == ([], ["2"])


async def test_send_accepts_the_json_lines_that_peek_prints(queue: Queue) -> None:
    queue.producer.send(queue.key(0), BYTES, {"bytes": BYTES, "text": "a"})
    queue.producer.send(queue.key(0), "2")
    shown = call(queue, "peek", "--partition", "0", "-o", "json").stdout
    bytes_shown = json.loads(shown.splitlines()[0])
    assert bytes_shown["valueBase64"] == b64encode(BYTES).decode() and "value" not in bytes_shown
    sent = call(queue, "send", "--file", "-", "--partition", "1", given=f"{shown}\n")
    assert sent.stdout == f"{queue.name}: 2 entries sent\n"
    owner = await queue.granted("a", ONE, 1)
    found = [(entry.key, entry.value, dict(entry.headers)) for entry in owner.read(1, ONE)]
    assert found == [(queue.key(0), BYTES, {"bytes": BYTES, "text": b"a"}), (queue.key(0), b"2", {})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3: not JSON"),
        ("[]", "line 3: not an object"),
        ('{"key": "a"}', "line 3: the value is missing"),
        ('{"value": "a", "heders": {}}', "line 3: an entry has no field 'heders'; did you mean headers?"),
        ('{"value": "\udcff"}', "line 3: value is not text in UTF-8"),
        ('{"value": 3}', "line 3: value is not text"),
        ('{"value": "\\ud800"}', "line 3: value is not text in UTF-8"),
        ('{"valueBase64": "%"}', "line 3: value is not base64"),
        ('{"value": "a", "valueBase64": "YQ=="}', "line 3: value is not text, or is given twice"),
        ('{"value": "a", "headers": "b"}', "line 3: the headers are not an object"),
    ],
)
def test_lines_before_a_bad_line_are_sent(queue: Queue, line: str, said: str) -> None:
    lines = f'{{"value": "1"}}\n\n{line}\n{{"value": "2"}}\n'.encode(errors="surrogateescape")
    done = call(queue, "send", "--file", "-", "--partition", "0", given=lines)
    assert done.exit_code == 1 and f"1 entry sent, then: {said}" in done.stderr
    assert values(queue) == ["1"]


async def test_a_unix_socket_works_for_all_sides(tmp_path: Path) -> None:
    """Operator, producer, consumer and commands connect to it."""
    socket = tmp_path / "redis"
    words = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with ChildProcess(words, stdout=subprocess.DEVNULL) as server:
        until(socket.exists)
        queue = await make_queue(f"unix://{socket}", 1)
        assert call(queue, "send", "1").exit_code == 0
        assert [entry.value for entry in (await queue.granted("a", ONE)).read(0, ONE)] == [b"1"]
        assert values(queue) == ["1"]
        await queue.close()
        server.terminate()


def test_tail_shows_new_entries_of_all_partitions_until_ctrl_c(queue: Queue) -> None:
    queue.send("before")
    before = everything(queue)
    with tailing("--redis-url", queue.url, queue.name, "-o", "json") as lines:
        assert everything(queue) == before
        queue.send("1", partition=0)
        queue.send("2", partition=1)
        found = [json.loads(lines.readline()) for _ in range(2)]
    assert sorted((one["partition"], one["value"]) for one in found) == [(0, "1"), (1, "2")]


def test_a_large_value_is_cut_and_escape_sequences_are_removed(queue: Queue) -> None:
    queue.send("x" * 3_000_000, "a\x1b[2Jb")
    large, escaping = call(queue, "peek", "--partition", "0").stdout.splitlines()
    assert len(large) < 1_200 and large.endswith("x…")
    assert "\x1b" not in escaping and "[2J" in escaping
    assert [len(one) for one in values(queue)] == [3_000_000, 6]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["send"], 2, "use VALUE or --file"),
        (["send", "--file", "-", "a"], 2, "use VALUE or --file"),
        (["send", "--file", "-", "--key", "a"], 2, "are for VALUE"),
        (["send", "--header", "a", "b"], 2, "not a header such as trace=abc"),
        (["send", "--partition", "9", "a"], 1, "9"),
        (["peek", "--partition", "2"], 1, "there is no partition 2: "),
        (["peek", "--partition", "0", "--offset", "3-1"], 2, "an invalid offset"),
        (["peek", "--partition", "0", "--kafka-url", "kafka://127.0.0.1:9"], 2, "use one server"),
        (["tail", "--topic", "a"], 2, "--topic needs --kafka-url"),
    ],
)
def test_invalid_arguments_are_explained_in_one_line(queue: Queue, arguments: list[str], status: int, said: str) -> None:
    done = call(queue, *arguments, given="")
    assert done.exit_code == status and said in done.stderr.splitlines()[-1], done.output


async def test_an_absent_queue_is_named(queue: Queue) -> None:
    words = ["peek", "--redis-url", queue.url, "shop/nothing", "--partition", "0"]
    done = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert done.exit_code == 1 and "has no queue shop/nothing" in done.stderr
