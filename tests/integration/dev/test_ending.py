"""`baton dev` ends by SIGINT and by SIGTERM whatever it is about, and at once by the next one."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dev.test_dev import Dev, says
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

SILENT_REDIS = """#!/bin/sh
trap 'test -e "{folder}/stubborn" || exit' TERM
echo $$ > "{folder}/pid"
while :; do sleep 0.1; done
"""
"""A server that never answers. It ignores SIGTERM if the file `stubborn` exists."""


@pytest.fixture
def silent(dev: Dev) -> Iterator[Path]:
    """Return the file with the process id of a silent Redis, once one was started."""
    programs = dev.folder / "programs"
    programs.mkdir()
    program = programs / "redis-server"
    program.write_text(SILENT_REDIS.format(folder=dev.folder))
    program.chmod(0o755)
    dev.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    pid = dev.folder / "pid"
    yield pid
    if pid.exists() and there(pid):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def there(pid: Path) -> bool:
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def ends(dev: Dev, process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> None:
    """Check that the signal ends `baton dev` without an error and without a file of it."""
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0, dev.said.read_text()
    assert "Traceback" not in dev.said.read_text()
    assert not dev.address.exists()


def test_baton_dev_ends_while_its_redis_starts(dev: Dev, silent: Path) -> None:
    process = dev.start()
    until(lambda: silent.exists() and silent.read_text())
    ends(dev, process)
    until(lambda: not there(silent), "its Redis has ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_baton_dev_ends_just_after_its_start(dev: Dev, number: signal.Signals) -> None:
    process = dev.start()
    until(dev.address.exists)
    ends(dev, process, number)


def test_baton_dev_ends_during_hand_offs(dev: Dev) -> None:
    process = dev.start("--partitions", "64", "--delay", "0")
    until(dev.address.exists)
    dev.consumer("a")
    until(says(dev, "orders-1: "), "the first has some")
    ends(dev, process)


def test_baton_dev_ends_while_its_redis_is_silent(dev: Dev) -> None:
    with RedisServer(append_only=False) as server:
        process = dev.start("--redis-url", server.url, "--delay", "0")
        until(says(dev, "unowned: 0-5"))
        server.freeze()
        dev.consumer("a")
        until(says(dev, "does not answer"), "it reports that")
        ends(dev, process)
        server.thaw()


def test_baton_dev_ends_while_its_redis_is_down(dev: Dev) -> None:
    with RedisServer(append_only=False) as server:
        process = dev.start("--redis-url", server.url, "--delay", "0")
        until(says(dev, "unowned: 0-5"))
        server.kill()
        until(says(dev, "does not answer"), "it reports that")
        ends(dev, process)


def test_a_second_signal_ends_baton_dev_at_once(dev: Dev, silent: Path) -> None:
    """`baton dev` waits for the end of its Redis, which does not end."""
    (dev.folder / "stubborn").touch()
    process = dev.start()
    until(lambda: silent.exists() and silent.read_text())

    def ended() -> bool:
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    until(ended, "one more has ended it")
    assert process.returncode == -signal.SIGTERM
    assert there(silent)
