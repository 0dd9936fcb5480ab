"""The two wheels, as a release builds them: by way of their sdists. baton-consumer works alone, and baton-operator beside it."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from baton import __version__
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from cluster.programs import KUBE
from tests.integration.redis.conftest import make_queue
from tests.integration.redis.pods import lag
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
UV = ROOT / ".venv" / "bin" / "uv"
PROGRAM = Path(__file__).with_name("fresh_consumer.py")
MAKES_NO_CONSUMER = {"aiohttp", "click", "kopf", "kubernetes", "prometheus_client", "pydantic", "rich", "structlog", "yaml"}
OPTIONAL = ("baton.consumer.metrics", "baton.consumer.tracing", "baton.queues.kafka")
"""The modules that need the extras metrics, opentelemetry and kafka."""
SPARK = ("pyspark", "py4j", "pandas", "numpy", "pyarrow", "dateutil", "pytz", "tzdata")


def uv(*words: str | Path) -> str:
    environment = os.environ | {"BATON_RELEASE": "1"}
    done = subprocess.run([UV, *words], capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheel of each distribution, built from the distribution's sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    for name in ("consumer", "operator"):
        uv("build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, name)
    return {name: folder / f"baton_{name}-{__version__}-py3-none-any.whl" for name in ("consumer", "operator")}


@dataclass
class Fresh:
    """A virtual environment that starts empty."""

    python: Path

    def install(self, *requirements: str) -> None:
        """Install the versions of requirements.lock."""
        lock = ROOT / "requirements.lock"
        uv("pip", "install", "--quiet", "--link-mode", "symlink", "--python", self.python, "--constraint", lock, *requirements)

    def start(self, printed: Path, environment: dict[str, str], *words: str | Path) -> subprocess.Popen[bytes]:
        with printed.open("w") as out:
            return ChildProcess([self.python, *words], stdout=out, cwd="/", env=os.environ | environment)

    def modules(self, *without: str, beside: Path | None = None) -> dict[str, Any]:
        environment = os.environ | ({"PYTHONPATH": str(beside)} if beside else {})
        command: list[str | Path] = [self.python, PROGRAM, "modules", *without]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/", env=environment)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    folder = tmp_path_factory.mktemp("fresh")
    uv("venv", "--quiet", "--python", sys.executable, folder)
    return Fresh(folder / "bin" / "python")


@pytest.fixture(scope="module")
def consumers(fresh: Fresh, wheels: dict[str, Path]) -> Fresh:
    """Return the content of the image of a consumer of Redis queues."""
    fresh.install(f"baton-consumer[redis] @ {wheels['consumer'].as_uri()}")
    return fresh


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


def test_no_file_is_in_both_and_none_is_missing(wheels: dict[str, Path]) -> None:
    inside = {name: set(ZipFile(wheel).namelist()) for name, wheel in wheels.items()}
    assert inside["consumer"].isdisjoint(inside["operator"])
    shipped = {name for names in inside.values() for name in names if name.startswith("baton/")}
    tree = {
        str(path.relative_to(ROOT / "operator"))
        for path in (ROOT / "operator" / "baton").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert shipped == tree | {"baton/spark/jars/baton-spark.jar"}
    for name, names in inside.items():
        assert f"baton_{name}-{__version__}.dist-info/licenses/LICENSE" in names
    assert {"baton/__init__.py", "baton/py.typed"} <= inside["consumer"]


def test_a_consumers_image_has_four_distributions_at_most_and_all_of_its_modules_work(consumers: Fresh) -> None:
    found = consumers.modules("baton.spark", *OPTIONAL)
    assert found["installed"].keys() <= {"baton-consumer", "redis", "urllib3", "async-timeout"}
    assert {"baton.consumer.api_server", "baton.consumer.consumer", "baton.queues.redis.adapter"} <= set(found["imported"])
    assert MAKES_NO_CONSUMER.isdisjoint(found["loaded"])


async def test_it_consumes_from_a_real_redis_by_a_ledger_in_a_directory(
    consumers: Fresh, server: RedisServer, tmp_path: Path
) -> None:
    uid, printed = "uid-of-the-pod", tmp_path / "printed"
    queue = await make_queue(server.url, partitions=1)
    await queue.operator.grant(0, Uid(uid), Epoch(1))
    name = QueueName(queue.name.removeprefix("shop/"))
    entry = MemberEntry("shop/orders", MemberId("orders-0"), Uid(uid), 1, True, {name: {0: Epoch(1)}}, {})
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    (ledger / "orders-0").write_text(entry.to_json())
    environment = {"BATON_REDIS_URL": server.url, "BATON_LEDGER": str(ledger), "POD_NAME": "orders-0", "POD_UID": uid}
    process = consumers.start(printed, environment, PROGRAM, "consume", queue.name)
    try:
        queue.send("a", "b", "c")
        until(lambda: printed.read_text().split() == ["a", "b", "c"])
        (ledger / "orders-0").unlink()
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert await lag(queue) == 0
    finally:
        process.kill()
        process.wait()
        await queue.close()


def test_its_spark_side_needs_spark_and_nothing_of_the_operator(consumers: Fresh, tmp_path: Path) -> None:
    """Spark itself is linked from this environment: installing it takes a minute."""
    for name in SPARK:
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        (tmp_path / name).symlink_to(Path(found.origin).parent)
    found_there = consumers.modules(*OPTIONAL, "baton.spark.metrics", beside=tmp_path)
    assert {"baton.spark.fleet", "baton.spark.ledger"} <= set(found_there["imported"])
    assert MAKES_NO_CONSUMER.isdisjoint(found_there["loaded"])


def test_its_extras_bring_what_its_other_modules_need(consumers: Fresh, wheels: dict[str, Path]) -> None:
    consumers.install(f"baton-consumer[metrics,opentelemetry,kafka] @ {wheels['consumer'].as_uri()}")
    assert set(OPTIONAL) <= set(consumers.modules("baton.spark")["imported"])


def test_the_operator_and_its_command_come_with_the_consumers_side_and_leave_it_behind(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    uv("venv", "--quiet", "--python", sys.executable, tmp_path)
    both = Fresh(tmp_path / "bin" / "python")
    both.install(f"baton-consumer @ {wheels['consumer'].as_uri()}", f"baton-operator[redis] @ {wheels['operator'].as_uri()}")
    assert {"baton.cli.main", "baton.consumer.api_server"} <= set(both.modules("baton.spark", *OPTIONAL)["imported"])
    version = subprocess.run([tmp_path / "bin" / "baton", "--version"], check=True, capture_output=True, text=True).stdout
    assert __version__ in version
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    kubectl = [str(KUBE.path()), "kubectl", "baton", "--version"]
    plugin = subprocess.run(kubectl, check=True, capture_output=True, text=True, env=os.environ | path).stdout
    assert plugin == version, "kubectl runs it as its plugin"
    uv("pip", "uninstall", "--quiet", "--python", both.python, "baton-operator")
    left = both.modules("baton.spark", *OPTIONAL)["imported"]
    assert "baton.consumer.consumer" in left and "baton.cli.main" not in left
