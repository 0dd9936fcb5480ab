"""Where the jar of Spark's source comes from, and the errors if it cannot be built."""

import os
import subprocess
import sys
from pathlib import Path

from baton.spark import class_archive, jar_file


def test_a_bundled_jar_is_used(tmp_path: Path) -> None:
    carried = tmp_path / "baton-spark.jar"
    carried.touch()
    assert jar_file.path(carried) == carried


def without_a_jdk(cache: Path, called: str) -> str:
    """The last line of output of a call of the module."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(cache), "BATON_CACHE": str(cache)}
    command = [sys.executable, "-c", f"from baton.spark import jar_file; print(jar_file.{called})"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[-1]


def test_without_a_jdk_the_error_names_what_to_install(tmp_path: Path) -> None:
    said = without_a_jdk(tmp_path, "built()")
    assert "no javac of Java 17 or later" in said and "apt-get install openjdk-17-jdk-headless" in said


def test_preparing_an_image_fetches_libraries_even_if_the_jar_exists(tmp_path: Path) -> None:
    jar = tmp_path / f"baton-spark-{jar_file._key()}.jar"
    jar.touch()
    assert without_a_jdk(tmp_path, "built()") == str(jar)
    assert "no javac" in without_a_jdk(tmp_path, "prepare()")  # they would be fetched now


# --


EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "spark"


def test_the_class_path_has_each_jar_once_in_order(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "note.txt", "baton-spark.jar"):
        (tmp_path / name).touch()
    carried = tmp_path / "elsewhere" / "baton-spark.jar"
    found = class_archive.class_path(tmp_path, carried)
    assert found == [tmp_path / "a.jar", tmp_path / "b.jar", tmp_path / "baton-spark.jar"]


def test_drivers_and_executors_have_one_archive_and_one_class_path(tmp_path: Path) -> None:
    (tmp_path / class_archive.CLASS_PATH).write_text("/jars/a.jar:/jars/b.jar")
    assert class_archive.settings(tmp_path) == {
        "spark.driver.extraClassPath": "/jars/a.jar:/jars/b.jar",
        "spark.driver.defaultJavaOptions": f"-XX:SharedArchiveFile={tmp_path}/classes.jsa",
    }
    entrypoint = (EXAMPLE / "entrypoint.sh").read_text()
    assert "-XX:SharedArchiveFile=/opt/classes/classes.jsa" in entrypoint
    assert "$(</opt/classes/class-path):$class_path" in entrypoint
