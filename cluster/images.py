"""Images without a registry: archives in the form of `docker save`, written here and imported into containerd.

They are nearly empty: /usr, Python, the virtual environment and the checkout of this machine are mounted into the pods
(`host_volumes`), which is fast and always up to date.
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.faults import ClusterError
from cluster.programs import cache

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
_USER = 65532

_SPARK_USER = 185
"""As in Spark's own image."""

_WRITABLE = {"tmp", "opt/spark/work-dir"}
"""Folders that every user may write to."""

_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = ("dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var", "var/run")
_FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nbaton:x:{_USER}:{_USER}:baton:/tmp:/bin/sh\n",
    "etc/group": f"root:x:0:\nbaton:x:{_USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def pause(name: str, program: Path) -> Path:
    """The sandbox image: one static program that reaps and sleeps."""
    return archive(name, {}, programs={"kube": program}, entrypoint=["/kube", "pause"], links={}, folders=())


def operator(name: str) -> Path:
    """The operator's image; its arguments are those of `baton`."""
    return archive(name, {}, entrypoint=[str(VENV / "bin" / "baton")], environment=_python())


def consumer(name: str) -> Path:
    """An image of plain Python; its arguments are those of `python`."""
    return archive(name, {}, entrypoint=[str(VENV / "bin" / "python")], environment=_python())


def spark(name: str, entrypoint: Path) -> Path:
    """The image of Spark's driver (`command: [python, app.py]`), executors and spark-submit, with the user of Spark's own image.
    `entrypoint`: the script that distinguishes them."""
    home = {f"opt/spark/{part}": str(_pyspark() / part) for part in ("bin", "jars", "python", "sbin")}
    files = {
        "opt/entrypoint.sh": entrypoint.read_text(),
        "etc/passwd": f"{_FILES['etc/passwd']}spark:x:{_SPARK_USER}:0:spark:/tmp:/bin/sh\n",
    }
    return archive(
        name,
        files,
        entrypoint=["/bin/bash", "/opt/entrypoint.sh"],
        environment=_python() | _spark(),
        links={**_LINKS, **home},
        folders=(*_FOLDERS, "opt/spark", "opt/spark/work-dir"),
        user=_SPARK_USER,
        work_in="/opt/spark/work-dir",
    )


def archive(
    name: str,
    files: Mapping[str, str],
    *,
    entrypoint: Sequence[str],
    environment: Mapping[str, str] | None = None,
    programs: Mapping[str, Path] | None = None,
    links: Mapping[str, str] = _LINKS,
    folders: Sequence[str] = _FOLDERS,
    user: int = 0,
    work_in: str = "/",
) -> Path:
    """Write an image of these files (path -> text) and programs (path -> file). Returns its archive, which the caller deletes."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in folders:
            tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o1777 if folder in _WRITABLE else 0o755))
        for link, target in links.items():
            entry = _entry(link, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            tar.addfile(entry)
        texts = ({**_FILES, **files}) if folders else files
        for path, text in texts.items():
            _add(tar, path, text.encode(), 0o755 if path.endswith(".sh") else 0o644)
        for path, program in (programs or {}).items():
            _add(tar, path, program.read_bytes(), 0o755)
    return _save(name, layer.getvalue(), list(entrypoint), environment or {}, user, work_in)


def host_volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and volumeMounts for pods of these images: folders of this machine, read-only, at the same paths. Raises
    ClusterError if other users may not read one."""
    places = {"usr": Path("/usr"), "python": Path(sys.base_prefix), "venv": VENV, "checkout": ROOT / "operator"}
    if places["python"].is_relative_to("/usr"):
        del places["python"]
    for name, path in (("java", _java_settings()), ("certificates", Path("/etc/ssl/certs")), ("cache", cache())):
        if path is not None and path.is_dir():
            places |= {name: path}
    for path in places.values():
        if path.stat().st_mode & 0o005 != 0o005:
            raise ClusterError(f"pods run as other users and cannot read {path}: chmod o+rx {path}")
    volumes = [{"name": name, "hostPath": {"path": str(path), "type": "Directory"}} for name, path in places.items()]
    mounts = [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in places.items()]
    return volumes, mounts


def _python() -> dict[str, str]:
    path = f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
    return {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "HOME": "/tmp", "LANG": "C.UTF-8"}


def _pyspark() -> Path:
    return VENV / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/pyspark"


def _spark() -> dict[str, str]:
    return {
        "JAVA_HOME": str(_java_home()),
        "SPARK_HOME": "/opt/spark",
        "BATON_CACHE": str(cache()),
        "PYSPARK_PYTHON": str(VENV / "bin" / "python"),
        "PYSPARK_DRIVER_PYTHON": str(VENV / "bin" / "python"),
    }


def _java_home() -> Path:
    """The real folder: /usr/bin/java is a link into /etc/alternatives, which pods do not have."""
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else Path("/usr/lib/jvm/default-java")


def _java_settings() -> Path | None:
    """Debian keeps a JDK's settings under /etc and links to them."""
    real = (_java_home() / "conf" / "security" / "java.security").resolve()
    return real.parent.parent if real.exists() and real.is_relative_to("/etc") else None


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = kind, mode
    return entry


def _add(tar: tarfile.TarFile, path: str, content: bytes, mode: int) -> None:
    entry = _entry(path, tarfile.REGTYPE, mode)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _save(name: str, layer: bytes, entrypoint: list[str], environment: Mapping[str, str], user: int, work_in: str) -> Path:
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": str(user),
            "Entrypoint": entrypoint,
            "Env": [f"{key}={value}" for key, value in environment.items()],
            "WorkingDir": work_in,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    handle, path = tempfile.mkstemp(prefix="baton-image-", suffix=".tar")
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        for entry, content in (("manifest.json", manifest), (config_name, text), ("layer.tar", layer)):
            _add(tar, entry, content, 0o644)
    return Path(path)
