"""Asks the queues of a group where it is in them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from baton.cli.cluster import NoAnswerError
from baton.cli.group_view import GroupLook
from baton.controller.adapters import SecretForbidden, open_queue
from baton.kube.api import Api
from baton.kube.objects import QueueView
from baton.model.extras import cure
from baton.queues.kind import QueueKind
from baton.queues.offsets import PartitionOffsets, TellsOffsets
from baton.queues.protocol import Claimant, QueueAdapter, QueueConflict, QueueUnreachable


def queue_of(seen: GroupLook, name: str) -> QueueView:
    """One of its queues. Raises NoAnswerError where it is missing or does not read."""
    view = seen.queues[name].view
    if view is None:
        raise NoAnswerError(f"there is no PartitionedQueue {seen.group.namespace}/{name}")
    if view.spec is None:
        raise NoAnswerError(f"PartitionedQueue {view.full_name}: {view.problem}")
    return view


def kind_of(seen: GroupLook, name: str) -> QueueKind:
    """Of one of its queues. Raises NoAnswerError."""
    spec = queue_of(seen, name).spec
    assert spec is not None
    return spec.source.kind


@asynccontextmanager
async def adapter_of(api: Api, seen: GroupLook, name: str) -> AsyncIterator[QueueAdapter]:
    """Of one of its queues. What goes wrong there is a NoAnswerError."""
    view, kind = queue_of(seen, name), kind_of(seen, name)
    try:
        adapter = await open_queue(api, view, Claimant(seen.group.full_name, seen.group.uid))
        try:
            yield adapter
        finally:
            await adapter.close()
    except SecretForbidden:
        raise NoAnswerError(
            f"you may not read the Secret that {view.full_name} names: ask for the verb get on it, or call this in the operator's"
            " pod"
        ) from None
    except (QueueUnreachable, QueueConflict) as problem:
        raise NoAnswerError(str(problem)) from None
    except ModuleNotFoundError as missing:
        raise NoAnswerError(f"{missing.name} is not installed: {cure(kind.name.lower())}") from None


async def offsets_of(api: Api, seen: GroupLook, name: str) -> Mapping[int, PartitionOffsets]:
    """Of one of its queues. Raises NoAnswerError."""
    async with adapter_of(api, seen, name) as adapter:
        if not isinstance(adapter, TellsOffsets):
            raise NoAnswerError(f"{name}: queues of type {kind_of(seen, name).name} do not tell offsets")
        return await adapter.offsets()
