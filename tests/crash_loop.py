"""A pod's container that starts again and again: its program ends its process at one entry."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.processes import ChildProcess
from tests.waiting import PATIENCE

PROGRAM = """
import os, time
from baton.consumer import Batch, Consumer

def handle(work):
    for entry in work if isinstance(work, Batch) else [work]:
        if entry.value == b"poison":
            os._exit(7)
        time.sleep(0.005)
        os.write(1, b"done %d %s\\n" % (entry.partition, entry.value))

Consumer.from_environment().run(handle, **OPTIONS)
"""

RETRIES = """
import os, threading
from baton.consumer import Backoff, Consumer

def handle(entry):
    os.write(1, b"attempt %d %s\\n" % (entry.attempt, entry.value))
    if entry.value != b"bad" or entry.attempt == 2:
        os._exit(7)
    if entry.attempt == 1:
        threading.Timer(2.0, os._exit, (7,)).start()
    raise ValueError("no")

Consumer.from_environment().run(handle, retry=Backoff(first=0.1, factor=100, attempts=4), **OPTIONS)
"""
"""A process that ends in the wait after the second attempt, one in the third, and one at what is behind."""


class CrashLoop:
    """Each start is a new process; what all of them said is in `log`."""

    def __init__(
        self, directory: Path, runner: Path, arguments: tuple[str, ...], program: str = PROGRAM, **options: object
    ) -> None:
        """`runner`: a guide_program.py, and its arguments. `options`: of the handler."""
        self._log = directory / "log"
        self._command = (sys.executable, str(runner), *arguments)
        self._program = program.replace("**OPTIONS", f"**{options!r}")
        self._directory = directory

    def run(self) -> None:
        """Once, until the poison ends it."""
        with self._log.open("a") as log:
            process = ChildProcess(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._directory, env={"PYTHONPATH": str(ROOT)}
            )
        assert process.stdin is not None
        process.stdin.write(self._program.encode())
        process.stdin.close()
        try:
            assert process.wait(PATIENCE) == 7, self.log
        finally:
            process.kill()
            process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def done(self, partition: int) -> list[str]:
        """Values, in the order in which they were handled first."""
        return list(dict.fromkeys(self.counts(partition)))

    def counts(self, partition: int) -> Counter[str]:
        """How often each was handled."""
        return Counter(re.findall(rf"^done {partition} (.*)$", self.log, re.MULTILINE))

    def attempts(self, value: str) -> list[int]:
        """At this entry, by their numbers."""
        return [int(number) for number in re.findall(rf"^attempt (\d+) {value}$", self.log, re.MULTILINE)]

    def told(self) -> list[tuple[str, int]]:
        """Which entries the log names, and how often it says that they were handed out."""
        found = re.findall(r"([^\s:]+/\d+) entry (\S+) .* was handed out (\d+) times and never acknowledged", self.log)
        return [(f"{place} {offset}", int(times)) for place, offset, times in found]


ROOT = Path(__file__).parents[1]
