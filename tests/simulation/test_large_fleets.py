"""Large fleets: no more moves than needed, whatever an autoscaler, a crash or a roll-out does."""

from typing import Any

import pytest

from baton.simulation import parse_scenario, simulate

MEMBERS = [f"m{number:03d}" for number in range(200)]
PARTITIONS = 2000


def flapping() -> list[dict[str, Any]]:
    """An autoscaler adds a quarter, and takes it back within the delay, twenty times."""
    extra = [f"f{number}" for number in range(50)]
    return [event for n in range(20) for event in ({"at": 60 + 10 * n, "join": extra}, {"at": 63 + 10 * n, "leave": extra})]


def mass_crash() -> list[dict[str, Any]]:
    """Half of the fleet dies, and comes back as other pods when all is shared out."""
    return [{"at": 60, "leave": MEMBERS[:100]}, {"at": 120, "join": [f"n{number}" for number in range(100)]}]


def rolling_restart() -> list[dict[str, Any]]:
    """Ten new pods, then ten old pods less, twenty times."""
    steps = range(0, len(MEMBERS), 10)
    joins = [{"at": 60 + n, "join": [f"r{n + k}" for k in range(10)]} for n in steps]
    return joins + [{"at": 61 + n, "terminate": MEMBERS[n : n + 10]} for n in steps]


def node_after_node() -> list[dict[str, Any]]:
    """Nodes of thirty pods die one after the other, all within one delay."""
    return [{"at": 60 + n, "leave": MEMBERS[30 * n : 30 * n + 30]} for n in range(5)]


def growth() -> list[dict[str, Any]]:
    """The queue doubles, then a third joins."""
    return [{"at": 60, "scale": {"orders": 2 * PARTITIONS}}, {"at": 120, "join": [f"g{number}" for number in range(67)]}]


@pytest.mark.parametrize(
    ("events", "moves"),
    [(flapping, 0), (mass_crash, 2000), (rolling_restart, 2000), (node_after_node, 1500), (growth, 1000)],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_a_large_fleet_moves_no_more_than_it_must(events: Any, moves: int) -> None:
    scenario = {
        "queues": {"orders": PARTITIONS},
        "group": {"rebalance": {"delaySeconds": 5, "maxHandoffSeconds": 3}},
        "events": [{"at": 0, "join": MEMBERS}, *events()],
        "until": 600,
    }
    summary = simulate(parse_scenario(scenario)).summary
    assert summary["moves"] == summary["lower_bound"] == moves
    assert summary["dual_ownership"] == summary["epoch_regressions"] == summary["deadline_misses"] == 0
    assert summary["state"] == "Ready"
    counts = [len(queues["orders"]) for queues in summary["assignment"].values()]
    assert max(counts) - min(counts) <= 1
