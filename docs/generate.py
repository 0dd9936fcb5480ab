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

The words are Solace's. A partition is **Unassigned** while it is mapped to no member. It is **Unbound** while it is mapped to a
member that is not bound to it, because the slot is vacant or the queue has not accepted the grant yet. It is **Ready** while
its owner works on it, and **Paused** during a hand-off. A group is **Ready**, in **Holddown**, **Rebalancing** or **Paused**
([what that means](rebalancing.md)).

The operator writes everything in the last column to the ledger first and does it afterwards, so a reader of the ledger can go
on. The engine makes no other transition, but one step may make several. [Two hundred and fifty random
fleets](../development/simulation.md) show that, and more that each happens. Only the deletion of a PartitionedQueue
removes its partitions at once, in any state, because no queue is left to act on.

"""

_STEP = """# What a step does, in order

<!-- Generated from operator/baton/engine/rules.py by `make generate`. -->

The engine is one pure function. It gets the state of a group, an observation and the time, and returns the next state and its
effects. A step applies the functions below from top to bottom, and no other code changes the state of a group. The second
column names the [rules](rules.md) that a function keeps.

The mode of a step says what it may decide. Normally it **decides**. **Plans wait** while the ledger has no room for another
plan. The group may be **paused**, or its ledger **full**. The third column has the modes in which a function applies.

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
