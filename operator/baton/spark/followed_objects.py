"""Follows objects at the API server: lists them once, and watches them from there."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from baton.consumer.api_server import ApiConnection, ApiRefused, ListWatch

log = logging.getLogger("baton.spark")

_AGAIN = 1.0
"""Seconds until the next try after a failed list."""
_SHORTEST = 1.0
"""Least seconds between the starts of two watches."""


class FollowedObjects:
    """Follows objects in a thread. While the API server is unreachable, the last state is kept."""

    def __init__(
        self, api: ApiConnection, path: str, what: str, seen: Callable[[Sequence[dict[str, Any]]], None], **only: Any
    ) -> None:
        """`path`: of the objects; `only`: selectors, such as fieldSelector; `what`: their name in the log. `seen` is called with
        all objects, at first and after each change."""
        self._api, self._path, self._what, self._seen, self._only = api, path, what, seen, only
        self._closed = threading.Event()
        self._unreachable = False
        self._watch: ListWatch | None = None
        threading.Thread(target=self._run, name=f"baton-follow {what}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.end()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow()
            except Exception as error:  # the fleet continues after any error of the API server or the network
                if self._closed.is_set():
                    return
                if not self._unreachable:
                    log.warning("cannot follow %s, keeping the last state: %s", self._what, error)
                self._unreachable = True
                self._closed.wait(_AGAIN)

    def _follow(self) -> None:
        """List the objects, and watch them until the watch cannot continue."""
        listed = self._api.list(self._path, **self._only)
        objects = {one["metadata"]["name"]: one for one in listed["items"]}
        self._seen(list(objects.values()))
        if self._unreachable:
            log.info("following %s again", self._what)
        self._unreachable = False
        version = listed["metadata"]["resourceVersion"]
        while version and not self._closed.is_set():
            asked = time.monotonic()
            try:
                version = self._watched(objects, version)
            except ApiRefused as error:
                if error.status != HTTPStatus.GONE:
                    raise
                version = ""  # the resource version is too old: list again
            self._closed.wait(asked + _SHORTEST - time.monotonic())

    def _watched(self, objects: dict[str, dict[str, Any]], version: str) -> str:
        """Watch until the API server ends the watch, and return the last resource version."""
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
