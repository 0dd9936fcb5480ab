"""Where the story is told: a fleet that can be changed, and what is seen of it. Its kinds are in `on_cluster` and `on_laptop`."""

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from demo.picture import Member, Picture
from demo.story import Story
from demo.telling import changes
from demo.timings import Timings

PARTITIONS = 12


class TookTooLong(Exception):  # noqa: N818 - reads as what happened
    """What was waited for did not come in time. The message says what, how long, and what was there instead."""


class Unavailable(Exception):  # noqa: N818 - likewise
    """The machine lacks something. The message is one sentence, with the cure."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Who owned what, for the chart at the end."""

    at: float
    """Seconds since the run began."""
    owners: Mapping[int, str]
    """Partition -> name of a member."""
    state: str


class Observer:
    """The live picture of one group. `wait` sleeps until the picture is as wished, or its bound is over."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._changed = threading.Condition()
        self.picture = Picture()
        self.timings = Timings()
        self.moments: list[Moment] = []
        self.ended = ""
        """What has ended without which nothing more can come about."""

    def show(self, picture: Picture) -> None:
        """The stage's latest look, from any thread, in order."""
        with self._changed:
            before, self.picture = self.picture, picture
            self.timings.see(picture, time.time())
            owners = {number: member.name for number, member in picture.owners.items()}
            self.moments.append(Moment(self._story.elapsed, owners, picture.state))
            for line in changes(before, picture):
                self._story.cluster(line)
            self._changed.notify_all()

    def wait(self, what: str, wish: Callable[[Picture], bool], seconds: float) -> Picture:
        """Returns the first picture that is as wished. Raises TookTooLong."""
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
    """What steps and performance know of either stage."""

    scene: str
    """Title of the first step: what is started."""
    member: str
    """What a member is called."""
    first: int
    """Members to begin with."""
    queue: str
    """namespace/name"""
    delay: float
    max_handoff: float
    """Seconds, as the group has them."""
    rate: float
    """Messages per second."""
    process_group = 0
    """That of the processes which the demo starts itself; 0: each has its own."""
    url = ""
    """Of the queue's server, once it runs."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.observer = Observer(story)

    @abstractmethod
    def begin(self, running: ExitStack, watching: ExitStack) -> None:
        """Start everything but the producer. `running` holds the fleet, `watching` what only this process needs."""

    @abstractmethod
    def scale(self, members: int) -> None:
        """Have so many members, as an autoscaler would."""

    @abstractmethod
    def signal(self, member: Member, number: signal.Signals) -> None:
        """Send a signal to the program that a member runs, behind Baton's back."""

    @abstractmethod
    def look(self) -> Iterator[str]:
        """What to print where the story could not be told to its end: enough to see why without starting over."""

    def keep(self) -> str:
        """Keep the fleet after this process: how to look around. Empty where there is nothing to keep."""
        return ""


def describe(picture: Picture) -> str:
    """One line for an error: what was there instead."""
    members = ", ".join(
        f"{member.name} {member.phase}{'' if member.registered else ' unregistered'} {len(member.owned)}+{len(member.revoking)}"
        for member in picture.members
    )
    trouble = f", {picture.trouble}" if picture.trouble else ""
    return f"the group is {picture.state or 'without a state'}{trouble}, moving {picture.moving}; members: {members or 'none'}"
