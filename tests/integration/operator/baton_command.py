"""The command `baton` in this process: a new process takes most of a second of a processor."""

import asyncio
import re
import subprocess
import threading
from pathlib import Path

from click.testing import CliRunner

from baton.cli.main import main

_WAITING = re.compile("Waiting for .* …\n")

_ONE = threading.Lock()
"""Each has the standard output for itself."""


async def baton(*arguments: str | Path, answer: str = "") -> "subprocess.CompletedProcess[str]":
    """What it prints, and how it ends; without the line that says for which slow server it waits."""
    words = [str(one) for one in arguments]

    def run() -> "subprocess.CompletedProcess[str]":
        with _ONE:
            done = CliRunner().invoke(main, words, input=answer, catch_exceptions=False, prog_name="baton")
        said = [line for line in done.stderr.splitlines(keepends=True) if not _WAITING.fullmatch(line)]
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, "".join(said))

    return await asyncio.to_thread(run)
