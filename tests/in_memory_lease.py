"""A place for one Lease without an API server."""

import copy
import json
import threading

from baton.model.lease import Manifest
from baton.model.names import RELEASES_ANNOTATION
from baton.model.ranges import parse_grants
from baton.model.session import Release, parse_releases
from tests.waiting import PATIENCE


class InMemoryLease:
    """A place for one Lease, with the API server's compare-and-swap; it can be away, and it can be slow."""

    def __init__(self) -> None:
        self.lease: Manifest | None = None
        self.away = False
        self.gate: threading.Event | None = None
        self.writes: list[Manifest] = []
        self.requests = 0
        self._version = 0

    def read(self) -> Manifest | None:
        self._request()
        return copy.deepcopy(self.lease)

    def write(self, lease: Manifest) -> Manifest | None:
        self._request()
        standing = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if lease["metadata"].get("resourceVersion") != standing:
            return None
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.lease = copy.deepcopy(lease)
        self.writes.append(self.lease)
        return copy.deepcopy(lease)

    def delete(self) -> None:
        self.lease = None

    def releases(self) -> frozenset[Release]:
        assert self.lease is not None
        return releases_in(self.lease["metadata"]["annotations"][RELEASES_ANNOTATION])

    def holder(self) -> str | None:
        return self.lease["spec"]["holderIdentity"] if self.lease else None

    def _request(self) -> None:
        self.requests += 1
        if self.away:
            raise ConnectionError("connection refused")
        if self.gate is not None:
            self.gate.wait(PATIENCE)


def releases_in(text: str) -> frozenset[Release]:
    """All that the annotation says, one by one."""
    return frozenset(
        Release(uid, queue, number, epoch)
        for uid, said in parse_releases(text).items()
        for queue, grants in json.loads(said.text).items()
        for number, epoch in parse_grants(grants).items()
    )
