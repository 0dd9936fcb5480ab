"""What a pod's status says for people: why it is not Ready, and the last words of a container that failed. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from baton.model.wording import one_line

ENDED = ("Succeeded", "Failed")
"""Phases that a pod does not leave."""

LONGEST_FAILURE = 600
"""Characters of what a container said last that are shown."""

LONGEST_REASON = 300
"""Characters of why a pod is not Ready that are shown."""

SEE_LOG = "see its log"
"""What is told of a container that ended."""

_STARTS = ("ContainerCreating", "PodInitializing")
"""What a container waits for that starts as it should."""

_CRASHES = "CrashLoopBackOff"

_BY_SIGNAL = 128
"""Exit codes above this are a signal's."""

_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ ")
"""How a line of Spark's own log begins: it goes on for a few after the program has said why it ends."""

_MOST_MESSAGE = 4096
"""Characters of a container's last words that are looked at: as many as Kubernetes keeps."""

Status = Mapping[str, Any]


def hindrance(status: Status) -> str | None:
    """What keeps a pod that is not Ready from it, on one line; None: Kubernetes names nothing, as of one that starts."""
    if status.get("phase") in ENDED:
        return None
    words = next(_hindrances(status), None)
    return one_line(words, LONGEST_REASON) if words else None


def _hindrances(status: Status) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _said(condition)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, name = container.get("state") or {}, container.get("name")
        waiting, last = state.get("waiting") or {}, (container.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason") == _CRASHES:
            # Its message has the name of the pod, and seconds that grow: all pods of a fleet would differ.
            yield f"container {name}: {_CRASHES}{f': {_exit(last)}' if last else ''}"
        elif waiting.get("reason") and waiting["reason"] not in _STARTS:
            yield f"container {name}: {_said(waiting)}"
        elif (ended := state.get("terminated") or {}) and ended.get("exitCode"):
            yield f"container {name}: {_exit(ended)}"


def _said(those: Mapping[str, Any]) -> str:
    return ": ".join(str(those[key]) for key in ("reason", "message") if those.get(key))


def _exit(ended: Mapping[str, Any]) -> str:
    return f"exit code {ended.get('exitCode')} ({ended.get('reason')}), {SEE_LOG}"


def failure(status: Status) -> str | None:
    """Of a container that failed Kubernetes keeps the end of the log, where its terminationMessagePolicy says so."""
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if code := ended.get("exitCode"):
                # What a signal ended was not saying why.
                said = str(ended.get("message") or "")[-_MOST_MESSAGE:] if code <= _BY_SIGNAL else ""
                lines = [line for line in said.splitlines() if line.strip() and not _LOGGED.match(line)]
                return one_line(lines[-1] if lines else _exit(ended), LONGEST_FAILURE)
    return None
