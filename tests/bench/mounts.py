"""Sees when a pod's mounted ledger file changes, from outside the pod: its volume lies in a folder of the kubelet."""

import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

_PERIOD = 0.02
"""Seconds. Reading one link per pod costs some ten microseconds; the latencies to be measured are above 100 ms."""

Pod = tuple[str, str]
"""uid, name"""


class Mounts:
    """Calls `changed(uid, text)` for every new text of a pod's own key."""

    def __init__(self, kubelet: Path, pods: Callable[[], Iterable[Pod]], changed: Callable[[str, str], object]) -> None:
        self._kubelet, self._pods, self._changed = kubelet, pods, changed
        self._closed = threading.Event()
        self._seen: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._thread = threading.Thread(target=self._follow, name="mounts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._closed.wait(_PERIOD):
            for uid, name in self._pods():
                with contextlib.suppress(OSError):  # a pod that is coming or going
                    self._look(uid, name)

    def _look(self, uid: str, name: str) -> None:
        for volume in (self._kubelet / "pods" / uid / "volumes" / "kubernetes.io~configmap").iterdir():
            link = volume / "..data"
            version = str(link.readlink())
            place = f"{uid}/{volume.name}"
            if self._seen.get(place) == version:
                continue
            self._seen[place] = version
            text = (link / name).read_text()
            if self._texts.get(uid) != text:
                self._texts[uid] = text
                self._changed(uid, text)
