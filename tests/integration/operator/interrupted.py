"""`baton operator`, killed or stopped right before or right after something that it does to the world.

Its first argument is `SIGNAL:WHEN:EFFECT#N`, as in `KILL:after:ledger-write#3` or `STOP:before:grant#1`: the process gets that
signal the N-th time that it gets there. Before: the request has not been sent; after: it is carried out, and nothing followed.
What fails has no "after".
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from baton.controller.adapters import open_queue
from baton.controller.program import run
from baton.kube.api import Api, connect
from baton.model.names import LEDGER_KEY_ANNOTATION
from baton.queues.protocol import QueueAdapter
from tests.integration.operator.command_line import options

EFFECTS = (
    *("finalizer", "claim", "ensure", "ledger-write", "pause", "grant"),
    *("mount-refresh", "mark", "scale", "status-write", "release"),
)
"""All that the operator changes outside its process, but for events and Leases. `claim`: the first write of a ledger;
`mount-refresh`: of a pod, for its kubelet; `mark`: of a pod, for its Deployment; `ensure`, `release`: of a queue."""
UNKNOWN_EFFECT = 70
"""The exit code of an operator that changes something else."""

Json = dict[str, Any]


def interrupted(fault: str) -> Sequence[str]:
    """The beginning of the command line that starts it."""
    return (sys.executable, "-m", "tests.integration.operator.interrupted", fault)


class Interruption:
    """When which signal comes."""

    def __init__(self, text: str) -> None:
        name, self._when, place = text.split(":")
        self._effect, number = place.split("#")
        assert self._when in ("before", "after") and self._effect in EFFECTS, text
        self._signal, self._left = signal.Signals[f"SIG{name}"], int(number)

    def reached(self, when: str, effect: str | None) -> None:
        """The process is there now."""
        if (when, effect) == (self._when, self._effect):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)


class InterruptedApi(Api):
    """Tells effects by what is written, and where."""

    def __init__(self, api: Api, fault: Interruption) -> None:
        super().__init__(api._client)
        self._fault = fault
        self._claimed: set[str] = set()

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, *rest: Any, **how: Any
    ) -> Json:
        effect = None if method == "GET" else self._effect(path, body)
        self._fault.reached("before", effect)
        answer = await super()._exchange(method, path, query, body, *rest, **how)
        self._fault.reached("after", effect)
        if effect == "claim" and isinstance(body, dict):
            self._claimed.add(body["metadata"]["name"])
        return answer

    def _effect(self, path: str, body: Any) -> str | None:
        _, resource, *more = path.partition("/namespaces/")[2].split("/")
        match resource, more[1:]:
            case (("events" | "leases"), _):
                return None
            case "configmaps", _:
                return "ledger-write" if body["metadata"]["name"] in self._claimed else "claim"
            case "pods", []:
                return "mount-refresh" if LEDGER_KEY_ANNOTATION in body["metadata"]["annotations"] else "mark"
            case "consumergroups", []:
                return "finalizer"
            case _, ["status"]:
                return "status-write"
            case _, ["scale"]:
                return "scale"
        print(f"what is written to {path} is none of the effects", file=sys.stderr, flush=True)
        os._exit(UNKNOWN_EFFECT)


class InterruptedQueue:
    """An adapter that recognizes effects by its methods."""

    def __init__(self, adapter: QueueAdapter, fault: Interruption) -> None:
        self._adapter, self._fault = adapter, fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._adapter, name)
        if name not in EFFECTS:
            return found

        async def asked(*arguments: Any, **named: Any) -> Any:
            self._fault.reached("before", name)
            answer = await found(*arguments, **named)
            self._fault.reached("after", name)
            return answer

        return asked


def main(text: str, arguments: Sequence[str]) -> None:
    fault = Interruption(text)

    @asynccontextmanager
    async def reach(kubeconfig: Path | None) -> AsyncIterator[tuple[Api, Any]]:
        async with connect(kubeconfig) as (api, settings):
            yield InterruptedApi(api, fault), settings

    async def opened(*arguments: Any, **others: Any) -> QueueAdapter:
        return cast(QueueAdapter, InterruptedQueue(await open_queue(*arguments, **others), fault))

    run(options(arguments), reach, opened)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
