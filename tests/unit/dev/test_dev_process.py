"""Signals to `baton dev run` reach what it runs, once each, and nothing outlives it."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from baton.dev.folder import Address, DevFolder
from baton.dev.server import DevServer
from tests.processes import ChildProcess
from tests.waiting import until

BATON = Path(sys.executable).parent / "baton"
CHILD = """
import signal, sys

ENDING = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
print("ready", flush=True)
while (number := signal.sigwait(ENDING)) != signal.SIGTERM:
    print(signal.Signals(number).name, flush=True)
print("SIGTERM", flush=True)
sys.exit(3)
"""
"""Uses sigwait: a handler for a signal that arrives just before signal.pause() would run only after the next signal."""
IGNORING_NOTHING = """
import os, signal, sys

for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Restores signals: the parent of the tests may ignore them, as nohup and shells with background jobs do."""
COMMAND = [sys.executable, "-c", IGNORING_NOTHING, str(BATON), "dev", "run", "--", sys.executable, "-c", CHILD]


class Dev:
    """The server and the state directory of `baton dev`."""

    def __init__(self, path: Path) -> None:
        self.server = DevServer("dev", "orders", lambda: None)
        self.environment = {**os.environ, "BATON_DEV_FOLDER": str(path)}
        self._folder = DevFolder(path)

    def start(self) -> None:
        self.server.start()
        self._folder.announce(
            Address(self.server.url, self.server.token, "dev", "orders", "BATON_REDIS_URL", "redis://127.0.0.1:1/0")
        )


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    made = Dev(tmp_path)
    made.start()
    yield made
    made.server.close()


@pytest.fixture
def run(dev: Dev) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        process = ChildProcess(COMMAND, stdout=subprocess.PIPE, text=True, env=dev.environment, start_new_session=True)
        started.append(process)
        assert line(process) == "ready"
        until(lambda: "cat" in programs_of_group(process.pid), "what tells signals for the group from others is there")
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def programs_of_group(group: int) -> set[str]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.getpgid(int(folder.name)) == group:
                found.add((folder / "comm").read_text().strip())
    return found


def line(process: "subprocess.Popen[str]") -> str:
    output: IO[str] | None = process.stdout
    assert output is not None
    return output.readline().strip()


def as_timeout_does(pid: int, number: int) -> None:
    os.kill(pid, number)
    os.killpg(pid, number)


@pytest.mark.parametrize("send", [os.kill, os.killpg, as_timeout_does])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_arrives_once(
    dev: Dev, run: Callable[[], "subprocess.Popen[str]"], send: Callable[[int, int], None], number: signal.Signals
) -> None:
    process = run()
    send(process.pid, number)
    assert line(process) == number.name
    until(lambda: dev.server.processes()[0].ending, "it is known that it ends")
    os.kill(process.pid, signal.SIGTERM)
    assert process.communicate()[0].split() == ["SIGTERM"]
    assert process.returncode == 3 and dev.server.processes() == []


def test_ctrl_c_at_a_terminal_arrives_once(dev: Dev) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(COMMAND[0], COMMAND, dev.environment)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        said = ""

        def says(word: str) -> None:
            nonlocal said
            while word not in said:
                said += os.read(screen.fileno(), 1024).decode()

        says("ready")
        screen.write(b"\x03")
        says("SIGINT")
        os.kill(pid, signal.SIGTERM)
        says("SIGTERM")
        assert said.count("SIGINT") == 1
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_the_program_ends_even_if_baton_dev_run_is_killed(run: Callable[[], "subprocess.Popen[str]"]) -> None:
    process = run()
    os.kill(process.pid, signal.SIGKILL)
    assert process.communicate()[0] == "", "no process has its output open any more"


def test_a_program_ended_by_a_signal_has_a_shells_exit_code(dev: Dev) -> None:
    command = [*COMMAND[:-3], "sh", "-c", "kill -KILL $$"]
    assert subprocess.run(command, env=dev.environment, check=False).returncode == 128 + signal.SIGKILL
    assert dev.server.processes() == []


def test_a_process_has_only_the_address_of_its_queue(dev: Dev) -> None:
    show = "import os; print(*(os.environ.get(name) for name in ('BATON_REDIS_URL', 'BATON_KAFKA_URL')))"
    environment = dev.environment | {"BATON_REDIS_URL": "redis://elsewhere", "BATON_KAFKA_URL": "kafka://elsewhere:9092"}
    command = [str(BATON), "dev", "run", "--", sys.executable, "-c", show]
    shown = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert shown.split() == ["redis://127.0.0.1:1/0", "None"]


def test_a_taken_name_is_refused(dev: Dev, run: Callable[[], "subprocess.Popen[str]"]) -> None:
    run()
    command = [str(BATON), "dev", "run", "--name", "orders-1", "--", "true"]
    done = subprocess.run(command, env=dev.environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip().endswith("a process orders-1 is running already: choose another --name")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [({"BATON_CACHE": "/c"}, "/c/dev"), ({"XDG_CACHE_HOME": "/x"}, "/x/baton/dev"), ({"HOME": "/h"}, "/h/.cache/baton/dev")],
)
def test_the_state_directory_is_in_the_cache(variables: dict[str, str], folder: str) -> None:
    others = {"BATON_CACHE", "XDG_CACHE_HOME", "BATON_DEV_FOLDER"}
    environment = {name: text for name, text in os.environ.items() if name not in others} | variables
    command = [str(BATON), "dev", "run", "--", "true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"uses {folder}:" in done.stderr
