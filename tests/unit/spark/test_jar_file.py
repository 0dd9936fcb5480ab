"""Where the jar of Spark's source comes from, and what is said where it cannot be made."""

import os
import subprocess
import sys
from pathlib import Path

from baton.spark import jar_file


def test_a_jar_that_is_carried_is_taken(tmp_path: Path) -> None:
    carried = tmp_path / "baton-spark.jar"
    carried.touch()
    assert jar_file.path(carried) == carried


def test_without_a_jdk_it_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from baton.spark import jar_file; jar_file.built()"]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tmp_path), "BATON_CACHE": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()[-1]
    assert "no javac of Java 17 or later" in said and "apt-get install openjdk-17-jdk-headless" in said
