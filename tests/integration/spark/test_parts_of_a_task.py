"""Parts of the executors' side that a query would show after minutes only: called by a program in Java, in their package."""

import os
import subprocess
from pathlib import Path

from baton.spark import jar_file

SOURCE = Path(__file__).parent / "java" / "PartsOfATask.java"


def test_what_a_task_remembers_and_reports(tmp_path: Path) -> None:
    jdk, spark = jar_file.jdk(), jar_file.spark_jars()
    assert jdk is not None and spark is not None
    class_path = os.pathsep.join([str(tmp_path), str(jar_file.path()), f"{spark}/*"])
    compiler = [str(jdk / "javac"), "-nowarn", "-proc:none", "-cp", class_path, "-d", str(tmp_path), str(SOURCE)]
    subprocess.run(compiler, check=True)
    command = [str(jdk / "java"), "-cp", class_path, "dev.baton.spark.PartsOfATask"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "a server that has answered is known when its connections were idle and closed",
        "the latest check counts",
        "an executor keeps 32 consumers at most",
        "what could not be read is reported as failed, whatever the reason",
        "threads that come and go call Python from few that stay",
    ]
