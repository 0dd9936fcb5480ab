"""The driver's view of the ledger, and following objects at the API server."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from baton.consumer.api_server import ApiRefused
from baton.model import MemberId
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from baton.spark.followed_objects import FollowedObjects
from baton.spark.ledger import GrantsInUse, LedgerSnapshot, MountedLedger, PartitionGrant, RequestedScale, parse
from tests.ids import a_partition
from tests.unit.spark.builders import entry, grant
from tests.waiting import PATIENCE
from tests.written_ledger import WrittenLedger


def snapshot(*entries: MemberEntry) -> LedgerSnapshot:
    return LedgerSnapshot({one.member: one for one in entries})


def test_grants_in_the_ledger_are_listed_once() -> None:
    found = snapshot(entry("exec-1", {0: 3, 1: 3}, {2: 4}), entry("exec-2", {5: 1}))
    assert found.owned == {grant("exec-1", 0, 3), grant("exec-1", 1, 3), grant("exec-2", 5, 1)}
    assert found.revoking == {grant("exec-1", 2, 4)}
    assert found.partitions == {a_partition("orders", number) for number in (0, 1, 2, 5)}


def test_the_later_of_two_grants_of_a_partition_counts() -> None:
    for gone, next_owner in (("exec-1", "exec-2"), ("exec-2", "exec-1")):
        for entries in ([entry(gone, {0: 3}), entry(next_owner, {0: 4})], [entry(next_owner, {0: 4}), entry(gone, {0: 3})]):
            assert snapshot(*entries).owners == {a_partition("orders", 0): grant(next_owner, 0, 4)}


def test_members_and_size_are_read_from_the_ledger() -> None:
    mine = entry("exec-1", {0: 1})
    found, ignored = parse({"exec-1": mine.to_json(), "group": '{"scale":{"replicas":3,"victims":[]}}'})
    assert not ignored
    assert found.entries == {"exec-1": mine}
    assert found.scale == RequestedScale(3)


def test_a_malformed_ledger_key_leaves_the_others_alone() -> None:
    mine = entry("exec-1", {0: 1})
    found, ignored = parse({"exec-1": mine.to_json(), "exec-2": "oops", "group": "{"})
    assert found.entries == {"exec-1": mine}
    assert found.scale is None
    assert ignored.keys() == {"exec-2", "group"}
    assert ignored["exec-2"].startswith("ignoring the malformed key exec-2 of the ledger: ")


def test_a_malformed_ledger_key_is_logged_once_until_it_was_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "exec-2").write_text("oops")
    (tmp_path / "group").write_text("{")
    view = MountedLedger(tmp_path)
    view.close()

    def change(name: str, text: str) -> list[int]:
        """How often each problem had been logged by then."""
        (tmp_path / name).write_text(text)
        view.look()
        return [caplog.text.count(what) for what in ("key exec-2", "size of the fleet")]

    assert change("exec-1", entry("exec-1", {0: 1}).to_json()) == [1, 1]
    assert change("exec-2", "oops again") == [1, 1]
    assert change("exec-2", entry("exec-2").to_json()) == [1, 1]
    assert change("exec-2", "oops") == [2, 1]


def test_a_mounted_ledger_is_read_at_once_and_follows_changes(tmp_path: Path) -> None:
    not_mounted = MountedLedger(tmp_path / "later")
    assert not_mounted.read().entries == {}
    not_mounted.close()
    first, second = entry("exec-1", {0: 1}), entry("exec-1", {0: 1, 1: 1}, generation=2)
    (tmp_path / "..data").mkdir()
    (tmp_path / "exec-1").write_text(first.to_json())
    view = MountedLedger(tmp_path)
    seen: list[MemberEntry] = []
    view.on_change(lambda: seen.append(view.read().entries[MemberId("exec-1")]))
    assert view.read().entries == {"exec-1": first}
    fresh = tmp_path / "..fresh"
    fresh.write_text(second.to_json())
    fresh.rename(tmp_path / "exec-1")
    view.look()
    assert seen == [second]
    view.close()


def test_an_unreadable_mounted_ledger_stays_in_force_and_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = entry("exec-1", {0: 1}), entry("exec-1", {0: 1}, generation=2)
    (tmp_path / "exec-1").write_text(first.to_json())
    view = MountedLedger(tmp_path)
    (tmp_path / "exec-2").mkdir()  # a file that cannot be read
    view.look()
    view.look()
    assert view.read().entries == {"exec-1": first}
    (tmp_path / "exec-2").rmdir()
    (tmp_path / "exec-1").write_text(second.to_json())
    view.look()
    assert view.read().entries == {"exec-1": second}
    assert caplog.text.count("cannot read the ledger") == 1
    view.close()


Said = list[frozenset[Release]]


@pytest.fixture
def ledger() -> WrittenLedger:
    return WrittenLedger()


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def grants_in_use(ledger: WrittenLedger, said: Said) -> GrantsInUse:
    return GrantsInUse(ledger, said.append)


def owned(ledger: LedgerSnapshot) -> list[PartitionGrant]:
    return sorted(ledger.owned)


def test_a_partition_in_no_batch_is_released_at_once(ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said) -> None:
    ledger.write(entry("exec-1", {1: 1}, {0: 1}))
    assert said == [{grant("exec-1", 0).released()}]


def test_a_partition_in_a_batch_is_released_when_its_part_is_done(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {0: 1, 1: 1}))
    assert grants_in_use.take(owned) == [grant("exec-1", 0), grant("exec-1", 1)]
    ledger.write(entry("exec-1", {1: 1}, {0: 1}))
    assert said == []
    grants_in_use.put_back([grant("exec-1", 1)])
    assert said == []
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == [{grant("exec-1", 0).released()}]


def test_a_revoked_partition_is_never_taken(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    assert grants_in_use.take(owned) == []


def test_a_release_is_withdrawn_once_the_ledger_has_moved_on(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    ledger.write(entry("exec-1"), entry("exec-2", {0: 2}))
    assert said[-1] == frozenset()


def test_an_unchanged_ledger_repeats_no_release(ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    ledger.write(entry("exec-1", {}, {0: 1}, generation=2))
    assert len(said) == 1


def test_members_with_a_part_in_the_batch_are_busy(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}), entry("exec-2"))
    grants_in_use.take(owned)
    assert grants_in_use.busy() == {"exec-1"}
    grants_in_use.put_back([grant("exec-1", 0)])
    assert grants_in_use.busy() == frozenset()


@pytest.mark.parametrize(
    ("later", "missed"),
    [
        pytest.param([entry("exec-1"), entry("exec-2", {0: 2})], {"exec-1"}, id="granted to another member"),
        pytest.param([entry("exec-1", {}, {0: 1})], set(), id="only revoked yet"),
        pytest.param([], set(), id="the ledger was deleted"),
        pytest.param([entry("exec-1", {0: 5})], set(), id="granted again to its owner"),
    ],
)
def test_a_member_missed_its_deadline_only_if_its_part_has_another_owner(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, later: list[MemberEntry], missed: set[str]
) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    grants_in_use.take(owned)
    ledger.write(*later)
    assert grants_in_use.missed() == missed


def test_a_partition_in_two_batches_is_released_when_both_are_done(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    for _ in range(2):
        grants_in_use.take(owned)
    ledger.write(entry("exec-1", {}, {0: 1}))
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == []
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == [{grant("exec-1", 0).released()}]


# -- Following objects at a fake API server.


def an_object(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


class Watch:
    """The events of a watch, and perhaps an error at its end."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def end(self) -> None:
        pass


