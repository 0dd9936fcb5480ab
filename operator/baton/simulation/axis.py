"""A scale for time that leaves out what nobody looks for: long times in which the group is at rest."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from baton.simulation.history import History, WorkPhase

_REST = 0.15
"""A time at rest is drawn no longer than this part of the time in which something goes on."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps times to places between 0 and 1."""

    times: tuple[float, ...]
    places: tuple[float, ...]
    cuts: tuple[float, ...]
    """Places within times that are drawn shorter than they are; late in them, for names stand early."""

    def place(self, at: float) -> float:
        n = min(max(bisect_right(self.times, at) - 1, 0), len(self.times) - 2)
        start, end = self.times[n], self.times[n + 1]
        part = (at - start) / (end - start)
        return self.places[n] + (self.places[n + 1] - self.places[n]) * min(max(part, 0.0), 1.0)


def axis(history: History) -> Axis:
    """Between two instants at which anything changes the scale is even."""
    busy = _busy(history)
    last = history.until or 1.0
    changes = {0.0, last, *(mark.at for mark in history.marks), *(spell.start for spell in history.spells)}
    changes |= {at for start, end in busy for at in (start, end)}
    times = sorted(changes)
    spans = list(pairwise(times))
    starts = [start for start, _ in busy]

    def rests(start: float) -> bool:
        n = bisect_right(starts, start) - 1
        return n < 0 or busy[n][1] <= start

    active = sum(end - start for start, end in spans if not rests(start))
    longest = _REST * active if active else last
    lengths = [min(end - start, longest) if rests(start) else end - start for start, end in spans]
    total = sum(lengths)
    places = [0.0]
    for length in lengths:
        places.append(places[-1] + length / total)
    cut = [n for n, (start, end) in enumerate(spans) if lengths[n] < 0.5 * (end - start)]
    return Axis(tuple(times), tuple(places), tuple(places[n] + 0.75 * (places[n + 1] - places[n]) for n in cut))


def _busy(history: History) -> list[tuple[float, float]]:
    """Times in which the group is not Ready or a partition is without work, joined where they touch."""
    spans = [(spell.start, spell.end) for spell in history.spells if spell.state in ("Holddown", "Rebalancing")]
    spans += [(s.start, s.end) for row in history.rows for s in row.stretches if s.phase is not WorkPhase.OWNED]
    joined: list[tuple[float, float]] = []
    for start, end in sorted(set(spans)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
