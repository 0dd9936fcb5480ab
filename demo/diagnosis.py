"""What to print where the story could not be told to its end: enough to see why without starting over."""

from collections.abc import Callable, Iterator

from demo.manifests import NAMESPACE

_LOOKS = (
    ("pods", ("get", "pods", "--all-namespaces", "-o", "wide")),
    ("group", ("--namespace", NAMESPACE, "get", "consumergroups,partitionedqueues", "-o", "yaml")),
    ("ledger", ("--namespace", NAMESPACE, "get", "configmap", "orders-assignments", "-o", "yaml")),
    ("events", ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")),
    ("operator", ("--namespace", "baton-system", "logs", "deployment/baton", "--all-pods", "--tail=60")),
    ("driver", ("--namespace", NAMESPACE, "logs", "driver", "--tail=80")),
)
_LINES = 90


def look(kubectl: Callable[..., str]) -> Iterator[str]:
    """Name and output of each look; one that fails says why and does not end the others."""
    for name, arguments in _LOOKS:
        yield f"----- {name}: kubectl {' '.join(arguments)}"
        try:
            yield "\n".join(kubectl(*arguments).splitlines()[-_LINES:])
        except Exception as error:  # it is all about finding out what is broken
            yield f"{type(error).__name__}: {error}"
