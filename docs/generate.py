"""`python -m docs.generate`: write the pages that are generated from code."""

from pathlib import Path

from baton.engine import state_machine
from baton.engine.rules import RULES, Mode, Rule

_CONCEPTS = Path(__file__).parent / "concepts"

_STATES = """# The state machine

<!-- Generated from operator/baton/engine/state_machine.py by `make generate`. -->

The words are Solace's. A partition is **Unassigned** while it is mapped to nobody; **Unbound** while it is mapped to a member
that is not bound to it, because the seat is vacant or the queue has not taken the grant yet; **Ready** while its owner works
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


def _row(rule: Rule) -> str:
    module = rule.apply.__module__.rpartition(".")[-1]
    applied = "always" if rule.modes == frozenset(Mode) else " · ".join(mode for mode in Mode if mode in rule.modes)
    return f"| `{module}.{rule.name}` | {', '.join(rule.of)} | {applied} | {rule.why} |\n"


def pages() -> dict[Path, str]:
    """The text of each page."""
    return {
        _CONCEPTS / "state-machine.md": _STATES + state_machine.page(),
        _CONCEPTS / "step.md": _STEP + "".join(map(_row, RULES)),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
