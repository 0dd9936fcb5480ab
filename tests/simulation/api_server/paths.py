"""Which object or collection a path of the API means."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from tests.simulation.api_server.kinds import GROUPS, KINDS, Kind
from tests.simulation.api_server.refusals import no_such_path, no_such_resource

_KINDS = {(kind.root, kind.plural): kind for kind in KINDS}
_ROOTS = {kind.root for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about."""

    kind: Kind
    namespace: str | None
    """None: all of them, or an object that is in none."""
    name: str
    """Empty: the collection."""
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace or "", self.name)


@lru_cache(maxsize=10_000)
def target(path: str) -> Target | None:
    """None: the path is a group's and version's root. Raises Refused (404) where nothing is."""
    words = path.strip("/").split("/")
    take = 2 if words[0] == "api" else 3
    root, rest = "/" + "/".join(words[:take]), [unquote(word) for word in words[take:]]
    if root not in _ROOTS:
        raise no_such_path()
    if not rest:
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = _KINDS.get((root, rest[0]))
    if kind is None and root == GROUPS.root:
        raise no_such_path()
    if kind is None or len(rest) > 3 or (len(rest) == 3 and rest[2] not in kind.subresources):
        raise no_such_resource()
    if len(rest) > 1 and kind.namespaced and namespace is None:
        raise no_such_resource()
    return Target(kind, namespace, *(rest[1:] or [""]))
