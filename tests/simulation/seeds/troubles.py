"""Faults between an operator and the API server: random ones at any time, and windows with a certain fault."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.api_server.faults import Fault, Hang, LoseAnswer, Refuse
from tests.simulation.api_server.paths import target
from tests.simulation.api_server.refusals import Refused

if TYPE_CHECKING:
    from tests.simulation.seeds.operators import Operator


class Window(NamedTuple):
    """A period in which certain requests have the same fault. `verbs`, `plural`, `namespace` None: all."""

    fault: Fault
    verbs: frozenset[str] | None = None
    plural: str | None = None
    """A subresource as pods/status."""
    namespace: str | None = None

    def meets(self, verb: str, path: str) -> bool:
        if self.verbs is not None and verb not in self.verbs:
            return False
        if self.plural is None and self.namespace is None:
            return True
        try:
            about = target(path)
        except Refused:
            return False
        if about is None or (self.namespace is not None and about.namespace != self.namespace):
            return False
        name = f"{about.kind.plural}/{about.subresource}" if about.subresource else about.kind.plural
        return self.plural is None or name == self.plural


@dataclass(slots=True)
class Troubles:
    """Probabilities of faults per request, until `calm`."""

    rng: random.Random
    crash: float = 0.0
    """The operator dies between two requests."""
    refused: float = 0.0
    """A request is refused with 429 or 5xx."""
    lost: float = 0.0
    """A request or its answer is lost."""
    repeated: float = 0.0
    """A watch delivers an event twice."""
    slow: float = 1.0
    """A factor on every latency."""
    thinking: float = 0.0
    """Most seconds that a step takes."""
    late: float = 0.0
    """Seconds by which all watch events are late."""
    windows: list[Window] = field(default_factory=list)
    calm: bool = False
    """No faults except in windows."""

    def begin(self, window: Window) -> None:
        self.windows.append(window)

    def end(self, window: Window) -> None:
        """End a window, unless all have ended already."""
        if window in self.windows:
            self.windows.remove(window)

    def of_request(self, operator: Operator | None, verb: str, path: str) -> Fault | None:
        """Return the fault of a request; None: no fault. `operator` None: another client."""
        if operator is not None and operator.boundary():
            return Hang()
        for window in self.windows:
            if window.meets(verb, path):
                return window.fault
        if self.calm:
            return None
        if self.refused and self.rng.random() < self.refused:
            return self.rng.choice(PASSING)
        if self.lost and self.rng.random() < self.lost:
            return self.rng.choice(LOSSES)
        return None


PASSING = (
    Refuse(500, "InternalError", "an error on the server has prevented the request from succeeding"),
    Refuse(503, "ServiceUnavailable", "apiserver is shutting down"),
    Refuse(429, "TooManyRequests", "too many requests, please try again later"),
    Refuse(504, "Timeout", "request did not complete within the allotted timeout"),
)
"""Refusals that ask the client to try again."""
REFUSALS = (
    Refuse(403, "Forbidden", "not allowed here"),
    Refuse(404, "NotFound", "the server could not find the requested resource"),
    Refuse(409, "Conflict", "the object has been modified"),
    Refuse(410, "Expired", "the resource version is too old"),
    Refuse(422, "Invalid", "denied by a webhook"),
)
"""Refusals that do not."""
LOSSES = (Hang(), LoseAnswer(), LoseAnswer(), LoseAnswer(hang=True))
READS, WRITES = frozenset({"get", "list", "watch"}), frozenset({"create", "update", "patch", "delete"})
