"""What a group has to do, as JSON at `/groups/NAMESPACE/NAME/lag`: for an autoscaler where there is no Prometheus.
For `baton lag` and `baton top`, `/groups/NAMESPACE/NAME/lag/partitions` has the same of each partition, and `/groups/lag` of all
groups: null where it is not known.

Only the leader knows. Another replica sends who asks to the leader's address, which stands on its Lease."""

import json
import re
from collections.abc import Callable
from http import HTTPStatus

from baton.controller.backlog import Work
from baton.controller.health import WebPage
from baton.controller.metrics import Metrics

_PATH = re.compile(r"/groups/([a-z0-9.-]{1,253})/([a-z0-9.-]{1,253})/lag(/partitions)?")
_ALL = "/groups/lag"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[a-zA-Z0-9.-]{1,253}):[0-9]{1,5}")
_JSON = "application/json"


class LagPage:
    """Answers on any thread."""

    def __init__(self, metrics: Metrics, leads: Callable[[], bool], leader: Callable[[], str]) -> None:
        """`leader`: HOST:PORT of the replica that leads; empty: not known."""
        self._metrics, self._leads, self._leader = metrics, leads, leader

    def __call__(self, path: str) -> WebPage | None:
        """None: this is another page."""
        found = _PATH.fullmatch(path)
        if found is None and path != _ALL:
            return None
        if not self._leads():
            leader = self._leader()
            if not _ADDRESS.fullmatch(leader):
                return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "this replica does not lead, and does not know who does")
            there = f"http://{leader}{path}"
            return WebPage(HTTPStatus.TEMPORARY_REDIRECT, f"{there}\n".encode(), location=there)
        if found is None:
            told = [_told(*key, work) for key, work in self._metrics.works().items()]
            return WebPage(HTTPStatus.OK, f"{json.dumps({'groups': told})}\n".encode(), _JSON)
        return self._of_group(*found.groups())

    def _of_group(self, namespace: str, name: str, each: str | None) -> WebPage:
        try:
            work = self._metrics.work((namespace, name))
        except KeyError:
            return _refused(HTTPStatus.NOT_FOUND, f"there is no ConsumerGroup {namespace}/{name} that this operator serves")
        if each:
            looks = sorted(self._metrics.looks((namespace, name)).items())
            lags = {queue: None if look is None else dict(look.lag) for queue, look in looks}
            unfinished = {queue: dict(look.unfinished) for queue, look in looks if look is not None and look.unfinished}
            told = _told(namespace, name, work) | {"queues": lags, "unfinished": unfinished}
            return WebPage(HTTPStatus.OK, f"{json.dumps(told)}\n".encode(), _JSON)
        if work is None:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the lag of {namespace}/{name} is not known: look at its queues")
        return WebPage(HTTPStatus.OK, f"{json.dumps(_told(namespace, name, work))}\n".encode(), _JSON)


def _told(namespace: str, name: str, work: Work | None) -> dict[str, object]:
    lag, seconds, waiting, partitions = work or (None, None, None, None)
    told = {"namespace": namespace, "group": name, "lag": lag, "lagSeconds": seconds}
    return {**told, "waitingSeconds": waiting, "partitionsWithLag": partitions}


def _refused(status: HTTPStatus, why: str) -> WebPage:
    return WebPage(status, f"{json.dumps({'error': why})}\n".encode(), _JSON)
