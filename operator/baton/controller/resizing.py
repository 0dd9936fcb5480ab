"""A change of the number of partitions of a queue, as people are told of it. Pure."""

from collections.abc import Iterator, Mapping

from baton.controller.conditions import Told
from baton.controller.event_reasons import EventReason
from baton.controller.problems import Reason
from baton.controller.queue_facts import QueueFacts
from baton.model.ids import QueueName
from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.protocol import Resizing
from baton.resources import ConditionStatus


def resized(facts: QueueFacts, wanted: int | None) -> Told:
    """The condition Resized. `wanted`: what the spec asks for by now."""
    resizing = facts.resizing
    if resizing is None and facts.partitions is not None and wanted is not None and wanted != facts.partitions:
        goes = f"is to go from {facts.partitions:,} to {counted(wanted, 'partition')}"
        return ("Resized", ConditionStatus.FALSE, Reason.RESIZING, goes)
    if resizing is None:
        return ("Resized", ConditionStatus.TRUE, Reason.RESIZED, "every key is where the number of partitions puts it")
    then = "" if wanted in (None, resizing.after) else f"; after that it goes to {wanted:,}, as spec.partitions says by now"
    return ("Resized", ConditionStatus.FALSE, Reason.RESIZING, f"{_goes(resizing)}{_waits(resizing)}{then}")


class Resizings:
    """What events tell of the changes of a group's queues."""

    def __init__(self) -> None:
        self._known: dict[QueueName, Resizing] = {}

    def news(self, facts: Mapping[QueueName, QueueFacts]) -> Iterator[tuple[EventReason, str]]:
        """Changes that have begun or ended, each once."""
        for queue, seen in facts.items():
            before, now = self._known.get(queue), seen.resizing
            if now is None and before is not None and seen.problem is None and seen.partitions is not None:
                del self._known[queue]
                yield (
                    EventReason.RESIZED,
                    f"{queue} has {counted(before.after, 'partition')}, and every key is where that puts it",
                )
            elif now is not None:
                self._known[queue] = now
                if before is None or (before.before, before.after) != (now.before, now.after):
                    yield EventReason.RESIZING, f"{queue} {_goes(now)}{_waits(now)}"


def _goes(resizing: Resizing) -> str:
    return f"goes from {resizing.before:,} to {counted(resizing.after, 'partition')}"


def _waits(resizing: Resizing) -> str:
    if not resizing.waits_for:
        return ""
    one = len(resizing.waits_for) == 1
    numbers = format_numbers(resizing.waits_for)
    return (
        f"; waits until the {'owner' if one else 'owners'} of {'partition' if one else 'partitions'} {numbers} "
        f"{'is' if one else 'are'} done with what was sent before"
    )
