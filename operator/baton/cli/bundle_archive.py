"""The file of a bundle: each text goes into it as soon as it was read, so that none is held."""

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def archive(file: Path) -> Iterator[Callable[[str, str], None]]:
    """Takes texts by their path in the archive. It is for its owner alone, and goes where the block does not come to its end.
    Raises OSError; FileExistsError where there is one already."""
    folder = file.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    if folder == file.name:
        folder += "-files"  # to be unpacked beside the archive
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        try:
            with tarfile.open(None, "w:gz", opened) as packed:

                def write(path: str, text: str) -> None:
                    content = text.encode(errors="replace")
                    entry = tarfile.TarInfo(f"{folder}/{path}")
                    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                    packed.addfile(entry, io.BytesIO(content))

                yield write
        except BaseException:
            file.unlink(missing_ok=True)
            raise
