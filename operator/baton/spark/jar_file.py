"""The jar with the Java part of Spark's source `baton`: carried in the wheel, or built from the sources when it is first needed.

It is compiled against the jars that pyspark ships. Jedis and its pool, and Kafka's client, are fetched by Ivy, which pyspark
ships too, from where Ivy looks by itself (BATON_IVY_SETTINGS: the path of settings that say otherwise). This module imports
nothing of Baton's: the build of the wheel loads it by itself.
"""

import fcntl
import filecmp
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
CARRIED = HERE / "jars" / "baton-spark.jar"
SOURCES = HERE / "java"
JAVA = 17
"""The lowest version of a JDK that Spark 4 runs on."""
_BUILDING = "building the jar of Spark's source `baton`"


class JarError(Exception):
    """There is no jar, and it cannot be built. The text says what to install."""


class Fetched(NamedTuple):
    """A jar of others'."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


OTHERS = (
    Fetched("redis.clients", "jedis", "5.2.0", "dd4fbda2c103f319ab495adb2bc1906139840746cfd4c66b27710d1af98382d4"),
    Fetched("org.apache.commons", "commons-pool2", "2.12.0", "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b"),
    Fetched("org.apache.kafka", "kafka-clients", "4.1.1", "00247122a572c3d3ae4eb60a50192a5811bc0181f51923d13018600f892e821d"),
)


def path(carried: Path = CARRIED) -> Path:
    """Return the path of the jar of Spark's source. Raises JarError if it is neither carried nor can be built here.

    ```python
    builder.config("spark.jars", str(baton.spark.jar()))
    ```
    """
    return carried if carried.exists() else built()


def built() -> Path:
    """The jar of these sources, from the cache or built into it. Processes that need it at once wait for one of them."""
    cache = _cache()
    place = cache / f"baton-spark-{_key()}.jar"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / "baton-spark.lock"):
            if not place.exists():
                _build(place, cache)
    return place


def prepare() -> Path:
    """The jar, as `built`, with the jars of others beside it: builds of images are given these, and fetch none."""
    jar, cache = built(), _cache()
    with _alone(cache / "baton-spark.lock"):
        _others(cache)
    return jar


def spark_jars() -> Path | None:
    """The folder of Spark's own jars: of this environment's pyspark, or of SPARK_HOME."""
    package = find_spec("pyspark")
    homes = [Path(home) for home in (package.submodule_search_locations or () if package else ())]
    if home := os.environ.get("SPARK_HOME"):
        homes.append(Path(home))
    return next((home / "jars" for home in homes if (home / "jars").is_dir()), None)


def in_spark(jar: Path, spark: Path | None) -> bool:
    """Whether the jar is among Spark's own in this folder, as in an image whose executors have it from their start."""
    return spark is not None and any(filecmp.cmp(jar, one, shallow=False) for one in spark.glob("baton-spark*.jar"))


def jdk() -> Path | None:
    """The folder with `javac` and `java`, of a JDK that is new enough."""
    home = os.environ.get("JAVA_HOME")
    for javac in (Path(home) / "bin" / "javac" if home else None, shutil.which("javac")):
        if javac is not None and Path(javac).exists():
            said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
            version = re.search(r"javac (\d+)", said.stdout + said.stderr)
            if version and int(version[1]) >= JAVA:
                return Path(javac).resolve().parent
    return None


def _build(place: Path, cache: Path) -> None:
    programs, spark = _tools()
    print("baton: building the jar of Spark's source `baton` (once)", file=sys.stderr, flush=True)
    others = _others(cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix="baton-spark-") as folder:
        classes, jar = Path(folder) / "classes", Path(folder) / "baton-spark.jar"
        shutil.copytree(SOURCES / "META-INF", classes / "META-INF")
        class_path = os.pathsep.join([f"{spark}/*", *map(str, others)])
        options = ["--release", str(JAVA), "-encoding", "UTF-8", "-proc:none", "-nowarn"]
        run(
            [programs / "javac", *options, "-cp", class_path, "-d", classes, *sorted((SOURCES / "dev").rglob("*.java"))],
            _BUILDING,
        )
        [bytecode] = spark.glob("xbean-asm9-shaded-*.jar")
        run([programs / "java", "-cp", bytecode, SOURCES / "build" / "Relocate.java", jar, classes, *others], _BUILDING)
        jar.rename(place)


def _tools() -> tuple[Path, Path]:
    """The folders of the JDK's programs and of Spark's jars."""
    programs, spark = jdk(), spark_jars()
    if programs is None:
        raise JarError(
            f"The jar of Spark's source `baton` is not built yet, and no javac of Java {JAVA} or later is on the PATH or in "
            f"JAVA_HOME: install a JDK (Debian: apt-get install openjdk-{JAVA}-jdk-headless), or a wheel of baton-consumer that "
            "carries the jar"
        )
    if spark is None:
        raise JarError("Spark's source `baton` is compiled against Spark's jars: install pyspark, or set SPARK_HOME")
    return programs, spark


def _others(cache: Path) -> list[Path]:
    """The jars of others, with the content that is expected."""
    return [_fetched(other, cache) for other in OTHERS]


def _fetched(other: Fetched, cache: Path) -> Path:
    place = cache / other.file
    if not place.exists() or _sha256(place) != other.sha256:
        programs, spark = _tools()
        [ivy] = spark.glob("ivy-*.jar")
        with tempfile.TemporaryDirectory(dir=cache, prefix="ivy-") as folder:
            settings = os.environ.get("BATON_IVY_SETTINGS")
            run([
                *(programs / "java", "-jar", ivy, *(("-settings", settings) if settings else ()), "-cache", f"{folder}/cache"),
                *("-dependency", other.group, other.name, other.version, "-confs", "default", "-notransitive", "-types", "jar"),
                *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
            ], _BUILDING)  # fmt: skip
            found = Path(folder) / other.file
            if not found.exists() or _sha256(found) != other.sha256:
                raise JarError(
                    f"{other.group}:{other.name}:{other.version} was not fetched, or has another content than expected"
                )
            found.rename(place)
    return place


def run(command: Sequence[str | Path], what: str) -> None:
    """Run a program, of which only its failure is told. Raises JarError."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise JarError(f"{what} failed at {Path(command[0]).name}:\n{done.stdout[-3000:]}")


def _key() -> str:
    """Of everything that the jar is made of."""
    digest = hashlib.sha256()
    for source in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        digest.update(f"{source.relative_to(SOURCES)}\0".encode() + source.read_bytes() + b"\0")
    digest.update(repr(OTHERS).encode())
    return digest.hexdigest()[:16]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _cache() -> Path:
    given = os.environ.get("BATON_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baton"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
