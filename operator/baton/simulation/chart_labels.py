"""Where the words for the fleet's events stand: flags on lanes, so that no words and no stems cross."""

from collections.abc import Sequence

from baton.simulation.history import Mark, names

Flag = tuple[int, str]
"""A place (a column, or a pixel) and words that begin there."""

_MOST_LANES = 8


def lanes(marks: Sequence[tuple[int, Mark]], across: int, letter: float) -> list[list[Flag]]:
    """Lanes from the top down; a stem goes down from each flag.

    `marks` come with their places in [0, across), `letter` is how wide one is. A later flag is on a lower
    lane than any earlier one whose words reach so far. Where that makes too many lanes, neighbours share a flag.
    """
    bucket = 1
    while True:
        placed = _stacked(_shared(marks, bucket), letter)
        if len(placed) <= _MOST_LANES or bucket > across:
            return placed
        bucket *= 2


def _shared(marks: Sequence[tuple[int, Mark]], bucket: int) -> list[Flag]:
    flags: dict[int, list[tuple[int, str]]] = {}
    for place, mark in sorted(marks, key=lambda one: one[0]):
        flags.setdefault(place // bucket, []).append((place, mark.text))
    return [(those[0][0], names([text for _, text in those], 2)) for those in flags.values()]


def _stacked(flags: Sequence[Flag], letter: float) -> list[list[Flag]]:
    lanes: list[list[Flag]] = []
    for place, text in flags:
        covered = [n for n, lane in enumerate(lanes) if lane[-1][0] + (len(lane[-1][1]) + 3) * letter > place]
        lane = max(covered, default=-1) + 1
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((place, text))
    return lanes