class Server:
    def __init__(self, *watches: Sequence[Any]) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []
        self.listed_at: list[float] = []
        self.over = threading.Event()

    def list(self, path: str) -> Any:
        self.asked.append("list")
        self.listed_at.append(time.monotonic())
        return {"metadata": {"resourceVersion": "10"}, "items": [an_object("a", 5)]}

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Watch]:
        assert query["allowWatchBookmarks"] == "true"
        self.asked.append(query["resourceVersion"])
        if not self.watches:
            self.over.set()
        yield Watch(self.watches.pop(0) if self.watches else ())


def followed(server: Server, monkeypatch: pytest.MonkeyPatch, shortest: float = 0.0) -> list[list[str]]:
    """What was seen until all watches had ended and another was requested. `shortest`: least seconds between two watches."""
    monkeypatch.setattr("baton.spark.followed_objects._SHORTEST", shortest)
    monkeypatch.setattr("baton.spark.followed_objects._AGAIN", 0.0)
    seen: list[list[str]] = []
    api: Any = server
    objects = FollowedObjects(api, "/pods", "pods", lambda them: seen.append([one["metadata"]["name"] for one in them]))
    assert server.over.wait(PATIENCE)
    objects.close()
    return seen


def test_a_watch_continues_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    added, deleted = {"type": "ADDED", "object": an_object("b", 11)}, {"type": "DELETED", "object": an_object("a", 12)}
    server = Server([added], [], [deleted, bookmark(40)])
    seen = followed(server, monkeypatch)
    assert server.asked[:5] == ["list", "10", "11", "11", "40"]
    assert seen == [["a"], ["a", "b"], ["b"]]


@pytest.mark.parametrize("error", [ApiRefused(410, "too old resource version"), OSError("the connection was lost")])
def test_a_watch_that_cannot_continue_lists_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([bookmark(20)], [error])
    followed(server, monkeypatch)
    assert server.asked[:5] == ["list", "10", "20", "list", "10"]


def test_each_interruption_of_following_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "baton.spark")
    lost = OSError("the connection was lost")
    followed(Server([lost], [bookmark(20)], [lost]), monkeypatch)
    told = [record.getMessage().split(",")[0] for record in caplog.records]
    assert told == ["cannot follow pods", "following pods again"] * 2


def test_lists_are_spaced_while_the_api_server_rejects_every_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(*[[ApiRefused(410, "too old resource version")]] * 3)
    followed(server, monkeypatch, shortest=0.2)
    assert all(later - sooner >= 0.2 for sooner, later in pairwise(server.listed_at[:4]))
    assert len(server.listed_at) >= 4
