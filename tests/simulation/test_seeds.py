"""Random fleets, 100 and in `make test-long` two thousand, each from one seed, with everything that can go wrong.

What is checked is in `seeds/checks.py`, from the consumers' side; how the world works is in docs/development/simulation.md.
"""

import os
import random

import pytest

from baton.engine.state_machine import GROUP_TRANSITIONS, PARTITION_TRANSITIONS, PartitionState
from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.life import Event, Life
from tests.simulation.seeds.play import Played, live
from tests.simulation.seeds.tenant import Tenant
from tests.simulation.seeds.troubles import Troubles
from tests.simulation.seeds.workers import Found, play_all

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "100"))
PART = 25
"""Seeds of one test: xdist's workers share them."""
MANY = 2000
PARTITION = {(turn.before, turn.after) for turn in PARTITION_TRANSITIONS}
GROUP = {(turn.before, turn.after) for turn in GROUP_TRANSITIONS}


def played(first: int, seeds: int) -> Found:
    together = Found([], set())
    for _, part in play_all(first, seeds):
        together.wrong.extend(part.wrong)
        together.turns.update(part.turns)
    return together


def harmless(found: Found) -> None:
    assert not found.wrong, "\n".join(
        f"{problem}\n    make simulate-long FROM={seed} SEEDS=1" for seed, problem in found.wrong[:10]
    )


def seen(found: Found, kind: str) -> set[tuple[str | None, str | None]]:
    return {(before, after) for of, before, after in found.turns if of == kind}


def keeps_to_the_table(found: Found) -> None:
    """The engine makes no other transitions than those of the table, or two of them in one step."""
    together = {(one, other) for one, middle in PARTITION for again, other in PARTITION if middle == again}
    assert seen(found, "partition") - PARTITION - together == set()
    assert seen(found, "group") - GROUP == set()


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_random_faults_break_no_promise(first: int) -> None:
    found = played(first, min(PART, SEEDS - first))
    harmless(found)
    keeps_to_the_table(found)


def late_answer() -> Played:
    """The only member is drained while the answers to its grants are on their way, so its partitions have no receiver any more.
    Then the answers arrive. No seed of the first 3,900 has this order of events."""
    environment = Environment(0, Troubles(random.Random(0)))
    spec = {
        "queues": [{"name": "orders"}],
        "assignors": ["solace"],
        "protocol": "Cooperative",
        "rebalance": {"delaySeconds": 3, "resyncSeconds": 5, "maxConcurrentHandoffs": 0},
        "membership": {"session": "Optional"},
    }
    source = {"type": "Redis", "redis": {"url": "redis://redis:6379"}}
    queue = {"source": source, "partitions": 2, "rebalance": {"maxHandoffSeconds": 2}}
    tenant = Tenant(environment, "shop", "orders", spec, {"orders": queue})
    tenant.servers["orders"].grants_answered_after = 3.0
    pod = {"instance": None, "subscribed": None, "pace": 0.5, "work": 0.3, "silent": False, "lease": 6.0}
    events = [
        Event(10.0, "shop", "join", ("a", pod)),
        Event(14.0, "shop", "drain", ("a", True)),
        Event(20.0, "shop", "join", ("b", pod)),
    ]
    return live(Life(environment, [tenant], 1, events, None, None, False))


def test_a_late_answer_to_a_grant_makes_a_drained_pod_the_owner() -> None:
    played = late_answer()
    assert played.problem is None
    assert ("partition", PartitionState.UNASSIGNED, PartitionState.READY) in played.turns


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_each_transition_of_the_table_happens() -> None:
    found = played(0, MANY)
    harmless(found)
    found.turns.update(late_answer().turns)
    missing = PARTITION - seen(found, "partition"), GROUP - seen(found, "group")
    assert missing == (set(), set()), "the table has what never happens"
