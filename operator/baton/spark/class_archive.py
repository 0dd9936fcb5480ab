"""Makes an archive of the classes that a driver and its executors load, for Java's class data sharing.

Run `python -m baton.spark.class_archive FOLDER` when an image is built. Finding, verifying and linking some ten thousand classes
takes more than half of the time of Spark's start and of the first batch. Java maps them from the archive as long as its class
path begins with the jars that the archive was made from, unchanged; otherwise it ignores the archive.
"""

import json
import os
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZipFile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from baton.spark import jar_file
from baton.spark.settings import steady

# -- the training

_TEMPLATE = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: executor\n"
_BATCHES = 3
_LONGEST = 300
"""Seconds."""


def train(folder: str, class_path: str) -> None:
    """Run a driver and an executor once, so that at the end of this process the names of the classes that they loaded are in
    files `*.classes` in the folder.

    First a driver for Kubernetes requests executors from a fake API server, which accepts everything and starts nothing. Then an
    executor on this machine runs a query with a file sink.
    """
    java = {
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.driver.extraJavaOptions": f"-XX:DumpLoadedClassList={folder}/driver.classes",
        "spark.executor.extraJavaOptions": f"-XX:DumpLoadedClassList={folder}/executor.classes",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        **steady(10.0),
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # during builds of images the host name often does not resolve
    with _api_server() as address:
        _session(java | _on_kubernetes(Path(folder), address)).stop()
    spark = _session(java | {"spark.master": "local-cluster[1,1,1024]"})
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    rows = rows.select("value", F.col("value").cast("string").alias("text"), "timestamp")
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{folder}/rows")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    waited = threading.Event()
    for _ in range(_LONGEST * 10):
        if (progress := query.lastProgress) and progress["batchId"] >= _BATCHES:
            break
        waited.wait(0.1)
    query.stop()
    spark.stop()


def _session(settings: Mapping[str, str | bool | float | None]) -> SparkSession:
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _on_kubernetes(folder: Path, address: str) -> dict[str, str]:
    template = folder / "executor.yaml"
    template.write_text(_TEMPLATE, encoding="utf-8")
    return {
        "spark.master": f"k8s://{address}",
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.executor.instances": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "0",
    }


class _Answers(BaseHTTPRequestHandler):
    """Returns created objects with a UID, and empty lists."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})

    def do_POST(self) -> None:
        made = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        made.setdefault("metadata", {}).update(uid=str(uuid.uuid4()), resourceVersion="1")
        self._answer(made)

    do_PATCH = do_PUT = do_POST  # noqa: N815 - the library's names

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer({"apiVersion": "v1", "kind": "Status", "status": "Success"})

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""

    def _answer(self, what: Mapping[str, object]) -> None:
        body = b"" if "watch=" in urlsplit(self.path).query else json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _api_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


# -- the archive

ARCHIVE, CLASS_PATH, DEFAULTS = "classes.jsa", "class-path", "spark-defaults.conf"

_EXECUTORS = ("org/apache/spark/executor/", "org/apache/spark/scheduler/cluster/k8s/", "dev/baton/")
"""Packages whose classes the training does not load: those of executors on Kubernetes, and Baton's source with its clients."""


def make(folder: Path) -> None:
    """Write the archive, its class path, and the settings with which a driver uses them. Takes two minutes of CPU time. Raises
    JarError.
    """
    spark = jar_file.spark_jars()
    if spark is None:
        raise jar_file.JarError("Spark's jars were not found: install pyspark, or set SPARK_HOME")
    jars = class_path(spark, jar_file.path())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        program = "import sys; from baton.spark.class_archive import train; train(*sys.argv[1:])"
        jar_file.run([sys.executable, "-c", program, work, os.pathsep.join(map(str, jars))], "training an archive of classes")
        loaded = {line for listed in Path(work).glob("*.classes") for line in listed.read_text(encoding="utf-8").splitlines()}
        whole = Path(work) / "all"
        whole.write_text("\n".join([*sorted(loaded | set(_classes(jars))), ""]), encoding="utf-8")
        jar_file.run(
            [_java(), "-Xshare:dump", f"-XX:SharedClassListFile={whole}", f"-XX:SharedArchiveFile={folder / ARCHIVE}",
             "-Xlog:cds=error", "-Xlog:cds+heap=error", "-cp", os.pathsep.join(map(str, jars))],
            "dumping an archive of classes",
        )  # fmt: skip
    (folder / CLASS_PATH).write_text(os.pathsep.join(map(str, jars)), encoding="utf-8")
    defaults = "".join(f"{name} {value}\n" for name, value in settings(folder).items())
    (folder / DEFAULTS).write_text(defaults, encoding="utf-8")


def class_path(spark: Path, baton: Path) -> Sequence[Path]:
    """All jars of Spark, and Baton's, each once, sorted: the order of the files in a folder depends on the disk."""
    jars = {jar.name: jar.resolve() for jar in spark.glob("*.jar")}
    if baton.resolve() not in jars.values():
        jars.setdefault(baton.name, baton.resolve())
    return [jar for _, jar in sorted(jars.items())]


def settings(folder: Path) -> dict[str, str]:
    """Spark's settings for a driver that uses the archive in this folder. The entry point of executors sets the same."""
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


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]).absolute())
    except jar_file.JarError as error:
        sys.exit(str(error))
