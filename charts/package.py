"""Packages the chart into dist/, as `helm push` takes it to a registry; a part of `make release-check`."""

import subprocess
import sys
from pathlib import Path

from charts.render import CHART, ROOT


def package(helm: Path, folder: Path) -> Path:
    """The archive. Raises CalledProcessError where `helm lint` finds something."""
    chart = str(CHART)
    for command in (["lint", "--strict", "--quiet", chart], ["package", chart, "--destination", str(folder)]):
        subprocess.run([helm, *command], check=True, stdout=sys.stderr)
    [archive] = folder.glob("baton-*.tgz")
    return archive


def main() -> None:
    from cluster import helm_binary

    print(package(helm_binary(), ROOT / "dist").relative_to(ROOT))


if __name__ == "__main__":
    main()
