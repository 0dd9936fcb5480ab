"""`make demo`: the whole story on a real cluster, and the verdict. KEEP=1 leaves everything running.

Exit code: 0 for a clean run; 1 for a gap, an unmarked duplicate, a violation of order or an accepted stale access; 2 where the
story could not be told to its end.
"""

import os
import signal
import sys
from contextlib import ExitStack
from types import FrameType

from rich.console import Console

from demo.diagnosis import look
from demo.performance import Performance, around
from demo.story import Story


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    keep = os.environ.get("KEEP", "") not in ("", "0")
    with ExitStack() as running, ExitStack() as watching:
        performance = Performance(console, Story(plain=not console.is_terminal), running, watching)
        try:
            clean = performance.tell().clean
        except KeyboardInterrupt:
            console.print("interrupted: stopping everything", style="bold")
            return 130
        except Exception as error:
            watching.close()
            _explain(console, performance, error)
            clean = None
        if keep and performance.installation is not None:
            running.pop_all()
            performance.installation.cluster.keep()
            console.print(around(performance.installation, performance.url), highlight=False, markup=False, soft_wrap=True)
    if clean is None:
        return 2
    print(performance.line, flush=True)
    return 0 if clean else 1


def _explain(console: Console, performance: Performance, error: Exception) -> None:
    if performance.installation is not None:
        for text in look(performance.installation.cluster.kubectl):
            console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print(f"the story could not be told to its end: {type(error).__name__}: {error}", style="bold red", markup=False)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
