"""Kafka's and RocketMQ's own assignors, asked beside ours: a small Java program over their published classes.

The jars and the compiled program are kept in the cache, in a folder named by what they are made of.
"""

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from baton.assignors import Request
from baton.model import Partition, QueueName
from tests.made_once import fetch_jars, made_once, run

HERE = Path(__file__).parent
SOURCES = ("pom.xml", "Peers.java")
Hands = dict[str, list[Partition]]


@dataclass(frozen=True)
class PeerAnswer:
    assignment: Hands
    withheld: Hands
    milliseconds: tuple[float, ...]
    """Of each repeat."""
    allocated: int
    """Bytes that one answer allocates."""

    def owners(self) -> dict[Partition, str]:
        """As `Answer.owners`. Partitions that Kafka takes away without naming a receiver have no owner."""
        return {p: name for hands in (self.assignment, self.withheld) for name, hand in hands.items() for p in hand}


def ask(questions: Iterable[tuple[str, Request]], repeats: int = 0) -> list[PeerAnswer | str]:
    """The peers' answers; a text is the exception that a peer threw."""
    lines = "".join(f"{_line(assignor, request, repeats)}\n" for assignor, request in questions)
    classes = built()
    soon = [] if repeats else ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # what is timed is compiled in full
    command = ["java", *soon, "-Xss16m", "-Xmx1500m", "-cp", f"{classes}:{classes / 'lib'}/*", "Peers"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [line if line.startswith("ERROR") else _answer(line) for line in done.stdout.splitlines()]


def option(assignor: str, options: Mapping[str, object]) -> str:
    """An assignor's options as the program reads them."""
    if assignor == "consistent-hash":
        return str(options.get("virtualNodes", 10))
    if assignor == "machine-room":
        rooms = options["rooms"]
        assert isinstance(rooms, frozenset)
        return "+".join(sorted(rooms))
    if assignor == "machine-room-nearby":
        within = str(options["within"])
        return f"{within}:{option(within, options)}"
    return ""


def _line(assignor: str, request: Request, repeats: int) -> str:
    members = (
        "|".join(
            [
                name,
                member.instance or "",
                member.zone or "",
                str(member.generation),
                ",".join(sorted(member.subscribed)),
                ",".join(f"{queue}:{number}" for queue, number in member.owned),
            ]
        )
        for name, member in request.members.items()
    )
    queues = (f"{queue}:{size}" for queue, size in request.queues.items())
    zones = (f"{queue}:{'/'.join('+'.join(sorted(where)) for where in of)}" for queue, of in request.zones.items() if of)
    return "\t".join(
        [assignor, str(repeats), ",".join(queues), ";".join(members), ",".join(zones), option(assignor, request.options)]
    )


def _answer(line: str) -> PeerAnswer:
    assignment, withheld, nanoseconds, allocated = line.split("\t")
    times = tuple(int(time) / 1e6 for time in nanoseconds.split(",") if time)
    return PeerAnswer(_hands(assignment), _hands(withheld), times, int(allocated))


def _hands(text: str) -> Hands:
    hands = (hand.split("=") for hand in text.split(";") if hand)
    return {name: [_partition(one) for one in partitions.split(",") if one] for name, partitions in hands}


def _partition(text: str) -> Partition:
    queue, number = text.split(":")
    return Partition(QueueName(queue), int(number))


def built() -> Path:
    """The folder with the compiled program and its jars, made if it is not there."""
    return made_once("peers", [HERE / source for source in SOURCES], _build)


def _build(work: Path) -> None:
    fetch_jars(HERE / "pom.xml", work / "lib")
    run(["javac", "-d", str(work), "-cp", f"{work / 'lib'}/*", str(HERE / "Peers.java")])
