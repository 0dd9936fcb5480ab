"""A process in the place of a pod: gets a pod's environment, and reports its start, its stopping and its end to `baton dev`."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import urllib3

from baton.dev.folder import DevError, DevFolder
from baton.dev.server import CONFLICT
from baton.dev.signals import TOGETHER, Companion
from baton.model.names import DEV_QUEUE_VARIABLE
from baton.queues.kinds import KINDS

GRACE = 30.0
"""Seconds: the default of a pod's terminationGracePeriodSeconds."""
_LOOK = 1.0
"""Seconds of one wait for a signal."""
_ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class LocalProcess:
    """A process of the group. Raises DevError if no `baton dev` answers."""

    def __init__(self, folder: DevFolder, name: str | None = None) -> None:
        """`name`: None: the group's name with the lowest free number."""
        self._address = folder.address()
        self._folder = folder
        self._pool = urllib3.PoolManager()
        found = self._request("POST", "/processes", {"name": name, "pid": os.getpid()})
        self.name, self._uid = str(found["name"]), str(found["uid"])

    def run(self, command: Sequence[str]) -> int:
        """Run the command and return its exit code, or 128 plus the number of the signal that ended it. Signals to end are passed
        on, unless the command has got them, too (Ctrl-C)."""
        events: SimpleQueue[int | None] = SimpleQueue()
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
        numbers = _ENDING - {signal.SIGHUP} if ignored else _ENDING
        before = {number: signal.signal(number, lambda got, _: events.put(got)) for number in numbers}
        try:
            child = self._started(command)
            companion = Companion(child.pid)
            threading.Thread(target=_say_its_end, args=(child, events), daemon=True).start()
            ending = False
            while (got := _together(events)) is not None:
                for number in got - {companion.ended_by()}:
                    child.send_signal(number)
                if not ending:
                    self._quietly("PATCH")
                ending = True
            companion.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._quietly("DELETE")
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    def _started(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(command, env=without_queues(os.environ) | self.environment())
        except OSError as error:
            raise DevError(f"{command[0]} cannot be run: {error.strerror}") from None

    def environment(self) -> dict[str, str]:
        """The variables that a pod's spec would set, and the address of the stand-in for the API server."""
        address = self._address
        return {
            "BATON_GROUP": address.group,
            address.variable: address.url,
            "BATON_LEDGER": str(self._folder.ledger.resolve()),
            "BATON_GRACE_SECONDS": str(GRACE),
            "BATON_API_SERVER": address.api,
            "BATON_API_TOKEN": address.token,
            DEV_QUEUE_VARIABLE: f"{address.namespace}/{address.group}",
            "POD_NAME": self.name,
            "POD_NAMESPACE": address.namespace,
            "POD_UID": self._uid,
        }

    def _quietly(self, method: str) -> None:
        """Tell `baton dev`, unless it has ended."""
        with suppress(DevError):
            self._request(method, f"/processes/{self.name}")

    def _request(self, method: str, path: str, body: Mapping[str, str | int | None] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._address.token}"}
        try:
            answer = self._pool.request(method, self._address.api + path, json=body, headers=headers, timeout=5.0, retries=False)
        except urllib3.exceptions.HTTPError:
            raise DevError("`baton dev` does not answer: start it again") from None
        if answer.status == CONFLICT:
            raise DevError(f"a process {(body or {}).get('name')} is running already: choose another --name")
        if answer.status != 200:
            raise DevError(f"`baton dev` answered with status {answer.status}: start it again")
        return answer.json()


def without_queues(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without URLs of queues: a process must have one only, and the shell may have one of another kind."""
    ours = {kind.variable for kind in KINDS}
    return {name: value for name, value in environment.items() if name not in ours}


def _together(events: "SimpleQueue[int | None]") -> set[int] | None:
    """The next signals, with those that arrive together. None: the command has ended."""
    got: set[int | None] = set()
    while not got:
        with suppress(Empty):  # a signal just before the wait is handled only after it
            got.add(events.get(timeout=_LOOK))
    if None not in got:
        time.sleep(TOGETHER)
        while not events.empty():
            got.add(events.get())
    return None if None in got else {number for number in got if number is not None}


def _say_its_end(child: "subprocess.Popen[bytes]", events: "SimpleQueue[int | None]") -> None:
    child.wait()
    events.put(None)
