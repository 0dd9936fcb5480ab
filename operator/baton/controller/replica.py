"""One replica of the operator between its ports: the API server, the clock and the queues come in as arguments.

`program` runs it in a process of its own against a real API server, and the simulation runs the same one in virtual time.
"""

from collections.abc import Sequence

from baton.controller.adapters import OpenQueue
from baton.controller.fleet import Fleet
from baton.controller.metrics import Metrics
from baton.controller.mirror import Mirror
from baton.controller.queue_board import QueueBoard
from baton.controller.relists import Relists
from baton.controller.services import Services
from baton.kube.api import Api
from baton.kube.bump import Bumper
from baton.kube.clock import Clock
from baton.kube.election import Terms
from baton.kube.elector import Elector
from baton.kube.events import Events
from baton.kube.scale import Scaler


class Replica:
    """What a replica consists of. Whoever runs it feeds `mirror` with watch events, and runs `elector`, `events` and `fleet`."""

    def __init__(
        self,
        api: Api,
        of_elector: Api,
        clock: Clock,
        open_queue: OpenQueue,
        *,
        identity: str,
        lease_namespace: str,
        lease_name: str,
        terms: Terms,
        namespaces: Sequence[str] = (),
        admission_policy: bool = False,
    ) -> None:
        """`of_elector`: connections of its own, for behind the requests of a thousand groups a renewal would come too late.
        `namespaces` empty: all of them. `admission_policy`: the chart's policies are installed."""
        self.clock = clock
        self.metrics = Metrics(clock)
        self.mirror = Mirror(clock)
        self.elector = Elector(of_elector, lease_namespace, lease_name, identity, terms, clock, lambda: self.fleet.notify())
        self.events = Events(api, identity, clock)
        self.services = Services(
            api=api,
            open_queue=open_queue,
            mirror=self.mirror,
            clock=clock,
            events=self.events,
            metrics=self.metrics,
            elector=self.elector,
            bumper=Bumper(api, clock),
            scaler=Scaler(api),
            board=QueueBoard(api, self.mirror, clock),
            relists=Relists(api, self.mirror, clock, namespaces),
            admission_policy=admission_policy,
        )
        self.fleet = Fleet(self.services)
