"""Lists that are read in parts: each part shows the objects as they were when the first was read."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.simulation.api_server.manifests import Manifest
from tests.simulation.api_server.refusals import bad_request, list_expired
from tests.simulation.api_server.selectors import Selects

KEPT = 100
"""Lists that were begun, and whose rest is kept."""


class Page(NamedTuple):
    """A part of a list."""

    items: list[Manifest]
    version: int
    token: str
    """For the next part; empty: this is the last."""
    left: int | None
    """How many follow; None: not known, for a selector takes only some of them."""


class Pages:
    """What was not read yet of the lists that were begun."""

    def __init__(self) -> None:
        self._rest: dict[str, tuple[Sequence[Manifest], int]] = {}
        self._begun = 0

    def read(self, listed: Callable[[], tuple[Sequence[Manifest], int]], selects: Selects | None, limit: int, token: str) -> Page:
        """The next part, of no more than `limit` objects (0: no limit). `listed`: the whole, and its version, for the first part.

        Raises Refused: 410 where the rest is not to be had any more, 400 for what never was a token.
        """
        objects, version = self._continued(token) if token else listed()
        taken: list[Manifest] = []
        passed = 0
        for one in objects:
            if limit and len(taken) == limit:
                break
            passed += 1
            if selects is None or selects(one):
                taken.append(one)
        rest = objects[passed:]
        if not rest:
            return Page(taken, version, "", None)
        return Page(taken, version, self._keep(rest, version), len(rest) if selects is None else None)

    def compact(self) -> None:
        """Forget all that was begun."""
        self._rest = dict.fromkeys(self._rest, ((), 0))

    def _keep(self, rest: Sequence[Manifest], version: int) -> str:
        self._begun += 1
        token = urlsafe_b64encode(f"{version}/{self._begun}".encode()).decode()
        self._rest[token] = (rest, version)
        if len(self._rest) > KEPT:
            del self._rest[next(iter(self._rest))]
        return token

    def _continued(self, token: str) -> tuple[Sequence[Manifest], int]:
        if token not in self._rest:
            raise bad_request("invalid continue token: continue key is not valid: it is no token of this server's")
        objects, version = self._rest[token]
        if not objects:
            raise list_expired()
        return objects, version
