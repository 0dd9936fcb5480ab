"""What a driver and its executors do at their start, once, so that Java notes which classes that takes (`class_archive.py`).

A driver on Kubernetes asks an API server for executors: here it is one that takes everything and starts nothing. Then there is
an executor of this machine, and a query with a sink of files.
"""

import json
import os
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from baton.spark.steady_settings import steady

_TEMPLATE = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: executor\n"
_BATCHES = 3
_PATIENCE = 300
"""Seconds."""


def train(folder: Path, class_path: str) -> None:
    """Write the names of the loaded classes to files `*.classes` in the folder, when this process ends."""
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
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # where an image is built, the machine's own name often cannot be resolved
    with _api_server() as address:
        _session(java | _on_kubernetes(folder, address)).stop()
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
    for _ in range(_PATIENCE * 10):
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
    """What is made is answered with a uid; there is nothing of anything else."""

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
        """Nothing: it is not read."""

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


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2])
