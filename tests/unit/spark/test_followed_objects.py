"""Following objects at a fake API server."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from baton.consumer.api_server import ApiRefused
from baton.spark.followed_objects import FollowedObjects
from tests.waiting import PATIENCE


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
    objects.start()
    assert server.over.wait(PATIENCE)
    objects.close()
    return seen


def test_a_watch_goes_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    added, deleted = {"type": "ADDED", "object": an_object("b", 11)}, {"type": "DELETED", "object": an_object("a", 12)}
    server = Server([added], [], [deleted, bookmark(40)])
    seen = followed(server, monkeypatch)
    assert server.asked[:5] == ["list", "10", "11", "11", "40"]
    assert seen == [["a"], ["a", "b"], ["b"]]


@pytest.mark.parametrize("error", [ApiRefused(410, "too old resource version"), OSError("the connection was lost")])
def test_where_a_watch_cannot_go_on_all_are_listed_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([bookmark(20)], [error])
    followed(server, monkeypatch)
    assert server.asked[:5] == ["list", "10", "20", "list", "10"]


def test_each_time_that_they_cannot_be_followed_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "baton.spark")
    lost = OSError("the connection was lost")
    followed(Server([lost], [bookmark(20)], [lost]), monkeypatch)
    told = [record.getMessage().split(",")[0] for record in caplog.records]
    assert told == ["cannot follow pods", "following pods again"] * 2


def test_an_api_server_that_lets_no_watch_begin_is_not_asked_for_lists_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(*[[ApiRefused(410, "too old resource version")]] * 3)
    followed(server, monkeypatch, shortest=0.2)
    assert all(later - sooner >= 0.2 for sooner, later in pairwise(server.listed_at[:4]))
    assert len(server.listed_at) >= 4
