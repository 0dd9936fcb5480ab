"""`make demo` (python -m demo): the whole story on a real cluster, and the verdict. KEEP=1 leaves everything running.
`make try` (python -m demo laptop): the same on processes of this machine.

Exit code: 0: clean. 1: a broken promise (a gap, an unmarked duplicate, a violation of order, an accepted stale call, an
unnecessary move), even if the story broke off. 2: it broke off without one, or something else failed.
"""

import os
import signal
import sys
from contextlib import ExitStack
from types import FrameType


def main(arguments: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _perform(laptop=arguments == ["laptop"])
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # 1 is for a broken promise
        print(f"the demo failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 2


def _perform(*, laptop: bool) -> int:
    from rich.console import Console

    from demo.performance import Performance
    from demo.stage import Stage, Unavailable
    from demo.story import Story

    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    story = Story(plain=not console.is_terminal)
    if laptop:  # each stage needs modules that the other may lack
        from demo.on_laptop import OnLaptop, embedded_server

        try:
            stage: Stage = OnLaptop(story, embedded_server())
        except Unavailable as lack:
            say(str(lack))
            return 2
    else:
        from demo.on_cluster import OnCluster

        stage = OnCluster(story)
    running, watching = ExitStack(), ExitStack()
    performance = Performance(console, stage, running, watching)
    try:
        with running, watching:
            try:
                code = performance.tell()
            except KeyboardInterrupt:
                say("interrupted: stopping everything", "bold")
                return 130
            if performance.broke_off:
                if code == 2:
                    for text in stage.look():
                        say(text)
                say(performance.broke_off, "bold red")
            if os.environ.get("KEEP", "") not in ("", "0") and (around := stage.keep()):
                running.pop_all()
                say(around)
    finally:
        if performance.line:
            print(performance.line, flush=True)
    return code


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
