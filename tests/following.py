"""`baton tail` in another process, which Ctrl-C ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.processes import ChildProcess
from tests.waiting import PATIENCE


@contextmanager
def tailing(*arguments: str) -> Iterator[IO[str]]:
    """What it prints, once it has begun. In the end it gets SIGINT, and has to end well."""
    command = [sys.executable, "-c", "from baton.cli.main import main; main()", "tail", *arguments]
    with ChildProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            said = process.stderr.readline()
            assert "; Ctrl-C ends" in said, said + process.stderr.read()
            yield process.stdout
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, "")
