"""The steps of the story: each changes the fleet and waits, with a limit, for the result."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from baton.model.ranges import format_numbers
from baton.model.wording import counted
from demo.attempts import attempts
from demo.gauges import Gauges
from demo.picture import Member, Picture
from demo.producer import Producer
from demo.records import Attempt
from demo.stage import PARTITIONS, Observer, Stage
from demo.story import Story

_START = 120.0
"""Seconds: far more than a member needs to start, even on a busy machine."""
_REBALANCE = 45.0
"""Seconds: far more than a delay and a hand-off take together."""


class BrokenPromise(Exception):  # noqa: N818 - reads as what happened
    """Baton broke a promise."""


@dataclass(slots=True)
class Run:
    """The context of the steps, and their records for the verdict."""

    stage: Stage
    gauges: Gauges
    producer: Producer
    attempts: list[Attempt] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    """The names of stopped members."""
    missed_by_stopped: int = 0
    """The deadlines that stopped members missed."""

    @property
    def story(self) -> Story:
        return self.stage.story

    @property
    def observer(self) -> Observer:
        return self.stage.observer


def steps(stage: Stage) -> list[tuple[str, Callable[[Run], None]]]:
    """The steps in their order, each with its title."""
    member, members = ("an " if stage.member[0] in "aeiou" else "a ") + stage.member, f"{stage.member}s"
    return [
        (f"{['no', 'one', 'two', 'three'][stage.first]} {members} share twelve partitions", begin),
        ("scale out to four, under load", scale_out),
        (f"{member} comes and goes within the delay", come_and_go),
        (f"{member} is killed with SIGKILL", kill_one),
        (f"{member} is stopped with SIGSTOP, past its deadline, and wakes up", stop_one),
        ("scale in to two", scale_in),
        ("the producer stops, and the rest is processed", drain),
    ]


def begin(run: Run) -> None:
    _flowing(run)
    run.observer.wait("what has piled up meanwhile to be worked off", lambda picture: run.gauges.lag < 5 * run.stage.rate, 60)
    run.story.good("messages go in, and come out of every partition")


def scale_out(run: Run) -> None:
    before = run.observer.picture
    run.stage.scale(4)
    after = _settled(run, 4)
    _flowing(run)
    run.story.good(_moved(before, after))


def come_and_go(run: Run) -> None:
    before = run.observer.picture
    known = {member.uid for member in before.members}
    run.stage.scale(5)
    during = run.observer.wait(
        f"a fifth {run.stage.member}, held down",
        lambda picture: len(picture.serving) == 5 and picture.state == "Holddown",
        _START,
    )
    newcomer = next(member for member in during.serving if member.uid not in known)
    run.story.cluster(f"{newcomer.name} has come; nothing is handed to it before {during.hold_until[11:19]}")
    run.stage.scale(4)
    after = run.observer.wait(f"{newcomer.name} gone again", lambda picture: picture.settled(4), _REBALANCE)
    if after.moves != before.moves or _grants(after) != _grants(before):
        raise BrokenPromise(f"a member that came and went within the delay cost {counted(after.moves - before.moves, 'move')}")
    run.story.good("it went within the delay: no move, no pause, the same epochs")


def kill_one(run: Run) -> None:
    before = run.observer.picture
    victim = _fullest(before)
    _send(run, victim, signal.SIGKILL)
    lost = set(victim.owned)
    run.observer.wait("its partitions in other hands", lambda picture: _elsewhere(picture, victim, lost), _START + _REBALANCE)
    after = _settled(run, 4)
    _flowing(run)
    run.story.good(_moved(before, after))


def stop_one(run: Run) -> None:
    """Stop the leaving member just before its revoke: it misses the deadline, is fenced off, and wakes up."""
    before, own = run.observer.picture, _refused(run)
    run.stage.scale(3)
    named = run.observer.wait("the ledger to name who goes", lambda picture: bool(_victims(picture)), 60)
    victim = _victims(named)[0]
    grants = dict(victim.owned)
    run.observer.wait("the delay to begin", lambda picture: picture.held_until is not None, 60)
    run.observer.wait("the end of the delay", lambda picture: _left(picture) < 1.0, run.stage.delay + 5)
    _send(run, victim, signal.SIGSTOP)
    run.stopped.add(victim.name)
    try:
        gone = run.observer.wait(
            "its deadline, and its partitions in other hands",
            # The status, with the numbers of moves and of missed deadlines, is written after the ledger.
            lambda picture: _elsewhere(picture, victim, set(grants)) and picture.moves > before.moves,
            _REBALANCE,
        )
        missed = gone.deadline_misses - before.deadline_misses
        if missed <= len(grants):  # more would include those of other members
            run.missed_by_stopped += missed
        why = "the deadline passed" if missed else "it had nothing in hand"
        run.story.good(f"{why}: {format_numbers(grants)} went on without it")
        _try(run, victim, grants, "while it is stopped")
    finally:
        _send(run, victim, signal.SIGCONT)
        run.stopped.discard(victim.name)
    run.story.cluster(f"{victim.name} goes on with what it had")
    _try(run, victim, grants, "as if it were the one that woke up")
    counts = run.gauges.counts
    run.observer.wait("what it does itself", lambda picture: _refused(run) > own or _ended(picture, victim), _START + _REBALANCE)
    if _refused(run) > own:
        run.story.good(f"{victim.name} itself was refused, too")
    else:
        run.story.cluster(f"{victim.name} itself made no call")
    run.observer.wait(
        "its partitions to be processed by their new owners",
        lambda picture: all(run.gauges.counts.get(number, 0) > counts.get(number, 0) for number in grants),
        60,
    )
    after = _settled(run, 3)
    run.story.good(_moved(before, after))


def scale_in(run: Run) -> None:
    before = run.observer.picture
    run.stage.scale(2)
    after = _settled(run, 2)
    _flowing(run)
    run.story.good(_moved(before, after))


def drain(run: Run) -> None:
    run.producer.stop()
    run.story.deed(f"the producer has stopped after {run.producer.produced:,} messages")
    run.observer.wait("everything committed", lambda picture: run.gauges.lag == 0, 90)
    run.story.good("nothing is left in the queue")


def _send(run: Run, victim: Member, what: signal.Signals) -> None:
    run.story.deed(f"{what.name} to all processes of {victim.name}, owner of {format_numbers(victim.owned)}")
    run.stage.signal(victim, what)


def _settled(run: Run, members: int) -> Picture:
    what = f"{members} {run.stage.member}s, all partitions owned"
    return run.observer.wait(what, lambda picture: picture.settled(members), _START + _REBALANCE)


def _flowing(run: Run) -> None:
    """Wait until messages of every partition have been processed since now."""
    before = run.gauges.counts
    run.observer.wait(
        "every partition to be processed",
        lambda picture: all(run.gauges.counts.get(number, 0) > before.get(number, 0) for number in range(PARTITIONS)),
        60,
    )


def _try(run: Run, victim: Member, grants: dict[int, int], when: str) -> None:
    """Try the former owner's credentials directly at the queue."""
    made = list(attempts(run.stage.url, run.stage.queue, victim.uid, grants))
    run.attempts += made
    refused = sum(attempt.refused for attempt in made)
    tell = run.story.good if refused == len(made) else run.story.bad
    tell(f"{refused} of {len(made)} calls with its credentials, {when}, were refused by the queue")


