"""The driver's Lease, and two programs in one pod, which have the same UID and so the same Lease."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from baton.model.lease import Manifest
from baton.model.names import STATISTICS_ANNOTATION
from baton.spark.session import DriverSession, DriverStatus, SoleDriver
from tests.in_memory_lease import InMemoryLease
from tests.processes import ChildProcess
from tests.unit.spark.builders import grant
from tests.waiting import HOUR, PATIENCE, until

_PROGRAM = """
import sys
from baton.spark.session import SoleDriver
driver = SoleDriver("orders", sys.argv[1])
driver.acquire()
print("acquired", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_program(holder: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that drives orders."""
    with ChildProcess([sys.executable, "-c", _PROGRAM, holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"acquired\n"
            yield process
        finally:
            process.kill()


def test_a_second_program_of_a_pod_waits_until_the_first_is_killed(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    holder = str(tmp_path_factory.getbasetemp())
    store = InMemoryLease()
    second = DriverSession(store, "orders", holder, duration=HOUR, every=HOUR)
    thread = threading.Thread(target=second.acquire)
    with caplog.at_level(logging.WARNING, "baton.spark"), another_program(holder) as first:
        thread.start()
        until(lambda: caplog.messages)
        assert caplog.messages == ["another program of this pod drives group orders; waiting until it has ended"]
        assert store.lease is None and thread.is_alive(), "it has not touched the Lease"
        first.kill()
        thread.join(PATIENCE)
    assert store.holder() == holder and len(caplog.messages) == 1
    second.close()
    with another_program(holder):
        pass  # it was given up


class InterruptedLease(InMemoryLease):
    """The user presses Ctrl-C while the program waits."""

    def write(self, lease: Manifest) -> Manifest | None:
        raise KeyboardInterrupt


def test_an_interrupted_wait_for_the_lease_leaves_no_lock(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    holder = str(tmp_path_factory.getbasetemp())
    first = DriverSession(InterruptedLease(), "orders", holder, duration=HOUR, every=HOUR)
    with pytest.raises(KeyboardInterrupt):
        first.acquire()
    with another_program(holder):
        pass  # `first` is still there


def test_programs_of_other_groups_and_pods_do_not_wait(tmp_path_factory: pytest.TempPathFactory) -> None:
    holder = str(tmp_path_factory.getbasetemp())
    with another_program(holder):
        for other in (SoleDriver("payments", holder), SoleDriver("orders", f"{holder}-2")):
            other.acquire()
            other.release()


def test_a_wait_for_another_program_can_be_given_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    holder = str(tmp_path_factory.getbasetemp())
    with another_program(holder):
        SoleDriver("orders", holder).acquire(lambda: True)


def test_the_lease_has_the_drivers_status_as_annotations() -> None:
    status = DriverStatus("spark-1", ("1", "12"), frozenset({grant("exec-1", 5, 12).released()}), "{}")
    assert status.annotations() == {
        "baton.dev/spark-app": "spark-1",
        "baton.dev/executors": "1,12",
        "baton.dev/releases": '{"uid-exec-1":{"orders":"5@12"}}',
        "baton.dev/statistics": "{}",
        "baton.dev/trouble": "",
        "baton.dev/query-failure": "",
        "baton.dev/missing-rights": "",
    }


def test_news_renew_the_lease_at_once_and_counts_do_not() -> None:
    store = InMemoryLease()
    session = DriverSession(store, "orders", "uid-of-the-driver", duration=HOUR, every=HOUR)
    session.acquire()
    first, second = (frozenset({grant("exec-1", number, 12).released()}) for number in range(2))
    session.update(releases=first)
    until(lambda: store.lease is not None and store.releases() == first, "news is told")
    writes = len(store.writes)
    for rows in range(3):
        session.update(statistics=f'{{"rows":{rows}}}')
    session.update(releases=second)
    until(lambda: store.releases() == second, "other news is told")
    assert len(store.writes) == writes + 1, "counts go with what is written anyway"
    assert store.lease is not None
    assert store.lease["metadata"]["annotations"][STATISTICS_ANNOTATION] == '{"rows":2}'
    session.close()
