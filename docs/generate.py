"""`python -m docs.generate`: write the pages that are generated from code."""

from pathlib import Path

from baton.engine.state_machine import page

PATH = Path(__file__).parent / "concepts" / "state-machine.md"
INTRODUCTION = """# The state machine

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


def text() -> str:
    return INTRODUCTION + page()


if __name__ == "__main__":
    PATH.write_text(text())
