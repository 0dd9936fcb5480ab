"""What a kubeconfig says of a connection, without leaving its certificates and its private key in files.

The client's library writes what stands in the kubeconfig itself to files, because Python's `ssl` reads nothing else, and deletes
them when the process ends: a process that is killed would leave them. Here they are in memory, where Linux lets a path name it.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubernetes.aio import client
from kubernetes.aio.config import kube_config

_FILES = ("ssl_ca_cert", "cert_file", "key_file")
"""Fields of a configuration with paths."""


@asynccontextmanager
async def loaded(file: str, context: str | None, settings: client.Configuration) -> AsyncIterator[None]:
    """Fill in the settings by this kubeconfig and context. Paths in them hold within. Raises ConfigException, which says what is
    missing."""
    load: Any = kube_config.load_kube_config  # not typed by the library
    with ExitStack() as until_then:
        with ExitStack() as at_once:
            of_folder = at_once if sys.platform == "linux" else until_then
            folder = of_folder.enter_context(TemporaryDirectory(prefix="baton-"))
            at_once.callback(_forget, folder)
            await load(config_file=file, context=context, client_configuration=settings, temp_file_path=folder)
            for name in _FILES:
                path = getattr(settings, name)
                if sys.platform == "linux" and path in _written().values():
                    setattr(settings, name, _in_memory(Path(path), until_then))
        yield


def _in_memory(file: Path, until_then: ExitStack) -> str:
    """The path of its copy, which is there until then."""
    assert sys.platform == "linux"
    copy = os.memfd_create("kubeconfig")
    until_then.callback(os.close, copy)
    with os.fdopen(copy, "wb", closefd=False) as written:
        written.write(file.read_bytes())
    return f"/proc/self/fd/{copy}"


def _written() -> dict[str, str]:
    """The path by the content of what the library has written. It writes no content twice, whoever in the process asks for it."""
    known: dict[str, str] = getattr(kube_config, "_temp_files", {})
    return known


def _forget(folder: str) -> None:
    """What the library wrote there. Files that it wrote for others are theirs."""
    for content, path in list(_written().items()):
        if Path(path).is_relative_to(folder):
            del _written()[content]
