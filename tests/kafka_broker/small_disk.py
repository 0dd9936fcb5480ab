"""A disk for a broker that can be full. Needs root."""

import os
import shutil
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.kafka_broker import KafkaBroker

_SIZE = "64m"
_AT_ONCE = (1 << 16, 1)
"""Bytes, of which there is less and less room."""


class SmallDisk:
    """A context manager, around a broker's: its data is on a disk of its own."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._data = broker.data
        self._ballast = self._data / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in _AT_ONCE:
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        before = self._data.rename(self._data.with_suffix(".before"))
        self._data.mkdir()
        source = f"baton-small-disk-{os.environ.get('BATON_TEST_RUN', '')}"  # so that the run notices a mount that is left behind
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", source, str(self._data)], check=True)
        shutil.copytree(before, self._data, dirs_exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        subprocess.run(["umount", "--lazy", str(self._data)], check=True)
        shutil.rmtree(self._data.parent, ignore_errors=True)
