"""A change of the number of a queue's partitions, as events say it. Pure."""

from collections.abc import Callable, Iterator, Mapping

from baton.api import ConditionStatus
from baton.controller.conditions import Told
from baton.controller.event_reasons import EventReason
from baton.controller.problems import Reason
from baton.controller.queue_state import QueueFacts
from baton.kube.objects import QueueView
from baton.model.ids import QueueName
from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.protocol import Resizing


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
        self._known: dict[QueueName, tuple[int, Resizing | None]] = {}
        """How many partitions each had when it was seen last, and how they changed."""
        self._inherited: dict[QueueName, bool] = {}
        """Whether its condition says that it changes, as another operator has left it: it goes until the queue has answered."""

    def news(
        self, facts: Mapping[QueueName, QueueFacts], view_of: Callable[[QueueName], QueueView | None]
    ) -> Iterator[tuple[EventReason, str]]:
        """Changes that have begun or ended, each once: also one of which this operator sees the end only, for it was begun
        under another or took no longer than one look."""
        for queue, seen in facts.items():
            view = view_of(queue)
            inherited = self._inherited.setdefault(queue, _says_that_it_changes(view))
            if seen.problem is not None or seen.partitions is None:
                continue
            known, now = self._known.get(queue), seen.resizing
            self._known[queue] = (seen.partitions, now)
            wanted = view.spec.partitions if view is not None and view.spec is not None else None
            if now is None:
                if _ended(seen, wanted, inherited) if known is None else _ended_since(known, seen, wanted):
                    has = counted(seen.partitions, "partition")
                    yield EventReason.RESIZED, f"{queue} has {has}, and every key is where that puts it"
            elif known is None or known[1] is None or known[1][:2] != now[:2]:
                yield EventReason.RESIZING, f"{queue} {_goes(now)}{_waits(now)}"


def _says_that_it_changes(view: QueueView | None) -> bool:
    conditions = view.status.get("conditions") if view is not None else None
    return any(one.get("type") == "Resized" and one.get("status") == ConditionStatus.FALSE for one in conditions or ())


def _ended(seen: QueueFacts, wanted: int | None, inherited: bool) -> bool:
    """A change that another operator has seen, and that is over at the first look."""
    return inherited and resized(seen, wanted)[1] is ConditionStatus.TRUE


def _ended_since(known: tuple[int, Resizing | None], seen: QueueFacts, wanted: int | None) -> bool:
    partitions, resizing = known
    return resizing is not None or (seen.fenced and partitions != seen.partitions == wanted)


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
