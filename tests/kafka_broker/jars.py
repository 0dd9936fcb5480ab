"""The broker's jars and a formatted data directory, fetched and made once, and kept in the cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster import packages

HERE = Path(__file__).parent
CLUSTER_ID = "bWFkZS1mb3ItdGVzdHM"
USERS = {"operator": "operator's password", "pod": "pod's password", "stranger": "stranger's password"}
"""With SCRAM-SHA-512; what each may do, a test says by ACLs."""
_NEEDED = {"mvn": "maven", "java": "openjdk-17-jre-headless"}
_FORMAT = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:1
listeners=CONTROLLER://127.0.0.1:1,PLAIN://127.0.0.1:2
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
log.dirs={data}
"""


def place() -> Path:
    """The folder with `lib` and `data`, made if it is not there. Raises RuntimeError with what failed."""
    cache = Path(os.environ.get("BATON_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baton")
    sources = b"\0".join(source.read_bytes() for source in (HERE / "pom.xml", Path(__file__)))
    made = cache / f"kafka-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not made.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / "kafka.lock"):
            if not made.is_dir():
                _make(made)
    return made


def java(main: str, *arguments: str, lib: Path, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka's."""
    return ["java", *options, "-cp", f"{lib}/*", main, *arguments]


def _make(made: Path) -> None:
    packages.install(_NEEDED)
    print("kafka: fetching the broker's jars (once)", file=sys.stderr, flush=True)
    work = made.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    _run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={work / 'lib'}"])
    configuration = work / "format.properties"
    configuration.write_text(_FORMAT.format(data=work / "data"))
    scram: Mapping[str, str] = {"SCRAM-SHA-512": "name={},password={}"}
    users = [f"{mechanism}=[{form.format(*user)}]" for mechanism, form in scram.items() for user in USERS.items()]
    flags = [word for user in users for word in ("--add-scram", user)]
    _run(java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(configuration), *flags, lib=work / "lib"))
    work.rename(made)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
