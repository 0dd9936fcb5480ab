"""For all tests: clusters, started when first asked for and stopped when all is over; hypothesis, which plays the same
examples every time, on machines of any speed, unless HYPOTHESIS_PROFILE=explore asks for many new ones; which tests `make test`
runs side by side, and which in turn; what a logged traceback shows; and how those that fail are reported."""

import fcntl
import gc
import os
import pickle
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from cluster import Cluster
from tests.reports import pytest_configure, pytest_runtest_makereport, pytest_terminal_summary

__all__ = ["pytest_configure", "pytest_runtest_makereport", "pytest_terminal_summary"]

OWN_SPARK = ("test_bench.py", "test_connect.py", "test_driver_end.py", "test_jar.py", "test_under_dev.py")
"""In tests/integration/spark: they start programs with a separate Spark, or without one."""
OWN_BROKERS = ("test_benches.py", "test_several_brokers.py")
"""In tests/integration/kafka, likewise."""
SHARING = ("tests/integration/kafka", "tests/integration/spark")
"""Folders whose other tests share a broker or a Spark session."""
SPREAD = ("test_a_change.py", "test_seeds.py")
"""Their tests share nothing and take long: they go to all processes."""
EARLY = (
    *OWN_SPARK, "test_a_change.py", "test_crowds.py", "test_killed_operators.py", "test_large_groups.py", "test_outages.py",
    "test_request_counts.py",
)  # fmt: skip
"""Nearly a minute or more each: a process that comes to one last would be waited for."""

# The renderer that structlog takes by itself shows what each function had in its variables: a tenth of a second for each one.
_plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _plain])

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with its controllers, without a node: pods are objects that nothing runs. xdist's processes share one, which
    the first of them to ask for it starts; it ends with the process that started them all, however that one ends."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with Cluster(node=False) as cluster:
            yield cluster
        return
    place = tmp_path_factory.getbasetemp().parent / "control-plane"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            cluster = Cluster(node=False)
            cluster.up(owner=os.getppid())
            place.write_bytes(pickle.dumps(cluster))
    yield pickle.loads(place.read_bytes())


_node = ExitStack()


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """A cluster with one node that runs pods."""
    with _node:
        yield _node.enter_context(Cluster(node=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """The node ends with the last test that needs it: at rest it takes a fifth of a processor from those that follow."""
    yield
    if _shared(item.nodeid) == "node" and nextitem is not None and _shared(nextitem.nodeid) != "node":
        _node.close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: to look through it for garbage takes a quarter of the collecting, and some of each test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start a separate node run before those that share one. Tests that compute are spread between tests that wait
    for servers, for the whole run: together they keep the processors busy. Of each, what takes longest begins first."""
    places: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for item in sorted(items, key=lambda item: item.path.name not in EARLY):
        places[_computes(item)].setdefault(_unit(item.nodeid), len(places[_computes(item)]))

    def place(item: pytest.Item) -> float:
        own = places[_computes(item)]
        return own[_unit(item.nodeid)] / len(own)

    items.sort(key=lambda item: (_turn(item), place(item)))


def _computes(item: pytest.Item) -> bool:
    return item.nodeid.startswith(("tests/unit/", "tests/simulation/"))


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("own_node") is not None:
        return 0
    if (shared := _shared(item.nodeid)) is not None:
        return 1 if shared == "node" else 2
    return 3


def _unit(nodeid: str) -> str:
    """What one process runs in one go: a file, or a test of a file that is spread."""
    file = nodeid.partition("::")[0]
    return nodeid if file.endswith(SPREAD) else file


def _shared(nodeid: str) -> str | None:
    """What tests of many files share, as each process would pay for its own: the machine's node, a Spark session, or Kafka's
    broker (its start takes 5 s of a processor)."""
    if nodeid.startswith(("tests/e2e/", "tests/integration/cluster/")):
        return "node"
    folder, _, file = nodeid.partition("::")[0].rpartition("/")
    return folder if folder in SHARING and file not in (*OWN_SPARK, *OWN_BROKERS) else None


class _ByWhatIsShared(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """The tests of one file run in one process, and all that share something dear in one."""

    def _split_scope(self, nodeid: str) -> str:
        return _shared(nodeid) or _unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByWhatIsShared:
    return _ByWhatIsShared(config, log)
