"""The cluster's programs, built from the Go modules in `go/` into the cache when they are first needed.

The path of a program in the cache contains a hash of its inputs, so an unchanged module is never built twice.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cluster.faults import ClusterError
from cluster.progress import shown_progress

_MODULES = Path(__file__).parent / "go"
KUBERNETES = "1.35.4"


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    """The package to build, inside its module."""
    ldflags: str
    minutes: str
    """How long the first build takes on two cores, for the progress line."""
    folder: str = ""
    """The folder of its module in `go/`, if that has another name than the program."""

    @property
    def module(self) -> Path:
        return _MODULES / (self.folder or self.name)

    def path(self) -> Path:
        """The path of the program, which is built if it is missing."""
        target = self.place()
        if target.exists():
            return target
        cache().mkdir(parents=True, exist_ok=True)
        with (cache() / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():  # another process may have built it while this one waited
                _build(self, target)
        return target

    def place(self) -> Path:
        """The path of the program in the cache, built or not."""
        return cache() / f"{self.name}-{self._key()}" / self.name

    def _key(self) -> str:
        digest = hashlib.sha256(f"{self.package}\0{self.ldflags}\0{platform.machine()}\0".encode())
        for source in sorted(self.module.iterdir()):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
        return digest.hexdigest()[:16]


def _version_flags(version: str) -> str:
    """Linker flags with Kubernetes' version; without them, components reject each other as too old."""
    major, minor, _ = version.split(".")
    place = "-X k8s.io/component-base/version."
    return f"{place}gitVersion=v{version} {place}gitMajor={major} {place}gitMinor={minor}"


def _capabilities_flags(version: str) -> str:
    """Linker flags with the Kubernetes version for which helm renders charts without a cluster; by default 1.20."""
    major, minor, _ = version.split(".")
    places = [f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion" for package in ("chartutil", "lint/rules")]
    return " ".join(f"{place}Major={major} {place}Minor={minor}" for place in places)


KUBE = Program("kube", ".", f"-s -w {_version_flags(KUBERNETES)}", "5 to 8 minutes")
HELM = Program("helm", "helm.sh/helm/v3/cmd/helm", f"-s -w {_capabilities_flags(KUBERNETES)}", "1 to 2 minutes")
ACTIONLINT = Program("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "-s -w", "half a minute")
KEDA_MODULE = "github.com/kedacore/keda/v2"
KEDA_OPERATOR = Program("keda-operator", f"{KEDA_MODULE}/cmd/operator", "-s -w", "10 to 16 minutes", "keda")
KEDA_ADAPTER = Program("keda-adapter", f"{KEDA_MODULE}/cmd/adapter", "-s -w", "1 to 5 minutes after keda-operator", "keda")
PROGRAMS = {"kube": [KUBE], "helm": [HELM], "actionlint": [ACTIONLINT], "keda": [KEDA_OPERATOR, KEDA_ADAPTER]}
"""The programs that `make program-NAME` builds, by name."""


def cache() -> Path:
    """The cache: BATON_CACHE, else `baton` in XDG_CACHE_HOME, else in ~/.cache."""
    if named := os.environ.get("BATON_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baton"


def kube(program: str, *arguments: str) -> list[str]:
    """The command line of a program of Kubernetes. All are in one binary, which is built if it is missing."""
    return [str(KUBE.path()), program, *arguments]


def helm_binary() -> Path:
    """The path of helm, which is built if it is missing."""
    return HELM.path()


def go_source(program: Program, module: str) -> Path:
    """The folder of a Go module that the program depends on, in Go's cache; fetched if it is missing."""
    done = subprocess.run(
        [_go(program), "mod", "download", "-json", module],
        check=False,
        cwd=program.module,
        env={**os.environ, "GOWORK": "off"},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise ClusterError(f"{module} cannot be fetched: {done.stdout.strip()}")
    return Path(json.loads(done.stdout)["Dir"])


def _go(program: Program) -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        raise ClusterError(f"building {program.name} needs Go: install Go 1.26 or later and put it on PATH")
    return go


def _build(program: Program, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".building")
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", program.ldflags]
    with shown_progress(f"building {program.name} into {target.parent}", program.minutes) as progress:
        packages = 0

        def fetching(line: str) -> None:
            progress.far = line.removeprefix("go: ")

        def compiling(line: str) -> None:
            nonlocal packages
            packages += not line.startswith("go: ")
            progress.far = f"{packages:,} of {total:,} packages compiled"

        total = len(_run_go(program, fetching, "list", "-mod=readonly", "-deps", program.package).split())
        _run_go(program, compiling, "build", "-v", *options, "-o", str(unfinished), program.package)
    unfinished.rename(target)


def _run_go(program: Program, heard: Callable[[str], None], *arguments: str) -> str:
    """Run go and return its standard output. Calls `heard` with each line of standard error; ClusterError has the last ones."""
    command = [_go(program), *arguments]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    last: deque[str] = deque(maxlen=30)
    with (
        tempfile.TemporaryFile("w+") as answer,
        subprocess.Popen(
            command, cwd=program.module, env=environment, stdout=answer, stderr=subprocess.PIPE, text=True
        ) as running,
    ):
        assert running.stderr is not None
        for line in map(str.strip, running.stderr):
            last.append(line)
            heard(line)
        if running.wait() != 0:
            lines = "\n".join(last)
            raise ClusterError(f"`go {arguments[0]}` of {program.name} in {program.module} failed. Its last output:\n{lines}")
        answer.seek(0)
        return answer.read()
