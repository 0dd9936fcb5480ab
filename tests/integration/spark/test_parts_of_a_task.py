"""Parts of Spark's source that a query would show after minutes only: called by programs in Java, in their package."""

import os
import subprocess
from pathlib import Path

from baton.spark import jar_file

PROGRAMS = Path(__file__).parent / "java"


def lines(folder: Path, program: str) -> list[str]:
    """What a program says; compiled in the folder."""
    jdk, spark = jar_file.jdk(), jar_file.spark_jars()
    assert jdk is not None and spark is not None
    class_path = os.pathsep.join([str(folder), str(jar_file.path()), f"{spark}/*"])
    compiler = [
        str(jdk / "javac"),
        "-nowarn",
        "-proc:none",
        "-cp",
        class_path,
        "-d",
        str(folder),
        str(PROGRAMS / f"{program}.java"),
    ]
    subprocess.run(compiler, check=True)
    command = [str(jdk / "java"), "-cp", class_path, f"dev.baton.spark.{program}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_what_a_task_remembers_and_reports(tmp_path: Path) -> None:
    assert lines(tmp_path, "PartsOfATask") == [
        "a server that has answered is known by its address alone",
        "the latest check counts",
        "an executor keeps 32 consumers at most",
        "what could not be read is reported as failed, whatever the reason",
        "threads that come and go call Python from few that stay",
    ]


def test_spark_ends_in_its_own_way_also_where_python_does_not_say_that_the_fleet_has_stopped(tmp_path: Path) -> None:
    assert lines(tmp_path, "LateEnd") == ["asked: jvmEnds", "Spark ends"]
