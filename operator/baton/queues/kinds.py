"""The registry of all kinds of queues. A kind is a folder of `queues`, and one line here.

The folder contains

- `kind.py`: KIND, a `QueueKind` with the kind's properties (is it fenced, how many partitions may it have, …) and the names of
  its sides. It imports no client library.
- `resource.py`: the model of spec.source.<kind>, a `SourceFields` with its rules in CEL. The CRD is composed of these models, so
  run `make generate` after a change. Only the operator's wheel has this file.
- `operator_side.py`: `open_queue` (an `OpenQueueSide`, baton.queues.opening), which creates the `QueueAdapter`
  (baton.queues.protocol) of one queue for one group. Only the operator's wheel has this file.
- the other sides of `QueueKind` that the kind has, and a producer, which programs import from the folder.
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
"""In the order of the schema."""


def kind(name: str) -> QueueKind:
    """Return the kind with this spec.source.type. Raises KeyError."""
    return {one.name: one for one in KINDS}[name]


def with_transactions() -> str:
    """Names of the kinds with transactions, for a message."""
    return " or ".join(one.name for one in KINDS if one.transactions)


def with_spark() -> str:
    """Names of the kinds that Spark reads, for a message."""
    return " and ".join(one.name for one in KINDS if one.spark)


def with_dead_letters() -> str:
    """Names of the kinds with dead letters, for a message."""
    return " and ".join(one.name for one in KINDS if one.dead_letters)
