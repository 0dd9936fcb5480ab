"""The node's own world of processes and mounts, so that the kernel itself clears up after it.

containerd, the kubelet, shims and containers live in one PID namespace and one mount namespace. When its first process is killed
the kernel kills all others, and with the last of them every mount is gone: nothing can be left, whatever state the node was in.
The network is the machine's.
"""

from pathlib import Path

from cluster.faults import ClusterError
from cluster.processes import Process, Registry, children
from cluster.programs import kube
from cluster.waiting import PATIENCE, wait_until

_PRIVATE = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")
"""Folders that the programs write to whatever one tells them: the node has its own, in memory."""

_ENTER = """
set -e
mount --make-rshared /   # as the kubelet's mount propagation needs it: of this namespace only
for folder in "$@"; do mount -t tmpfs -o mode=755 baton-node "$folder"; done
# Whatever an image is called, nothing here can look up a registry.
mount --bind /dev/null /etc/resolv.conf || true
touch entered
"""

_NAME = "namespace"


class Namespace:
    """Starts programs inside. They see the machine's files, and each other."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder = folder
        self._registry = registry
        self._first: Process | None = None

    def make(self) -> None:
        """Raises ClusterError where the kernel refuses."""
        made = make_folders(_PRIVATE)
        (self._folder / "made").write_text("".join(f"{path}\n" for path in made))
        script = f"{_ENTER}\nexec {' '.join(kube('pause'))}"
        options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        outer = self._registry.start(_NAME, ["unshare", *options, "sh", "-c", script, "sh", *_PRIVATE])

        def entered() -> bool:
            self._registry.must_run(_NAME)
            return (self._folder / "entered").exists()

        if not wait_until(entered, PATIENCE, every=0.01):
            raise ClusterError(f"the node's namespaces were not made; see {self._folder}/log/{_NAME}")
        self._first = children(outer.pid)[0]

    def start(self, name: str, command: list[str]) -> None:
        """Start a program inside. Its paths must be absolute: its working directory is the root."""
        if self._first is None:
            raise ClusterError("the node's namespaces have not been made")
        self._registry.start(name, ["nsenter", f"--target={self._first.pid}", "--mount", "--pid", *command])


def make_folders(paths: tuple[str, ...]) -> list[Path]:
    """Make these folders; gives those that were not there, parents first."""
    made = []
    for path in map(Path, paths):
        missing = [folder for folder in (*reversed(path.parents), path) if not folder.exists()]
        for folder in missing:
            folder.mkdir()
        made += missing
    return made


def remove_folders(folder: Path) -> None:
    """Remove from the machine what `make` added to it; a folder that is used by others meanwhile stays."""
    try:
        made = [Path(line) for line in (folder / "made").read_text().splitlines()]
    except OSError:
        return
    for path in reversed(made):
        try:
            path.rmdir()
        except OSError:
            continue
