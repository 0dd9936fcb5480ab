"""What may befall a fleet: its processes are killed and stopped, and the links between them and their servers break."""

import random
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from tests.load.links import Ends
from tests.network import Link, Way


class Break(Enum):
    """Of a link."""

    REFUSED = "new connections are refused"
    CUT = "connections are cut"
    CUT_AND_REFUSED = "connections are cut, and new ones refused"
    CUT_IN_A_REQUEST = "the next request arrives by half"
    CUT_IN_AN_ANSWER = "the next answer arrives by half"
    SILENT = "what is sent is lost, either way"
    FORGOTTEN = "connections are lost without a word, and new ones work"
    REQUESTS_LOST = "requests are lost"
    ANSWERS_LOST = "answers are lost"
    SLOW = "it takes a while"

    def befall(self, link: Link) -> None:
        """Until it is healed."""
        match self:
            case Break.REFUSED:
                link.refuse()
            case Break.CUT:
                link.cut()
            case Break.CUT_AND_REFUSED:
                link.refuse()
                link.cut()
            case Break.CUT_IN_A_REQUEST:
                link.cut_in(Way.REQUESTS)
            case Break.CUT_IN_AN_ANSWER:
                link.cut_in(Way.ANSWERS)
            case Break.SILENT:
                link.silence()
            case Break.FORGOTTEN:
                link.forget()
            case Break.REQUESTS_LOST:
                link.silence(frozenset({Way.REQUESTS}))
            case Break.ANSWERS_LOST:
                link.silence(frozenset({Way.ANSWERS}))
            case Break.SLOW:
                link.delay(0.1)


class Blow(Enum):
    """To a process."""

    KILLED = "SIGKILL"
    STOPPED = "SIGSTOP"


class Trouble(NamedTuple):
    """One, and who or what it befalls: a link by its ends, a process by its name."""

    where: Ends | str
    what: Break | Blow

    def __str__(self) -> str:
        where = self.where if isinstance(self.where, str) else " to ".join(self.where)
        return f"{where}: {self.what.value}"


class Spell(NamedTuple):
    """Troubles at one time."""

    troubles: Sequence[Trouble]
    seconds: float


_LENGTHS = (0.5, 2.0, 4.0, 8.0, 24.0)
"""Seconds: less than a request may take, more, and more than a session lasts."""


def spells(seed: int, links: Sequence[Ends], processes: Sequence[str], longest: float) -> Iterator[Spell]:
    """Without end, and always the same for a seed. `longest`: seconds of one."""
    chance = random.Random(seed)
    lengths = [seconds for seconds in _LENGTHS if seconds <= longest]
    while True:
        everything: list[Ends | str] = [*links, *processes]
        places = chance.sample(everything, chance.choice((1, 1, 2, 3)))
        troubles = [
            Trouble(where, chance.choice(list(Blow)) if isinstance(where, str) else chance.choice(list(Break)))
            for where in places
        ]
        yield Spell(troubles, round(chance.choice(lengths) * chance.uniform(0.5, 1.0), 2))
