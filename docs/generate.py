"""`python -m docs.generate`: write the generated parts of the pages."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from baton.assignors import Traits
from baton.assignors.registry import DECLARED, DEFAULT
from baton.engine import state_machine

_CONCEPTS = Path(__file__).parent / "concepts"
_ASSIGNORS = _CONCEPTS / "assignors.md"

_STATES = """# The state machine

<!-- Generated from operator/baton/engine/state_machine.py by `make generate`. -->

All transitions of partitions and [groups](rebalancing.md#the-states-of-a-group), with Solace's names. A partition is
**Unassigned** while it is mapped to no member, **Unbound** while its member is not bound to it (a vacant slot, or a grant under
way), **Ready** while its owner works on it, and **Paused** during a hand-off.

The operator writes the last column to the ledger first and does it afterwards. One step may make several transitions
([tested](../development/simulation.md)). The deletion of a PartitionedQueue removes its partitions in any state.

"""

_FIRST = "<!-- Generated from the declarations in operator/baton/assignors by `make generate`: -->\n"
_LAST = "<!-- End of what is generated. -->\n"


def _with_assignors(page: str) -> str:
    """The page about assignors, with a table of all."""
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
        _ASSIGNORS: _with_assignors(_ASSIGNORS.read_text()),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
