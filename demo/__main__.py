"""`make demo` (python -m demo): the whole story on a real cluster, and the verdict. KEEP=1 leaves everything running.
`make try` (python -m demo laptop): the same on processes of this machine.

Exit code: 0 for a clean run; 1 for a gap, an unmarked duplicate, a violation of order or an accepted stale access; 2 where the
story could not be told to its end.
"""

import os
import signal
import sys
from contextlib import ExitStack
from types import FrameType

from rich.console import Console

from demo.performance import Performance
from demo.stage import Stage, Unavailable
from demo.steps import BrokenPromise
from demo.story import Story


def main(arguments: list[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    keep = os.environ.get("KEEP", "") not in ("", "0")
    with ExitStack() as running, ExitStack() as watching:
        stage = _stage(arguments, Story(plain=not console.is_terminal))
        performance = Performance(console, stage, running, watching)
        try:
            clean = performance.tell().clean
        except KeyboardInterrupt:
            console.print("interrupted: stopping everything", style="bold")
            return 130
        except Unavailable as lack:
            watching.close()
            console.print(str(lack), highlight=False, markup=False, soft_wrap=True)
            return 2
        except BrokenPromise as broken:
            console.print(f"a promise was broken: {broken}", style="bold red", markup=False)
            clean = False
        except Exception as error:
            watching.close()
            for text in stage.look():
                console.print(text, highlight=False, markup=False, soft_wrap=True)
            words = f"the story could not be told to its end: {type(error).__name__}: {error}"
            console.print(words, style="bold red", markup=False)
            clean = None
        if keep and (around := stage.keep()):
            running.pop_all()
            console.print(around, highlight=False, markup=False, soft_wrap=True)
    if clean is None:
        return 2
    if performance.line:
        print(performance.line, flush=True)
    return 0 if clean else 1


def _stage(arguments: list[str], story: Story) -> Stage:
    """Only the one that is asked for is imported: the other needs what may not be installed."""
    if arguments == ["laptop"]:
        from demo.on_laptop import OnLaptop, embedded_server

        return OnLaptop(story, embedded_server())
    from demo.on_cluster import OnCluster

    return OnCluster(story)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
