"""The run from the first process to the verdict."""

import time
from contextlib import ExitStack

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.text import Text

from demo.audit import Verdict, audit
from demo.chart import chart
from demo.gauges import Gauges
from demo.picture import Picture
from demo.producer import Producer
from demo.records import Evidence
from demo.report import Totals, clean, line, table
from demo.stage import PARTITIONS, Stage
from demo.steps import BrokenPromise, Run, steps
from demo.story import clock_text
from demo.view import Colours, Flow, Screen, render

_STILL = 10.0
"""Seconds without a processed message after which waiting for the rest ends: far more than a batch takes."""


class Performance:
    """A run. `running` holds the fleet, which may be kept after the run; `watching` holds what only this process needs."""

    def __init__(self, console: Console, stage: Stage, running: ExitStack, watching: ExitStack) -> None:
        self._console, self._stage, self._story = console, stage, stage.story
        self._running, self._watching = running, watching
        self._colours = Colours()
        self._title = "starting"
        self._run: Run | None = None
        self.broke_off = ""
        """Why the story did not finish, or has no verdict."""
        self.line = ""
        """The verdict for programs, once there is one."""

    def tell(self) -> int:
        """Run the story, print the verdict even if it fails, and return the exit code."""
        code = 0
        try:
            self._play()
        except BrokenPromise as broken:
            code, self.broke_off = 1, f"a promise was broken: {broken}"
        except Exception as error:
            code, self.broke_off = 2, f"the story could not be told to its end: {type(error).__name__}: {error}"
        try:
            if self._run is not None and not self._judge(self._run):
                code = 1
        except Exception as error:
            code = code or 2
            self.broke_off = (
                f"{self.broke_off}; " * bool(self.broke_off) + f"there is no verdict: {type(error).__name__}: {error}"
            )
        self._watching.close()
        return code

    def _play(self) -> None:
        self._watching.enter_context(Screen(self._console, self._draw, self._story))
        run = self._run = self._prepare()
        plan = steps(self._stage)
        for number, (title, step) in enumerate(plan, 1):
            self._title = f"{number} of {len(plan)}: {title}"
            self._story.step(title)
            step(run)

    def _judge(self, run: Run) -> bool:
        """Whether the run was clean."""
        self._title = "the verdict"
        if self.broke_off:
            self._story.bad("the story breaks off; the producer stops, and what was processed is judged")
            run.producer.stop()
            self._let_rest_be_processed(run)
        self._story.wait_for("the auditor")
        verdict = audit(Evidence(run.producer.keys, run.gauges.results(), tuple(run.gauges.fences), tuple(run.attempts)))
        run.observer.timings.first_rows(run.gauges.first_rows())
        run.observer.timings.batches = run.gauges.batches()
        self._watching.close()
        return self._conclude(run, verdict)

    def _let_rest_be_processed(self, run: Run) -> None:
        """Wait until nothing more is processed, to distinguish lost messages from waiting ones."""
        self._story.wait_for("the rest to be processed")
        since, before = time.monotonic(), run.gauges.counts
        while time.monotonic() - since < _STILL:
            time.sleep(0.5)  # until the gauges have polled again
            if not run.gauges.lag:
                return
            if run.gauges.counts != before:
                since, before = time.monotonic(), run.gauges.counts
        self._story.bad(f"nothing was processed for {_STILL:.0f} s, and by the queue's counters {run.gauges.lag:,} are not done")

    def _prepare(self) -> Run:
        stage, story = self._stage, self._story
        story.step(stage.scene)
        stage.begin(self._running, self._watching)
        stage.observer.wait(
            f"{stage.first} {stage.member}s, all partitions owned", lambda picture: picture.settled(stage.first), 120
        )
        story.deed(f"the producer sends {stage.rate:,.0f} keyed, numbered messages per second")
        producer = self._watching.enter_context(Producer(stage.url, stage.queue, stage.rate, stage.process_group))
        gauges = Gauges(stage.url, stage.queue, PARTITIONS, lambda: producer.produced, lambda: story.elapsed)
        return Run(stage, self._watching.enter_context(gauges), producer)

    def _draw(self, rows: int) -> RenderableType:
        run = self._run
        picture, flow = (run.observer.picture, run.gauges.flow) if run else (Picture(), Flow())
        return render(self._title, picture, flow, self._story, self._colours, frozenset(run.stopped if run else ()), rows)

    def _conclude(self, run: Run, verdict: Verdict) -> bool:
        picture = run.observer.picture
        totals = Totals(
            rate=run.producer.rate,
            moves=picture.moves,
            lower_bound=picture.lower_bound,
            deadline_misses=picture.deadline_misses,
            stale_refused=run.gauges.flow.stale_refused,
            attempts=len(run.attempts),
            driver=picture.statistics,
            member=self._stage.member,
            missed_by_stopped=run.missed_by_stopped,
        )
        columns = max(40, min(self._console.width - 12, 120))
        drawn = chart(run.observer.moments, self._story.steps, run.gauges.history, PARTITIONS, self._colours, columns)
        self._console.print(Panel(drawn, title="who owned which partition, over time", title_align="left", border_style="dim"))
        good = clean(verdict, totals)
        outcome = (
            Text("clean" + ", but broken off" * bool(self.broke_off), "bold green") if good else Text("NOT clean", "bold red")
        )
        heading = Text.assemble("the verdict: ", outcome, f", after {clock_text(self._story.elapsed)}")
        self._console.print(Panel(table(verdict, run.observer.timings, totals), title=heading, title_align="left"))
        self.line = line(verdict, run.observer.timings, totals)
        return good