def _refused(run: Run) -> int:
    """The number of members' calls that the queue rejected."""
    return run.gauges.flow.stale_refused - sum(attempt.refused for attempt in run.attempts)


def _ended(picture: Picture, member: Member) -> bool:
    return all(other.uid != member.uid or other.phase in ("failed", "gone") for other in picture.members)


def _fullest(picture: Picture) -> Member:
    return max(picture.serving, key=lambda member: len(member.owned))


def _victims(picture: Picture) -> list[Member]:
    going = [member for member in picture.members if member.name in picture.victims and member.phase in ("ready", "leaving")]
    return [member for member in going if member.owned]


def _elsewhere(picture: Picture, member: Member, partitions: set[int]) -> bool:
    owners = picture.owners
    return all(number in owners and owners[number].uid != member.uid for number in partitions)


def _grants(picture: Picture) -> dict[int, tuple[str, int]]:
    return {number: (member.uid, member.owned[number]) for number, member in picture.owners.items()}


def _left(picture: Picture) -> float:
    """Seconds until the holddown ends."""
    return (picture.held_until or 0.0) - time.time()


def _moved(before: Picture, after: Picture) -> str:
    moves, least = after.moves - before.moves, after.lower_bound - before.lower_bound
    return f"{counted(moves, 'partition')} moved (minimum {least})"
