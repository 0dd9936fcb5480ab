"""The images that the Dockerfiles make: they run as an ordinary user, have labels, and list what is in them."""

import fcntl
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import baton
from cluster import ClusterError, built_images
from cluster.built_images import CONSUMER, OPERATOR, SPARK, Image
from cluster.programs import cache
from tests.processes import ChildProcess
from tests.waiting import PATIENCE


@pytest.mark.parametrize(("image", "part"), [(OPERATOR, "operator"), (SPARK, "consumer")], ids=["operator", "spark"])
def test_an_image_is_an_ordinary_users_labelled_and_says_what_it_is_made_of(image: Image, part: str) -> None:
    built_images.build(image)
    made = built_images.configuration(image)
    assert int(made["User"]) > 0
    labels = {name.rpartition(".")[2]: value for name, value in made["Labels"].items() if "opencontainers" in name}
    assert (labels["version"], labels["licenses"]) == (baton.__version__, "Apache-2.0")
    with built_images.contents(image) as root:
        listed = json.loads((root / "opt" / "baton" / "sbom.cdx.json").read_text())["components"]
        assert not (root / "opt" / "sbom").exists() and not (root / "src").exists(), "what only the build needs"
    packages = {(canonicalize_name(one["name"]), one["version"]) for one in listed}
    assert (f"baton-{part}", baton.__version__) in packages
    locked = image.dockerfile.with_name("requirements.lock").read_text()
    pinned = {(canonicalize_name(name), version) for name, version in re.findall(r"^([\w.-]+)==([\w.+-]+)", locked, re.MULTILINE)}
    assert pinned
    assert pinned - packages == set()


def test_a_sigterm_in_a_programs_first_moments_ends_its_container() -> None:
    """The program has no handler yet. It would never end if it were process 1."""
    built_images.build(CONSUMER)
    made = built_images.configuration(CONSUMER)
    program = ["-c", "import time; print('up', flush=True); time.sleep(3600)"]
    with built_images.contents(CONSUMER) as root:
        command = ["unshare", "--pid", "--fork", "--kill-child", "chroot", str(root), *made["Entrypoint"], *program]
        environment = dict(one.split("=", 1) for one in made["Env"])
        process = ChildProcess(command, env=environment, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(pid), signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()
            process.wait()


def test_an_image_that_fails_keeps_no_other_from_being_built_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second stage fails when the first is done, so that both of their containers are mounted."""
    files = {"fails": "COPY --from=first /made /made\nRUN false", "works": "COPY --from=first /made /made"}
    images = []
    for name, lines in files.items():
        text = f"ARG PYTHON\nFROM ${{PYTHON}} AS first\nRUN touch /made\nFROM ${{PYTHON}}\n{lines}\n"
        (tmp_path / name).write_text(text)
        images.append(Image(f"docker.io/library/{name}:1", tmp_path / name, tmp_path))
    with pytest.raises(ClusterError, match=r"^failed: fails:1;"):
        built_images.each(images)
    assert 'building at STEP "RUN false"' in capsys.readouterr().err
    with (cache() / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # no other test builds meanwhile
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{cache()}/" in line]
        assert mounts == []
        assert list((cache() / "images" / "root" / "overlay-containers").glob("*/")) == []
    with built_images.contents(images[1]) as root:
        assert (root / "made").exists()
