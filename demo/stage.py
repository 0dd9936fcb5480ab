"""The stage: a fleet that the story changes and observes. The kinds of stage are in `on_cluster` and `on_laptop`."""

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from demo.picture import Member, Picture, changes
from demo.story import Story
from demo.timings import Timings

PARTITIONS = 12


class TookTooLong(Exception):  # noqa: N818 - reads as what happened
    """Something did not happen in time. The message has what, the time, and the state instead."""


class Unavailable(Exception):  # noqa: N818 - likewise
    """The machine lacks something. The message is one sentence, with a cure."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The owners of partitions at a time, for the chart at the end."""

    at: float
    """Seconds since the run began."""
    owners: Mapping[int, str]
    """Names of members by partition."""


class Observer:
    """The live picture of a group. `wait` sleeps until a picture fulfils a condition, up to a limit."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._changed = threading.Condition()
        self.picture = Picture()
        self.timings = Timings()
        self.moments: list[Moment] = []
        self.ended = ""
        """The needed process that has ended; the story cannot go on without it."""

    def show(self, picture: Picture) -> None:
        """Take the stage's latest picture, from any thread, in order."""
        with self._changed:
            before, self.picture = self.picture, picture
            self.timings.see(picture, time.time())
            owners = {number: member.name for number, member in picture.owners.items()}
            self.moments.append(Moment(self._story.elapsed, owners))
            for line in changes(before, picture):
                self._story.cluster(line)
            self._changed.notify_all()

    def wait(self, what: str, wish: Callable[[Picture], bool], seconds: float) -> Picture:
        """Return the first picture that fulfils the condition. Raises TookTooLong."""
        self._story.wait_for(what)
        end = time.monotonic() + seconds
        with self._changed:
            while not wish(self.picture):
                if self.ended:
                    raise TookTooLong(f"{what}: {self.ended}")
                left = end - time.monotonic()
                if left <= 0:
                    raise TookTooLong(f"{what}: not within {seconds:.0f} s; {describe(self.picture)}")
                self._changed.wait(min(left, 0.1))  # a wish may be about the clock, or about what the gauges show
            self._story.wait_for("")
            return self.picture


class Stage(ABC):
    """The interface of both kinds of stage."""

    scene: str
    """The title of the first step."""
    member: str
    """The word for a member."""
    first: int
    """The number of members at the start."""
    queue: str
    """namespace/name"""
    delay: float
    """The group's delay in seconds."""
    max_handoff: float
    """The group's time for a hand-off in seconds."""
    rate: float
    """Messages per second."""
    process_group = 0
    """The process group of the demo's processes; 0: one for each."""
    url = ""
    """The URL of the queue's server, once it runs."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.observer = Observer(story)

    @abstractmethod
    def begin(self, running: ExitStack, watching: ExitStack) -> None:
        """Start everything except the producer. `running` holds the fleet, `watching` what only this process needs."""

    @abstractmethod
    def scale(self, members: int) -> None:
        """Scale the fleet, as an autoscaler would."""

    @abstractmethod
    def signal(self, member: Member, number: signal.Signals) -> None:
        """Send a signal to a member's program, without Baton's knowledge."""

    @abstractmethod
    def look(self) -> Iterator[str]:
        """Details to print after a failed story, to find the cause without another run."""

    def keep(self) -> str:
        """Keep the fleet after this process, and return how to inspect it. Empty: there is nothing to keep."""
        return ""


def describe(picture: Picture) -> str:
    """The picture on a line, for an error."""
    members = ", ".join(
        f"{member.name} {member.phase}{'' if member.registered else ' unregistered'} {len(member.owned)}+{len(member.revoking)}"
        for member in picture.members
    )
    trouble = f", {picture.trouble}" if picture.trouble else ""
    return f"the group is {picture.state or 'without a state'}{trouble}, moving {picture.moving}; members: {members or 'none'}"
