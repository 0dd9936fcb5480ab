"""Starts members as processes, and ends them (member.py)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.processes import ChildProcess

_ROOT = Path(__file__).parents[3]


class Members:
    """A context manager; whoever still runs is killed at its end."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.processes: dict[str, int] = {}
        """Process ids, of those that have not been seen to end."""

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "tests.bench.handoff.member"]
            self._starter: subprocess.Popen[str] = ChildProcess(
                command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in list(self.processes):
            if not self.ended(name):
                self.tell(name, signal.SIGKILL)
        self._starter.kill()
        self._starter.wait()

    def start(self, name: str, order: dict[str, Any]) -> None:
        """Raises RuntimeError where no process can be started any more."""
        assert self._starter.stdin is not None and self._starter.stdout is not None
        print(json.dumps(order), file=self._starter.stdin, flush=True)
        if not (answer := self._starter.stdout.readline()):
            raise RuntimeError(f"no member can be started:\n{self._log.read_text()[-3000:]}")
        self.processes[name] = int(answer)

    def tell(self, name: str, number: signal.Signals) -> None:
        os.kill(self.processes[name], number)

    def ended(self, name: str) -> bool:
        try:
            os.kill(self.processes[name], 0)
        except ProcessLookupError:
            return True
        return False
