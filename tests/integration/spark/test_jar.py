"""The jar's content, and the distributions that contain it."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from baton.spark import jar_file
from tests.processes import ChildProcess

CONSUMER = Path(__file__).parents[3] / "consumer"
CARRIED = "baton/spark/jars/baton-spark.jar"


def test_bundled_libraries_do_not_clash_with_the_users() -> None:
    with ZipFile(jar_file.path()) as jar:
        names = jar.namelist()
        source = jar.read("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister")
    assert source.decode().strip() == "dev.baton.spark.BatonSource"
    assert {name for name in names if name.endswith(".class") and not name.startswith("dev/baton/")} == set()
    ours = {"jedis/Connection.class", "pool2/ObjectPool.class", "kafka/clients/consumer/KafkaConsumer.class"}
    assert {f"dev/baton/{name}" for name in ours} <= set(names)


def test_the_jar_has_the_licences_of_its_libraries() -> None:
    with ZipFile(jar_file.path()) as jar:
        licences = {name for name in jar.namelist() if name.startswith("META-INF/licenses/") and not name.endswith("/")}
        assert b"Redis, inc." in jar.read("META-INF/licenses/jedis-5.2.0/LICENSE")
    assert {name.split("/")[2] for name in licences} == {other.file.removesuffix(".jar") for other in jar_file.LIBRARIES}


def test_wheel_and_sdist_contain_the_jar(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)], cwd=CONSUMER, check=True)
    expected = jar_file.built().read_bytes()
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read(CARRIED) == expected
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        [carried] = [name for name in sdist.getnames() if name.endswith(CARRIED)]
        found = sdist.extractfile(carried)
        assert isinstance(found, io.BufferedReader) and found.read() == expected


def test_without_a_jdk_a_wheel_lacks_the_jar_and_a_release_is_rejected(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tmp_path), "BATON_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=CONSUMER, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0 and "without the jar of Spark's source" in built.stdout + built.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert CARRIED not in ZipFile(wheel).namelist()
    wheel.unlink()
    refused = subprocess.run(
        command, cwd=CONSUMER, env=environment | {"BATON_RELEASE": "1"}, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0 and not list(tmp_path.glob("*.whl"))
    said = refused.stdout + refused.stderr
    assert "no javac of Java 17 or later" in said and "Traceback" not in said


@pytest.mark.long
def test_concurrent_processes_build_one_jar(tmp_path: Path) -> None:
    for other in jar_file.LIBRARIES:  # without the network
        (tmp_path / other.file).symlink_to(jar_file.built().parent / other.file)
    command = [sys.executable, "-c", "from baton.spark import jar_file; print(jar_file.built())"]
    environment = os.environ | {"BATON_CACHE": str(tmp_path)}
    running = [
        ChildProcess(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    answers = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert sum("building the jar" in told for _, told in answers) == 1
    assert Path(answers[0][0].strip()).read_bytes() == jar_file.built().read_bytes()
