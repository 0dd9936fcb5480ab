"""Objects at the API server as they are now: listed once, and watched from there."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from baton.consumer.api_server import ApiConnection, ApiRefused, ListWatch

log = logging.getLogger("baton.spark")

_AGAIN = 1.0
"""Seconds until a list is asked for again that could not be had."""
_SHORTEST = 1.0
"""Seconds before the next watch is asked for, where one ends at once."""


class FollowedObjects:
    """Follows in its own thread. While the API server is out of reach, what was seen last stands."""

    def __init__(
        self, api: ApiConnection, path: str, what: str, seen: Callable[[Sequence[dict[str, Any]]], None], **only: Any
    ) -> None:
        """`path`: of the objects; `only`: selectors, as fieldSelector. `what`: their name, for the log. `seen` is called with all
        of them, at first and after each change."""
        self._api, self._path, self._what, self._seen, self._only = api, path, what, seen, only
        self._closed = threading.Event()
        self._out_of_sight = False
        """That was told."""
        self._watch: ListWatch | None = None
        self._thread = threading.Thread(target=self._run, name=f"baton-follow {what}", daemon=True)

    def start(self) -> None:
        """Follow from now on."""
        self._thread.start()

    def close(self) -> None:
        """Follow no longer."""
        self._closed.set()
        if self._watch is not None:
            self._watch.end()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow()
            except Exception as error:  # whatever the API server or the network does, the fleet goes on
                if self._closed.is_set():
                    return
                if not self._out_of_sight:
                    log.warning("%s: out of sight, the last state stands: %s", self._what, error)
                self._out_of_sight = True
                self._closed.wait(_AGAIN)

    def _follow(self) -> None:
        """List, and watch from there on until a watch cannot go on."""
        listed = self._api.list(self._path, **self._only)
        objects = {one["metadata"]["name"]: one for one in listed["items"]}
        self._seen(list(objects.values()))
        if self._out_of_sight:
            log.info("%s: in sight again", self._what)
        self._out_of_sight = False
        version = listed["metadata"]["resourceVersion"]
        while version and not self._closed.is_set():
            asked = time.monotonic()
            try:
                version = self._watched(objects, version)
            except ApiRefused as error:
                if error.status != HTTPStatus.GONE:
                    raise
                version = ""  # it lies too far back
            self._closed.wait(asked + _SHORTEST - time.monotonic())

    def _watched(self, objects: dict[str, dict[str, Any]], version: str) -> str:
        """The version that was seen last, when the API server has ended the watch."""
        query = {**self._only, "resourceVersion": version, "allowWatchBookmarks": "true"}
        with self._api.watch(self._path, **query) as watch:
            self._watch = watch
            if self._closed.is_set():
                return version
            for event in watch:
                if self._closed.is_set():
                    break
                seen = event["object"]
                version = seen["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                objects.pop(seen["metadata"]["name"], None)
                if event["type"] != "DELETED":
                    objects[seen["metadata"]["name"]] = seen
                self._seen(list(objects.values()))
        return version
