"""Stands by while a cluster runs, and removes it when its owner ends without doing so: killed, or crashed.

Run as `python -m cluster.guard FOLDER PID START`.
"""

import os
import select
import sys
from pathlib import Path

from cluster import runs
from cluster.processes import Process
from cluster.sweep import sweep


def watch(folder: Path, owner: Process) -> None:
    """Waits for the owner's end, however long that takes."""
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        descriptor = None
    if descriptor is not None and owner.alive():
        select.select([descriptor], [], [])
    with runs.exclusive():
        # Unless it was handed over to be kept, or somebody else was quicker and already has a cluster here.
        if folder.exists() and runs.is_abandoned(folder):
            sweep(folder, node=folder.name == runs.NODE)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Process(int(sys.argv[2]), int(sys.argv[3])))
