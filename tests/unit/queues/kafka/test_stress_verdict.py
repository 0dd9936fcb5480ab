"""The verdict of Kafka's stress test finds faults in made-up lines."""

import pytest

from tests.integration.kafka.stress.verdict import Line, Verdict, lines, verdict

ALL_RIGHT = Verdict([], {}, [], [], [])
RECEIVED = "granting 0 1 0 0; handled 0 1 0 0; taken 0 1 1 0; handled 0 1 1 0; granting 0 2 0 0; "
"""The second owner begins at an entry that the first has handled and not committed."""
OVERLAPPING = "handled 0 1 0 0; granting 0 2 0 0; handled 0 1 1 0; handled 0 2 0 1; handled 0 2 1 0; handled 0 2 2 0"
"""The first owner handles another entry once the grant to the second has begun."""
UNDONE = {"stale": [Line("taken", 0, 1, 1, False)], "undone": [Line("handled", 0, 2, 0, True)]}
"""A commit that the next owner does not know counts twice: it was accepted, and its entry is handled again."""


@pytest.mark.parametrize(
    ("told", "sent", "faults"),
    [
        (f"{RECEIVED}handled 0 2 1 1", 2, {}),
        (f"{RECEIVED}handled 0 2 1 0", 2, {"unmarked": [Line("handled", 0, 2, 1, False)]}),
        (OVERLAPPING, 3, {}),
        (f"{OVERLAPPING}; handled 0 2 1 0", 3, {"unmarked": [Line("handled", 0, 2, 1, False)]}),
        ("handled 0 1 0 0; handled 0 1 2 0", 4, {"lost": {0: 1}, "overtaken": [Line("handled", 0, 1, 2, False)]}),
        ("handled 0 1 0 0; taken 0 1 1 0; handled 0 2 1 0", 2, {}),
        ("handled 0 1 0 0; handled 0 2 0 1; taken 0 1 1 0", 1, {"stale": [Line("taken", 0, 1, 1, False)]}),
        ("handled 0 1 0 0; taken 0 1 1 0; handled 0 2 0 1", 1, UNDONE),
    ],
    ids=[
        "an entry in hand before a grant is redelivered marked",
        "an entry in hand before a grant is redelivered unmarked",
        "an entry handled after a grant began may come unmarked",
        "the owner handles its own entry twice unmarked",
        "an entry is skipped and the last is never handled",
        "the next owner begins at the commit",
        "a commit is accepted after the next owner began before it",
        "an entry is handled again after a confirmed commit",
    ],
)
def test_each_fault_of_a_partition_is_found(told: str, sent: int, faults: dict[str, object]) -> None:
    assert verdict(lines(told.replace("; ", "\n")), {0: sent}) == ALL_RIGHT._replace(**faults)  # type: ignore[arg-type]
