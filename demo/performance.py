"""The run from the first process to the verdict, and how to look around where it is kept."""

from contextlib import ExitStack

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.text import Text

from cluster import Cluster
from cluster.programs import HELM, KUBE
from demo.audit import Verdict, audit
from demo.chart import chart
from demo.gauges import Gauges
from demo.installation import Installation
from demo.manifests import GROUP, NAMESPACE, PARTITIONS, QUEUE
from demo.observer import Observer
from demo.picture import Picture
from demo.producer import RATE, Producer
from demo.records import Evidence
from demo.report import Totals, line, table
from demo.server import QueueServer
from demo.steps import Run, steps
from demo.story import Story, clock_text
from demo.view import Colours, Flow, Screen, render

EXECUTORS = 2


class Performance:
    """One run. `running` holds the installation, which may be kept after the run; `watching` what only this process needs."""

    def __init__(self, console: Console, story: Story, running: ExitStack, watching: ExitStack) -> None:
        self._console, self._story = console, story
        self._running, self._watching = running, watching
        self._colours = Colours()
        self._title = "starting"
        self._run: Run | None = None
        self.installation: Installation | None = None
        self.url = ""
        self.line = ""
        """The verdict for machines, once there is one."""

    def tell(self) -> Verdict:
        """The whole story. Raises what went wrong; then `installation` still says what there is to look at."""
        self._watching.enter_context(Screen(self._console, self._draw, self._story))
        run = self._run = self._prepare()
        plan = steps()
        for number, (title, step) in enumerate(plan, 1):
            self._title = f"{number} of {len(plan)}: {title}"
            self._story.step(title)
            step(run)
        self._title = "the verdict"
        self._story.wait_for("the auditor")
        verdict = audit(Evidence(run.producer.keys, run.gauges.results(), tuple(run.gauges.fences), tuple(run.attempts)))
        run.observer.timings.first_rows(run.gauges.first_rows())
        self._watching.close()
        self._conclude(run, verdict)
        return verdict

    def _prepare(self) -> Run:
        story = self._story
        story.step("a cluster, Redis, the operator and a Spark application")
        story.wait_for("the cluster")
        cluster = self._running.enter_context(Cluster(node=True))
        story.good(f"Kubernetes is ready: export KUBECONFIG={cluster.kubeconfig}")
        self.installation = installation = Installation(cluster, story)
        self.url = url = self._running.enter_context(QueueServer(cluster.address, cluster.folder)).url
        story.good(f"redis-server: {url}")
        story.wait_for("the operator")
        installation.install_operator()
        installation.create_group(url, EXECUTORS)
        observer = self._watching.enter_context(Observer(cluster.kubeconfig, NAMESPACE, GROUP, QUEUE, story))
        installation.start_spark(EXECUTORS)
        observer.wait("two executors, all partitions owned", lambda picture: picture.settled(EXECUTORS), 120)
        queue = f"{NAMESPACE}/{QUEUE}"
        story.deed(f"the producer sends {RATE:,.0f} keyed, numbered messages per second")
        producer = self._watching.enter_context(Producer(url, queue, RATE))
        gauges = self._watching.enter_context(Gauges(url, queue, PARTITIONS, lambda: producer.produced, lambda: story.elapsed))
        return Run(story, observer, gauges, producer, cluster, url)

    def _draw(self, rows: int) -> RenderableType:
        run = self._run
        picture, flow = (run.observer.picture, run.gauges.flow) if run else (Picture(), Flow())
        return render(self._title, picture, flow, self._story, self._colours, frozenset(run.stopped if run else ()), rows)

    def _conclude(self, run: Run, verdict: Verdict) -> None:
        picture = run.observer.picture
        totals = Totals(
            rate=run.producer.rate,
            moves=picture.moves,
            lower_bound=picture.lower_bound,
            deadline_misses=picture.deadline_misses,
            stale_refused=run.gauges.flow.stale_refused,
            attempts=len(run.attempts),
            driver=picture.statistics,
        )
        columns = max(40, min(self._console.width - 12, 120))
        drawn = chart(run.observer.moments, self._story.steps, run.gauges.history, PARTITIONS, self._colours, columns)
        self._console.print(Panel(drawn, title="who owned which partition, over time", title_align="left", border_style="dim"))
        outcome = Text("clean", "bold green") if verdict.clean else Text("NOT clean", "bold red")
        heading = Text.assemble("the verdict: ", outcome, f", after {clock_text(self._story.elapsed)}")
        self._console.print(Panel(table(verdict, run.observer.timings, totals), title=heading, title_align="left"))
        self.line = line(verdict, run.observer.timings, totals)


def around(installation: Installation, url: str) -> str:
    """How to look around in an installation that was kept, and how to stop it."""
    return f"""\
Everything is still running. To look around:
  export KUBECONFIG={installation.cluster.kubeconfig}
  alias kubectl='{KUBE.path()} kubectl'
  alias helm='{HELM.path()}'
  kubectl --namespace {NAMESPACE} get cg,pq,pods
  kubectl --namespace {NAMESPACE} get configmap {GROUP}-assignments -o yaml     # the ledger
  kubectl --namespace {NAMESPACE} describe cg {GROUP}                           # events
  kubectl --namespace {NAMESPACE} scale cg/{GROUP} --replicas=3
  kubectl --namespace {NAMESPACE} logs driver --follow
  kubectl --namespace baton-system logs deployment/baton --all-pods
  .venv/bin/baton status {GROUP} --namespace {NAMESPACE}
  .venv/bin/python -m demo.producer {url} {NAMESPACE}/{QUEUE} 500   # messages, until Ctrl-C
  ls {installation.folder}                                      # what was applied
To stop everything:
  make cluster-down
"""
