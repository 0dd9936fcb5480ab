"""Storage: folders of the machine as PersistentVolumes, which are there before anybody claims them. Nothing makes more."""

from pathlib import Path
from typing import Any

COUNT = 8
"""A claim takes one for good: who deletes it and makes it again has the next."""


def volume(number: int, folder: Path) -> dict[str, Any]:
    """For any claim that names no class. The folder must be there, and be writable for the pods' users: no fsGroup is applied
    to a hostPath."""
    spec = {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder), "type": "Directory"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{number}"}, "spec": spec}
