"""What a benchmark that compares says: progress on standard error, a table for people, and a last line of JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Case:
    """One line."""

    name: str
    ours: float
    peer: float
    ratio: float
    unit: str


def compared(name: str, unit: str, ours: Sequence[float], peer: Sequence[float]) -> Case:
    """Medians of the rounds, with three digits; the ratio is 0 beside a peer that needed nothing."""
    mine, others = median(ours), median(peer)
    return Case(name, _rounded(mine), _rounded(others), _rounded(mine / others) if others else 0.0, unit)


def tell(what: str) -> None:
    """How far it is."""
    print(what, file=sys.stderr, flush=True)


def report(cases: Iterable[Case], width: int, peer: str = "peer") -> None:
    """Print each case as soon as it is there, and all of them in the end. `width`: of the names."""
    found: list[Case] = []
    print(f"{'':{width}}{'ours':>9}{peer:>10}{'ratio':>8}", flush=True)
    for case in cases:
        print(f"{case.name:{width}}{case.ours:>9,g}{case.peer:>10,g}{case.ratio:>8g}  {case.unit}", flush=True)
        found.append(case)
    print(json.dumps({"cases": [asdict(case) for case in found]}))


def _rounded(figure: float) -> float:
    return float(f"{figure:.3g}")
