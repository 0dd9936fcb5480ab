"""`python -m docs.generate`: write what of the pages is generated from code."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from baton.assignors import Traits
from baton.assignors.registry import DECLARED, DEFAULT
from baton.engine import state_machine
from baton.engine.rules import RULES, Mode, Rule

_CONCEPTS = Path(__file__).parent / "concepts"
_ASSIGNORS = _CONCEPTS / "assignors.md"

_STATES = """# The state machine

<!-- Generated from operator/baton/engine/state_machine.py by `make generate`. -->

The words are Solace's. A partition is **Unassigned** while it is mapped to nobody; **Unbound** while it is mapped to a member
that is not bound to it, because the slot is vacant or the queue has not taken the grant yet; **Ready** while its owner works
on it; **Paused** while it is handed over. A group is **Ready**, in **Holddown**, **Rebalancing** or **Paused**
([what that means](rebalancing.md)).

Everything in the last column is written to the ledger first and done afterwards, so whoever reads the ledger can go on. The
engine makes no other transition than these, but several of them may come together in one step: ten thousand random fleets are
[simulated](../development/simulation.md) to see that, and that each of them happens. Only a PartitionedQueue that is deleted
takes its partitions with it at once, whatever they are doing: nothing is left to act on.

"""

_STEP = """# What a step does, in order

<!-- Generated from operator/baton/engine/rules.py by `make generate`. -->

The engine is one pure function: the state of a group, what is observed of it, and the time, in; the next state and what is to
be done, out. A step applies the functions below from top to bottom, and nothing else changes the state of a group. The second
column names the [rules](rules.md) that a function keeps.

How much a step may decide depends on the group. It **decides**, as a rule. **Plans wait** while the ledger of another plan
would be too large, the group is **paused**, or its ledger is **full**; the third column says which of these a function needs.

| Function | Rules | Applied | What it does, and why here |
|---|---|---|---|
"""


_FIRST = "<!-- Generated from the declarations in operator/baton/assignors by `make generate`: -->\n"
_LAST = "<!-- End of what is generated. -->\n"


def _row(rule: Rule) -> str:
    module = rule.apply.__module__.rpartition(".")[-1]
    applied = "always" if rule.modes == frozenset(Mode) else " · ".join(mode for mode in Mode if mode in rule.modes)
    return f"| `{module}.{rule.name}` | {', '.join(rule.of)} | {applied} | {rule.why} |\n"


def _with_assignors(page: str) -> str:
    """The page about assignors, with the table of all of them."""
    before, _, rest = page.partition(_FIRST)
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in _assignors())
    return f"{before}{_FIRST}\n{table}\n{_LAST}{rest.partition(_LAST)[2]}"


def _assignors() -> Iterator[tuple[str, ...]]:
    yield "Name", "Source", "What it is good at", "What it costs", "Traits"
    yield ("---",) * 5
    for name, one in DECLARED.items():
        traits = ", ".join(f"`{field.name}`" for field in fields(Traits) if getattr(one.traits, field.name))
        yield f"`{name}`{' (default)' * (name == DEFAULT)}", one.source, one.good_at, one.costs, traits


def pages() -> dict[Path, str]:
    """The text of each page."""
    return {
        _CONCEPTS / "state-machine.md": _STATES + state_machine.page(),
        _CONCEPTS / "step.md": _STEP + "".join(map(_row, RULES)),
        _ASSIGNORS: _with_assignors(_ASSIGNORS.read_text()),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
