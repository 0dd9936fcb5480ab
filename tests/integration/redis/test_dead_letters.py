"""`baton dead-letters` on a real queue."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from baton.cli.main import main
from baton.model.ids import Epoch
from baton.queues.dead_letters import LetterId
from baton.queues.entry import Entry
from baton.queues.redis import RedisDeadLetters
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue
from tests.integration.redis.test_foreign_entries import FOREIGN, add

ONE = Epoch(1)


def call(queue: Queue, command: str, *arguments: object, url: str | None = None, given: str | None = None) -> Result:
    words = ["dead-letters", command, "--redis-url", url or queue.url, queue.name, *map(str, arguments)]
    return CliRunner().invoke(main, words, input=given)


def test_the_default_namespace_is_that_of_the_context(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace, _, name = queue.name.partition("/")
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    words = ["dead-letters", "list", "--redis-url", queue.url, name]
    without = CliRunner().invoke(main, words)
    assert without.exit_code == 2 and "use NAMESPACE/" in without.output
    (tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
    assert CliRunner().invoke(main, words).stdout == f"{queue.name} has 0 dead letters.\n"


def listed(queue: Queue, *arguments: object) -> Any:
    return json.loads(call(queue, "list", "-o", "json", *arguments).stdout)


def ids(queue: Queue, *arguments: object) -> list[str]:
    return [one["letter"] for one in listed(queue, *arguments)["letters"]]


async def died(queue: Queue, *values: str, partition: int = 0, why: str = "ValueError: no") -> None:
    """Send these values and set them aside."""
    queue.send(*values, partition=partition)
    owner = await queue.granted("a", 1, partition)
    for entry in owner.read(partition, ONE):
        owner.set_aside(partition, ONE, entry.offset, why)


def read(queue: Queue, partition: int = 0) -> Sequence[Entry]:
    return queue.reader("a").read(partition, ONE, 1000)


def told(entries: Sequence[Entry]) -> list[bytes]:
    return [entry.value for entry in entries]


async def test_letters_are_listed_in_pages_with_reason_attempts_and_size(queue: Queue) -> None:
    assert "has 0 dead letters" in call(queue, "list").output
    await died(queue, *(str(number) for number in range(7)))
    await died(queue, "elsewhere", partition=1, why="\x1b[31mred\nTypeError")
    everything = listed(queue)
    first, *_, last = everything["letters"]
    assert (everything["count"], everything["next"]) == (8, None)
    assert (first["key"], first["size"], first["deliveries"]) == (queue.key(0).decode(), 1, 1)
    assert first["why"] == "ValueError: no"
    assert (last["partition"], last["size"]) == (1, len("elsewhere"))
    pages: list[str] = []
    page = listed(queue, "--limit", 3)
    while page["next"]:
        pages += [one["letter"] for one in page["letters"]]
        page = listed(queue, "--limit", 3, "--after", page["next"])
    pages += [one["letter"] for one in page["letters"]]
    assert pages == ids(queue) and len(pages) == 8
    assert len(ids(queue, "--partition", 0)) == 7
    screen = call(queue, "list", "--limit", 7).stdout
    assert "has 8 dead letters" in screen and f"--after {pages[6]}" in screen
    assert "\x1b" not in call(queue, "list").output


@pytest.mark.parametrize(
    ("value", "seen"), [("two\nlines", "two"), ("\x1b[2Jcleared", "1b 5b 32 4a"), ("right\u202eleft", "e2 80 ae")]
)
async def test_a_letter_is_shown_without_terminal_control_characters(queue: Queue, value: str, seen: str) -> None:
    await died(queue, value, why="\x1b[31mred")
    [letter] = ids(queue)
    shown = call(queue, "show", letter)
    assert shown.exit_code == 0 and seen in shown.output
    assert not {"\x1b", "\u202e"} & set(shown.output)
    assert json.loads(call(queue, "show", letter, "-o", "json").stdout)["value"] == value
    assert value.encode()[:4].hex(" ") in call(queue, "show", letter, "--hex").output


async def test_json_output_has_all_bytes_of_headers(queue: Queue) -> None:
    headers = {"text": "ä".encode(), "bytes": bytes(range(256)), "nothing": b""}
    queue.producer.send(queue.key(0), "bad", headers)
    owner = await queue.granted("a", 1)
    [entry] = owner.read(0, ONE)
    owner.set_aside(0, ONE, entry.offset, "no")
    shown = json.loads(call(queue, "show", *ids(queue), "-o", "json").stdout)
    assert {name: b64decode(text) for name, text in shown["headersBase64"].items()} == headers
    assert shown["headers"] == {"text": "ä", "bytes": None, "nothing": ""}


async def test_a_large_value_is_cut_on_screen_and_saved_whole(queue: Queue, tmp_path: Path) -> None:
    await died(queue, "x" * 200_000)
    [letter] = ids(queue)
    shown = call(queue, "show", letter, "--save", tmp_path / "value")
    assert "200,000 bytes" in shown.output and "--save FILE writes the whole value" in shown.output and len(shown.output) < 10_000
    assert (tmp_path / "value").read_text() == "x" * 200_000


async def test_a_letter_is_sent_again_with_headers_behind_existing_entries(queue: Queue) -> None:
    queue.producer.send(queue.key(0), "bad", {"trace": "1"})
    queue.send("b", "c")
    owner = await queue.granted("a", 1)
    bad, *_ = owner.read(0, ONE)
    owner.set_aside(0, ONE, bad.offset, "no")
    [letter] = ids(queue)
    done = call(queue, "redrive", letter)
    assert (done.exit_code, done.output) == (0, f"{queue.name}: 1 dead letter sent again\n")
    entries = read(queue)
    assert told(entries) == [b"b", b"c", b"bad"]
    assert (entries[-1].key, dict(entries[-1].headers)) == (queue.key(0), {"trace": b"1"})
    assert ids(queue) == []
    again = call(queue, "redrive", letter)
    assert again.exit_code == 1 and "not found" in again.output


async def test_redrive_all_keeps_the_order_of_the_letters(queue: Queue) -> None:
    values = [str(number) for number in range(250)]
    for begin in range(0, 250, 50):
        await died(queue, *values[begin : begin + 50])
    await died(queue, "elsewhere", partition=1)
    assert "250 dead letters sent again" in call(queue, "redrive", "--all", "--partition", 0).output
    assert told(read(queue)) == [value.encode() for value in values]
    assert [one.partition("/")[0] for one in ids(queue)] == ["1"]


async def test_a_letter_that_was_sent_but_not_removed_is_not_sent_twice(queue: Queue, raw: Any) -> None:
    """The reply was lost, or the command was killed, between the two."""
    await died(queue, "a", "b")
    dead = partition_keys(queue.name, 0).dead
    before = raw.dump(dead)
    assert call(queue, "redrive", "--all").exit_code == 0
    raw.restore(dead, 0, before, replace=True)
    assert len(ids(queue)) == 2
    assert call(queue, "redrive", "--all").exit_code == 0
    assert told(read(queue)) == [b"a", b"b"]
    assert ids(queue) == []


async def test_foreign_letters_stay_until_they_are_dropped(queue: Queue) -> None:
    await died(queue, "a")
    add(queue, *FOREIGN)
    queue.send("b")
    await queue.granted("a", 1)
    assert told(read(queue)) == [b"b"]
    assert len(ids(queue)) == 1 + len(FOREIGN)
    done = call(queue, "redrive", "--all")
    assert done.exit_code == 1
    assert "1 dead letter sent again" in done.stdout and "3 dead letters not sent again" in done.stderr
    assert "not by a producer of Baton" in call(queue, "show", ids(queue)[0]).output
    assert "3 dead letters deleted" in call(queue, "drop", "--all", "--yes").output


async def test_letters_of_removed_partitions_go_to_their_keys_new_partition(queue: Queue) -> None:
    await died(queue, "a", partition=1)
    while await queue.operator.ensure(1) is not None:
        pass
    assert ids(queue)[0].startswith("1/")
    assert call(queue, "redrive", "--all").exit_code == 0
    await queue.granted("a", 1)
    assert told(read(queue)) == [b"a"]


async def test_drop_asks_for_confirmation(queue: Queue) -> None:
    await died(queue, "a", "b", "c")
    first, *_ = ids(queue)
    refused = call(queue, "drop", "--all", given="n\n")
    assert refused.exit_code == 1 and "Permanently delete 3 dead letters" in refused.output
    assert len(ids(queue)) == 3
    assert call(queue, "drop", first, "0/1-0", "-y").exit_code == 1
    assert len(ids(queue)) == 3, "one of the two is not there"
    assert call(queue, "drop", first, given="y\n").exit_code == 0
    assert len(ids(queue)) == 2
    assert "2 dead letters deleted" in call(queue, "drop", "--all", "-y").output


async def test_redrive_all_excludes_letters_that_come_later(queue: Queue, raw: redis.Redis) -> None:
    await died(queue, "a")
    with RedisDeadLetters(queue.url, queue.name) as letters:
        now = letters.until_now()
        milliseconds = int(now.partition("-")[0])
        raw.xadd(partition_keys(queue.name, 0).dead, {"key": "k", "value": "later"}, id=f"{milliseconds + 60_000}-0")
        assert [[one.size for one in page] for page in letters.every(0, now)] == [[1]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "0/1-0"], "has no dead letter 0/1-0"),
        (["drop", "0/1-0"], "has no dead letter 0/1-0"),
        (["list", "--partition", "7"], "no partition 7"),
        (["redrive"], "--all"),
        (["drop", "--all", "0/1-0"], "--all"),
        (["drop", "0/1-0", "--partition", "0"], "--all"),
        (["show", "0/\x1b[31m"], "is not a dead letter"),
    ],
)
async def test_invalid_arguments_are_refused_with_the_cure(queue: Queue, arguments: list[str], words: str) -> None:
    result = call(queue, *arguments)
    assert result.exit_code in (1, 2) and words in result.stderr
    assert "Traceback" not in result.output and "\x1b" not in result.output


async def test_a_wrong_server_queue_or_namespace_is_explained(queue: Queue) -> None:
    gone = call(queue, "list", url="redis://:secret@127.0.0.1:1/0")
    assert gone.exit_code == 1 and "does not answer" in gone.stderr and "secret" not in gone.output
    assert gone.stderr.startswith("baton dead-letters list: ")
    runner = CliRunner()
    other = runner.invoke(main, ["dead-letters", "list", "shop/nothing"], env={"BATON_REDIS_URL": queue.url})
    assert other.exit_code == 1 and "has no queue shop/nothing" in other.stderr
    bare = runner.invoke(main, ["dead-letters", "list", "orders"], env={"BATON_REDIS_URL": queue.url})
    assert bare.exit_code == 2 and "NAMESPACE/orders" in bare.stderr


@pytest.mark.parametrize("text", ["3", "3/", "a/1-0", "3/1-0x", "-1/1-0", "3/1", "3/" + "9" * 30 + "-0"])
def test_an_invalid_letter_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of a dead letter"):
        LetterId.read(text)


def test_a_letter_id_reads_back_as_written() -> None:
    assert str(LetterId.read("3/1795338000123-7")) == "3/1795338000123-7"
