"""Finds the jar with the Java part of Spark's source `baton`: shipped in the wheel, or built from source on first use.

The jar is compiled against the jars that pyspark ships. Ivy, which pyspark ships too, fetches Jedis, commons-pool2 and
kafka-clients from its default repositories, or from those of the settings file that BATON_IVY_SETTINGS names. This module
imports nothing from Baton, because the build of the wheel loads it alone.
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
SHIPPED = HERE / "jars" / "baton-spark.jar"
SOURCES = HERE / "java"
JAVA = 17
"""The lowest JDK version that Spark 4 supports."""
_BUILDING = "building the jar of Spark's source `baton`"


class JarError(Exception):
    """The jar does not exist and cannot be built. The text says what to install."""


class Library(NamedTuple):
    """A third-party jar."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


LIBRARIES = (
    Library("redis.clients", "jedis", "5.2.0", "dd4fbda2c103f319ab495adb2bc1906139840746cfd4c66b27710d1af98382d4"),
    Library("org.apache.commons", "commons-pool2", "2.12.0", "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b"),
    Library("org.apache.kafka", "kafka-clients", "4.1.1", "00247122a572c3d3ae4eb60a50192a5811bc0181f51923d13018600f892e821d"),
)


def path(shipped: Path = SHIPPED) -> Path:
    """Return the path of the jar of Spark's source. Raises JarError if it is not shipped and cannot be built.

    ```python
    builder.config("spark.jars", str(baton.spark.jar()))
    ```
    """
    return shipped if shipped.exists() else built()


def built() -> Path:
    """Return the jar built from these sources, from the cache or built into it. If several processes need it, one builds it."""
    cache = _cache()
    place = cache / f"baton-spark-{_key()}.jar"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / "baton-spark.lock"):
            if not place.exists():
                _build(place, cache)
    return place


def prepare() -> Path:
    """Build the jar with `built`, and leave the libraries' jars beside it, so that builds of images need not fetch them."""
    jar, cache = built(), _cache()
    with _alone(cache / "baton-spark.lock"):
        _libraries(cache)
    return jar


def spark_jars() -> Path | None:
    """Return the folder of Spark's own jars: in this environment's pyspark, or in SPARK_HOME."""
    package = find_spec("pyspark")
    homes = [Path(home) for home in (package.submodule_search_locations or () if package else ())]
    if home := os.environ.get("SPARK_HOME"):
        homes.append(Path(home))
    return next((home / "jars" for home in homes if (home / "jars").is_dir()), None)


def in_spark(jar: Path, spark: Path | None) -> bool:
    """Whether Spark's folder of jars contains this jar, as in images whose executors have it from the start."""
    return spark is not None and any(filecmp.cmp(jar, one, shallow=False) for one in spark.glob("baton-spark*.jar"))


def jdk() -> Path | None:
    """Return the folder with `javac` and `java` of a JDK that is new enough."""
    home = os.environ.get("JAVA_HOME")
    for javac in (Path(home) / "bin" / "javac" if home else None, shutil.which("javac")):
        if javac is not None and Path(javac).exists():
            output = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
            version = re.search(r"javac (\d+)", output.stdout + output.stderr)
            if version and int(version[1]) >= JAVA:
                return Path(javac).resolve().parent
    return None


def _build(place: Path, cache: Path) -> None:
    programs, spark = _tools()
    print("baton: building the jar of Spark's source `baton` (once)", file=sys.stderr, flush=True)
    libraries = _libraries(cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix="baton-spark-") as folder:
        classes, jar = Path(folder) / "classes", Path(folder) / "baton-spark.jar"
        shutil.copytree(SOURCES / "META-INF", classes / "META-INF")
        class_path = os.pathsep.join([f"{spark}/*", *map(str, libraries)])
        options = ["--release", str(JAVA), "-encoding", "UTF-8", "-proc:none", "-nowarn"]
        run(
            [programs / "javac", *options, "-cp", class_path, "-d", classes, *sorted((SOURCES / "dev").rglob("*.java"))],
            _BUILDING,
        )
        [bytecode] = spark.glob("xbean-asm9-shaded-*.jar")
        run([programs / "java", "-cp", bytecode, SOURCES / "build" / "Relocate.java", jar, classes, *libraries], _BUILDING)
        jar.rename(place)


def _tools() -> tuple[Path, Path]:
    """The folders of the JDK's programs and of Spark's jars."""
    programs, spark = jdk(), spark_jars()
    if programs is None:
        raise JarError(
            f"The jar of Spark's source `baton` is not built yet, and no javac of Java {JAVA} or later is on the PATH or in "
            f"JAVA_HOME: install a JDK (Debian: apt-get install openjdk-{JAVA}-jdk-headless), or a wheel of baton-consumer that "
            "includes the jar"
        )
    if spark is None:
        raise JarError("Spark's source `baton` is compiled against Spark's jars: install pyspark, or set SPARK_HOME")
    return programs, spark


def _libraries(cache: Path) -> list[Path]:
    return [_fetched(library, cache) for library in LIBRARIES]


def _fetched(library: Library, cache: Path) -> Path:
    """Return a library's jar with the expected checksum, from the cache or fetched into it."""
    place = cache / library.file
    if not place.exists() or _sha256(place) != library.sha256:
        programs, spark = _tools()
        [ivy] = spark.glob("ivy-*.jar")
        with tempfile.TemporaryDirectory(dir=cache, prefix="ivy-") as folder:
            settings = os.environ.get("BATON_IVY_SETTINGS")
            run([
                *(programs / "java", "-jar", ivy, *(("-settings", settings) if settings else ()), "-cache", f"{folder}/cache"),
                *("-dependency", library.group, library.name, library.version, "-confs", "default", "-notransitive"),
                *("-types", "jar", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
            ], _BUILDING)  # fmt: skip
            found = Path(folder) / library.file
            if not found.exists() or _sha256(found) != library.sha256:
                raise JarError(f"{library.group}:{library.name}:{library.version} was not fetched, or its checksum is wrong")
            found.rename(place)
    return place


def run(command: Sequence[str | Path], what: str) -> None:
    """Run a program, and show its output only if it fails. Raises JarError."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise JarError(f"{what} failed at {Path(command[0]).name}:\n{done.stdout[-3000:]}")


def _key() -> str:
    """Hash of everything that the jar is made of."""
    digest = hashlib.sha256()
    for source in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        digest.update(f"{source.relative_to(SOURCES)}\0".encode() + source.read_bytes() + b"\0")
    digest.update(repr(LIBRARIES).encode())
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
