"""A Debian 12 with make, git and Python, and a user who is not root: what README and CONTRIBUTING say to begin with."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import packages

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
MACHINE = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/resolv.conf", "/etc/hosts")
"""Files with this machine's settings to reach Debian and PyPI."""
VARIABLES = ("PIP_", "UV_", "SSL_", "http", "https", "no_proxy")
USER = 1000
RUN = """
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
exec chroot --userspec="$2:$2" "$1" sh -c 'cd /home/user/baton && exec make --silent $0' "$3"
"""


@pytest.fixture(scope="module")
def debian() -> Iterator[Path]:
    """Return the root folder, with a copy of this clone that belongs to the user."""
    with tempfile.TemporaryDirectory(prefix="baton-debian-", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        packages.make_debian(root, "make", "git", "python3", "python3-venv")
        for source in filter(Path.exists, map(Path, MACHINE)):
            (target := root / source.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        clone = root / "home" / "user" / "baton"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for file in filter(None, listed.stdout.split("\0")):  # what is not committed yet, too
            if (ROOT / file).is_file():
                (clone / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, clone / file)
        subprocess.run(["chown", "--recursive", f"{USER}:{USER}", clone.parent], check=True)
        yield root


@pytest.mark.parametrize("targets", ["try", "setup check"])
def test_a_user_needs_no_more_than_make_git_and_python(debian: Path, targets: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name.lower().startswith(tuple(map(str.lower, VARIABLES)))}
    environment |= {"HOME": "/home/user", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    apart: list[str | Path] = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "bash",
        "-euc",
        RUN,
        "bash",
        debian,
        str(USER),
    ]
    done = subprocess.run([*apart, targets], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
