"""The registry: every kind of queue that there is. A kind is a folder of `queues`, and one line here.

In its folder stand

- `kind.py`: KIND, a `QueueKind`, which says what the rest of Baton asks of it (is it fenced, how many partitions may it have,
  …) and names its sides. It imports no client of a server.
- `resource.py`: the model of spec.source.<kind>, a `SourceFields` with its rules in CEL. The CRD is composed of these, so
  `make generate` follows. It is in the operator's wheel alone, as is
- `operator_side.py`: `open_queue` (an `OpenQueueSide`, baton.queues.opening), which makes the `QueueAdapter`
  (baton.queues.protocol) of one queue for one group.
- what the other sides in `QueueKind` name, as far as the kind has them; and a producer for programs, which import it from the
  folder.
"""

from importlib import import_module

from baton.queues.kind import QueueKind


def _kind(folder: str) -> QueueKind:
    found = import_module(f"{folder}.kind").KIND
    assert isinstance(found, QueueKind)
    return found


KINDS = (
    _kind("baton.queues.redis"),
    _kind("baton.queues.kafka"),
    _kind("baton.queues.external"),
)
"""In the order in which the schema lists them."""


def kind(name: str) -> QueueKind:
    """By spec.source.type. Raises KeyError."""
    return {one.name: one for one in KINDS}[name]


def with_transactions() -> str:
    """The names of those that have them, for a message."""
    return " or ".join(one.name for one in KINDS if one.transactions)


def with_spark() -> str:
    """The names of those that Spark reads, for a message."""
    return " and ".join(one.name for one in KINDS if one.spark)


def with_dead_letters() -> str:
    """The names of those that keep dead letters, for a message."""
    return " and ".join(one.name for one in KINDS if one.dead_letters)
