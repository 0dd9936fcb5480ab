"""Images built from the checkout's Dockerfiles, as users build them, but by buildah, without Docker and without a registry.

The base image of the Dockerfiles cannot be fetched without a registry, so one made of Debian packages, with the same Python,
replaces it. Layers are cached. Builds fetch Python and Debian packages; the jars that Dockerfiles compile against are fetched by
this machine (`make jar`) and mounted read-only.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cluster import packages
from cluster.faults import ClusterError
from cluster.images import ROOT
from cluster.programs import cache
from cluster.progress import shown_progress


class Image(NamedTuple):
    """An image to build from a Dockerfile, by its name in manifests."""

    name: str
    dockerfile: Path
    context: Path = ROOT
    """The build context."""


OPERATOR = Image("docker.io/library/baton-operator:0.1.0", ROOT / "manifests" / "operator" / "Dockerfile")
_EXAMPLES = ROOT / "manifests" / "examples"
CONSUMER = Image("docker.io/library/orders-consumer:1", _EXAMPLES / "redis-consumer" / "Dockerfile")
KAFKA_CONSUMER = Image("docker.io/library/orders-kafka-consumer:1", _EXAMPLES / "kafka-consumer" / "Dockerfile")
EXTERNAL_CONSUMER = Image("docker.io/library/jobs-consumer:1", _EXAMPLES / "external-consumer" / "Dockerfile")
SPARK = Image("docker.io/library/orders-spark:1", _EXAMPLES / "spark" / "Dockerfile")
EXAMPLES = {"redis": CONSUMER, "kafka": KAFKA_CONSUMER, "external": EXTERNAL_CONSUMER, "spark": SPARK}
"""The images of the examples, by option of `load`."""
TESTED = (OPERATOR, CONSUMER, SPARK)
"""The images that tests run."""

_BASE = f"localhost/python:3.11-slim-{packages.RELEASE}"
_PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
_STAND_IN = """\
FROM scratch
ADD base.tar /
RUN rm /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s python3 /usr/bin/python
"""
_PIP, _CERTIFICATES, _MOUNTED = Path("/etc/pip.conf"), "/etc/ssl/certs", "/run/certificates"
"""This machine's settings and certificates for pip, for builds only: the certificates in images are not replaced."""


def complete(tag: str) -> str:
    """Return the tag with its registry, as Kubernetes completes it. Raises ClusterError for a tag without a version and for
    `latest`: Kubernetes asks a registry for those, even if the node has the image."""
    place, _, version = tag.rpartition(":")
    if not place or "/" in version or version == "latest":
        raise ClusterError(
            f"{tag} names no version, or the latest one: give it one that Kubernetes does not fetch, such as mine:1"
        )
    first = place.partition("/")[0]
    if "/" not in place:
        return f"docker.io/library/{tag}"
    return tag if first == "localhost" or "." in first or ":" in first else f"docker.io/{tag}"


def build(image: Image) -> None:
    """Build the image. Raises ClusterError; a failed build leaves no container and no mount."""
    with _alone():
        if not _buildah("images", "--quiet", "--filter", f"reference={_BASE}"):
            with shown_progress("making a base image of Debian packages", "1 to 3 minutes"):
                _make_base()
        with shown_progress(f"building {image.name}", "up to 10 minutes the first time"):
            _bud(image)


def each(asked: Iterable[Image], make: Callable[[Image], object] = build) -> None:
    """Call `make` for every image, even after a failure. Raises ClusterError with the names of those that failed."""
    failed = []
    for image in asked:
        try:
            make(image)
        except ClusterError as error:
            print(f"cluster: {error}", file=sys.stderr, flush=True)
            failed.append(image.name.removeprefix("docker.io/library/"))
    if failed:
        raise ClusterError(f"failed: {', '.join(failed)}; see the errors above")


def configuration(image: Image) -> dict[str, Any]:
    """The configuration of a built image (user, entry point, environment, labels), with OCI's names."""
    found: dict[str, Any] = json.loads(_buildah("inspect", "--type=image", image.name))["OCIv1"]["config"]
    return found


@contextmanager
def contents(image: Image) -> Iterator[Path]:
    """Mount the image's files for reading."""
    with _alone():
        yield Path(_buildah("mount", _buildah("from", "--pull-never", image.name)))


def archive(image: Image, name: str) -> Path:
    """Write the image as `docker save` does, under this name. The caller deletes the file."""
    handle, path = tempfile.mkstemp(prefix="baton-image-", suffix=".tar")
    os.close(handle)
    Path(path).unlink()  # buildah does not overwrite files
    try:
        _buildah("push", "--quiet", image.name, f"docker-archive:{path}:{name}")
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    return Path(path)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process build at a time. Remove containers and mounts that buildah leaves after a failed or killed build."""
    (cache() / "images").mkdir(parents=True, exist_ok=True)
    with (cache() / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _buildah("rm", "--all")
            yield
        finally:
            _buildah("rm", "--all")


def _make_base() -> None:
    with tempfile.TemporaryDirectory(prefix="baton-base-") as folder:
        packages.make_debian(Path(folder) / "base.tar", *_PACKAGES)
        (Path(folder) / "Dockerfile").write_text(_STAND_IN)
        _buildah("build", "--quiet", "--tag", _BASE, folder)


def _bud(image: Image) -> None:
    volumes = []
    if _PIP.exists():
        settings = cache() / "images" / "pip.conf"
        settings.write_text(_PIP.read_text().replace(_CERTIFICATES, _MOUNTED))
        volumes = [f"--volume={settings}:{_PIP}:ro", f"--volume={_CERTIFICATES}:{_MOUNTED}:ro"]
    volumes += [f"--volume={jar}:/root/.cache/baton/{jar.name}:ro" for jar in cache().glob("*.jar") if "baton" not in jar.name]
    arguments = (f"--build-arg=PYTHON={_BASE}", f"--file={image.dockerfile}", f"--tag={image.name}", str(image.context))
    _buildah("build", "--layers", "--pull-never", *volumes, *arguments)


def _buildah(*arguments: str) -> str:
    packages.require("buildah")
    storage = cache() / "images"
    places = (f"--root={storage / 'root'}", f"--runroot={storage / 'run'}")
    driver = ("--storage-driver=overlay", "--storage-opt=overlay.skip_mount_home=true")  # otherwise the folder stays mounted
    command = ["buildah", *places, *driver, *arguments]
    # RUN uses a chroot and the machine's network, because our own Dockerfiles need no isolation.
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(command)}` failed: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout.strip()
