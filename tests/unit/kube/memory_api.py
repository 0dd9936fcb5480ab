"""An in-memory API server and client for unit tests: objects by path, and answers that get lost."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.simulation.api_server import ApiServer, Fault, LoseAnswer, MemoryApi, Refuse
from tests.simulation.api_server.kinds import KINDS, NAMESPACES
from tests.simulation.api_server.manifests import Manifest, received
from tests.simulation.api_server.paths import Target, target

_AWAY = Refuse(503, "ServiceUnavailable", "away")


class ShopApi(MemoryApi):
    """A server with the empty namespaces `shop` and `baton`. Its controllers never act, so a test need not create the owner that
    an object names."""

    def __init__(self) -> None:
        super().__init__(ApiServer(Random(1), lambda: 0.0, later=lambda seconds, do: None), self._wrong)
        self.away = False
        self.read_only = False
        """Writes are not carried out."""
        self.mute = False
        """Writes are carried out, and their answers are lost."""
        for name in ("shop", "baton"):
            self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": name}})

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Store an object as another client would, without validation."""
        about = _target(path)
        made, _ = received(body)
        named = {"name": about.name, "namespace": about.namespace, "uid": "uid", **made.get("metadata", {})}
        self.server.store.put(about.kind, about.key, {**made, "metadata": Manifest(named)})

    def remove(self, path: str) -> Manifest:
        """Remove an object as another client would; returns it."""
        about = _target(path)
        return self.server.store.remove(about.kind, about.key)

    @property
    def objects(self) -> dict[str, Manifest]:
        """All objects by path."""
        return {
            f"{kind.root}/namespaces/{namespace}/{kind.plural}/{name}": found
            for kind in KINDS
            if kind is not NAMESPACES
            for namespace, name in self.server.store.keys(kind, None)
            if (found := self.server.store.get(kind, (namespace, name))) is not None
        }

    def _wrong(self, verb: str, path: str) -> Fault | None:
        writes = verb not in ("get", "list")
        if self.away or (self.read_only and writes):
            return _AWAY
        return LoseAnswer() if self.mute and writes else None


def _target(path: str) -> Target:
    about = target(path)
    assert about is not None
    return about
