"""What takes long to make and changes seldom: made once for each content of its sources, and kept in the cache."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.packages import require
from cluster.programs import cache


def made_once(name: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, given an empty one. Processes that need it at once wait for one of them. Raises RuntimeError
    with what failed."""
    contents = b"\0".join(source.read_bytes() for source in sources)
    place = cache() / f"{name}-{hashlib.sha256(contents).hexdigest()[:16]}"
    if not place.is_dir():
        cache().mkdir(parents=True, exist_ok=True)
        with (cache() / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                work = place.with_suffix(".work")
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                make(work)
                work.rename(place)
    return place


def fetch_jars(pom: Path, lib: Path) -> None:
    """The jars that a pom names, with what they need, from where Maven looks. Raises RuntimeError."""
    require("java", "mvn")
    print(f"{pom.parent.name}: fetching jars (once)", file=sys.stderr, flush=True)
    run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={lib}"])


def run(command: Sequence[str]) -> None:
    """Raises RuntimeError with the end of what a command that fails has printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}")
