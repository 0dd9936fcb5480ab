"""A real Spark on this machine, of two executors with a core each, with the settings that `baton dev` gives."""

import hashlib
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from baton.spark.jar_file import spark_jars
from baton.spark.settings import local
from tests.made_once import made_once, run

EXECUTORS = 2
JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")
SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for minutes at most: less optimization by the compiler and the garbage collector."""
_ROOT = Path(__file__).parents[1]
_LOADS = Path(__file__).with_name("loads_spark.py")
_NO_WORD = "-Xlog:cds=off,cds+dynamic=off"
"""No warnings about an archive that does not fit, because programs read the JVM's output."""


def classes() -> Path:
    """An archive of the classes that Spark's JVMs load, which halves the cost of their start. A JVM uses it only for jars in the
    same folder, and otherwise ignores it silently."""
    jars = spark_jars()  # under spark-submit pyspark itself is a zip file
    assert jars is not None
    place = hashlib.sha256(f"{jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    return made_once(f"spark-classes-{place}", [JAVA / "release", _LOADS], _make_classes) / "classes.jsa"


def _make_classes(work: Path) -> None:
    print("spark: archiving the classes that it loads (once)", file=sys.stderr, flush=True)
    _set_environment()
    with TemporaryDirectory() as temporary_files:
        archive = f"-XX:ArchiveClassesAtExit={work / 'classes.jsa'} {_NO_WORD}"
        run([sys.executable, str(_LOADS), f"-Djava.io.tmpdir={temporary_files} {SOON} {archive}"])


def java_options(temporary_files: Path, java: str = SOON) -> str:
    """Options for a JVM with Spark. `temporary_files`: a folder for its temporary files, which remain if it is killed."""
    archive = f"-XX:SharedArchiveFile={classes()} {_NO_WORD}" if java == SOON and JAVA.is_dir() else ""
    return f"-Djava.io.tmpdir={temporary_files} {java} {archive}"


def local_spark(
    temporary_files: Path,
    memory: str,
    log_level: str = "ERROR",
    more: Mapping[str, str] | None = None,
    java: str = SOON,
    executors: int = EXECUTORS,
) -> SparkSession:
    """A session whose tasks may import the tests' modules. `memory`: per executor, such as 512m. `temporary_files`, `java`: see
    `java_options`."""
    _set_environment()
    options = java_options(temporary_files, java)
    settings = local(executors, 1, memory, executor_timeout=10.0) | {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.executorEnv.PYTHONPATH": str(_ROOT),
        "spark.sql.shuffle.partitions": str(EXECUTORS),  # each has stores and logs of its own, and Spark has 200 by default
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    session = SparkSession.builder.appName("fleet").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return session


def _set_environment() -> None:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if JAVA.is_dir():
        os.environ["JAVA_HOME"] = str(JAVA)
