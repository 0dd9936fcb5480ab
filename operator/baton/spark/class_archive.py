"""An archive of the classes that a driver and its executors load, for Java's class data sharing: `python -m
baton.spark.class_archive FOLDER`, when an image is built.

To find, to verify and to link some ten thousand classes is more than half of what the start of Spark costs, and of the first
batch. Java takes them from an archive as they are, as long as its class path begins with the jars of which that was made, and
none of them has changed; otherwise it does without.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from zipfile import ZipFile

from baton.spark import jar_file

ARCHIVE, CLASS_PATH, DEFAULTS = "classes.jsa", "class-path", "spark-defaults.conf"

_EXECUTORS = ("org/apache/spark/executor/", "org/apache/spark/scheduler/cluster/k8s/", "dev/baton/")
"""Classes that no training meets: what only executors on Kubernetes load, and Baton's source with its Redis client."""


class ArchiveError(Exception):
    """There will be no archive. The text says why."""


def make(folder: Path) -> None:
    """Write the archive, the class path that it is good for, and the settings with which a driver uses both. Takes about two
    minutes of a processor. Raises ArchiveError.
    """
    spark = jar_file.spark_jars()
    if spark is None:
        raise ArchiveError("there are no jars of Spark: install pyspark, or set SPARK_HOME")
    jars = class_path(spark, jar_file.path())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        _run([sys.executable, "-m", "baton.spark.class_training", work, os.pathsep.join(map(str, jars))], "the training")
        loaded = {line for listed in Path(work).glob("*.classes") for line in listed.read_text(encoding="utf-8").splitlines()}
        whole = Path(work) / "all"
        whole.write_text("\n".join([*sorted(loaded | set(_classes(jars))), ""]), encoding="utf-8")
        _run(
            [_java(), "-Xshare:dump", f"-XX:SharedClassListFile={whole}", f"-XX:SharedArchiveFile={folder / ARCHIVE}",
             "-Xlog:cds=error", "-Xlog:cds+heap=error", "-cp", os.pathsep.join(map(str, jars))],
            "the dump",
        )  # fmt: skip
    (folder / CLASS_PATH).write_text(os.pathsep.join(map(str, jars)), encoding="utf-8")
    defaults = "".join(f"{name} {value}\n" for name, value in settings(folder).items())
    (folder / DEFAULTS).write_text(defaults, encoding="utf-8")


def class_path(spark: Path, baton: Path) -> Sequence[Path]:
    """All jars of Spark, and Baton's, each once: always in one order, and not in that of their folder, which is its disk's."""
    jars = {jar.name: jar.resolve() for jar in spark.glob("*.jar")}
    if baton.resolve() not in jars.values():
        jars.setdefault(baton.name, baton.resolve())
    return [jar for _, jar in sorted(jars.items())]


def settings(folder: Path) -> dict[str, str]:
    """Spark's settings for a driver that uses the archive in this folder; the entry point of executors has the same."""
    return {
        "spark.driver.extraClassPath": (folder / CLASS_PATH).read_text(encoding="utf-8"),
        "spark.driver.defaultJavaOptions": f"-XX:SharedArchiveFile={folder / ARCHIVE}",
    }


def _classes(jars: Iterable[Path]) -> Iterable[str]:
    for jar in jars:
        with ZipFile(jar) as content:
            for name in content.namelist():
                if name.startswith(_EXECUTORS) and name.endswith(".class"):
                    yield name.removesuffix(".class")


def _java() -> Path | str:
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else "java"


def _run(command: Sequence[str | Path], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise ArchiveError(f"{what} for an archive of classes failed:\n{done.stdout[-3000:]}")


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]).absolute())
    except (ArchiveError, jar_file.JarError) as error:
        sys.exit(str(error))
