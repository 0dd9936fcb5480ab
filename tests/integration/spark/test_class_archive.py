"""The archive of Java's classes that an image of a fleet is built with."""

import os
import subprocess
from pathlib import Path

from baton.spark import class_archive
from tests.archived_classes import archived_classes


def test_spark_s_classes_and_baton_s_come_from_it_also_with_more_behind_its_class_path(tmp_path: Path) -> None:
    folder = archived_classes()
    defaults = dict(line.split(" ", 1) for line in (folder / class_archive.DEFAULTS).read_text().splitlines())
    (tmp_path / "log4j2.properties").touch()  # a folder with settings, as Spark has one
    loaded = tmp_path / "loaded"
    subprocess.run(
        [
            "java", defaults["spark.driver.defaultJavaOptions"], f"-Xlog:class+load:file={loaded}",
            "-cp", os.pathsep.join([defaults["spark.driver.extraClassPath"], str(tmp_path)]),
            "org.apache.spark.deploy.SparkSubmit", "--version",
        ],
        capture_output=True, check=True,
    )  # fmt: skip
    taken = {line.split()[1] for line in loaded.read_text().splitlines() if "source: shared objects file" in line}
    assert "org.apache.spark.deploy.SparkSubmit" in taken
    listed = subprocess.run(
        ["java", defaults["spark.driver.defaultJavaOptions"], "-XX:+PrintSharedArchiveAndExit", "-Xlog:cds",
         "-cp", defaults["spark.driver.extraClassPath"], "none"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    for name in ("dev.baton.spark.RangeReader", "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"):
        assert name in listed, name
