"""The changes between two pictures, in words."""

from collections.abc import Iterator

from baton.model.ranges import format_numbers
from baton.model.wording import counted
from demo.picture import Member, Picture


def changes(before: Picture, after: Picture) -> Iterator[str]:
    """The changes that matter to people, in a fixed order."""
    yield from _state(before, after)
    was = {member.uid: member for member in before.members}
    for member in after.members:
        yield from _member(was.get(member.uid), member)
    left = was.keys() - {member.uid for member in after.members}
    for uid in sorted(left, key=lambda uid: was[uid].name):
        yield f"{was[uid].name} is gone"


def _state(before: Picture, after: Picture) -> Iterator[str]:
    troubled = after.trouble and _reason(after) != _reason(before)
    if after.state and after.state != before.state and not (troubled and after.state == "NotReady"):
        yield f"the group is {after.state}" + (f" until {after.hold_until}" if after.state == "Holddown" else "")
    if troubled:
        yield f"the group is not Ready: {after.trouble}"
    if after.deadline_misses > before.deadline_misses:
        missed = counted(after.deadline_misses - before.deadline_misses, "deadline")
        yield f"{missed} missed: fenced off at the queue"


def _reason(picture: Picture) -> str:
    """Once told, it is not told again in the other words that it has while pods come."""
    return picture.trouble.partition(":")[0]


def _member(before: Member | None, after: Member) -> Iterator[str]:
    phase = before.phase if before else ""
    if after.phase != phase:
        words = {"starting": "starts", "ready": "is Ready", "leaving": "is terminating", "failed": "has failed"}
        if phase == "ready" and after.phase == "starting":
            yield f"{after.name} is not Ready any more"
        elif after.phase in words:
            yield f"{after.name} {words[after.phase]}"
        elif before and before.phase != "failed":
            yield f"{after.name} has vanished"
    taken = after.revoking.keys() - (before.revoking.keys() if before else set())
    if taken:
        yield f"{after.name} is to let go of {format_numbers(taken)}"
    granted = {number for number, epoch in after.owned.items() if before is None or before.owned.get(number) != epoch}
    if granted:
        yield f"{after.name} gets {format_numbers(granted)}"
