"""Every scenario file of the project does what it says, and the same thing every time."""

from functools import cache
from pathlib import Path

import pytest

from baton.simulation import Result, Scenario, failures, read_scenario, simulate

HERE = Path(__file__).parent
FILES = sorted([*(HERE / "scenarios").rglob("*.yaml"), *(HERE.parent.parent / "manifests/examples/scenarios").glob("*.yaml")])
RULES = sorted((HERE / "scenarios/rules").glob("*.yaml"))
"""One rule each, with all lines from the first expected one on. Moves are as few as possible unless a file says otherwise."""


@cache
def played(path: Path) -> tuple[Scenario, Result]:
    scenario = read_scenario(path)
    return scenario, simulate(scenario)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_meets_its_expectations(path: Path) -> None:
    scenario, run = played(path)
    assert scenario.expect, "a scenario that expects nothing tests nothing"
    assert failures(scenario.expect, run) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_is_deterministic_without_dual_ownership(path: Path) -> None:
    scenario, once = played(path)
    assert once == simulate(scenario)
    assert once.summary["epoch_regressions"] == 0
    forced = any(queue.source.type == "External" for queue in scenario.queues.values())
    assert once.summary["dual_ownership"] == 0 or forced


def identities(scenario: Scenario) -> dict[str, str]:
    """Pod name -> identity. Pods with the same identity are one member if slots are reserved for them."""
    if not scenario.group.get("membership", {}).get("sessionTimeoutSeconds"):
        return {}
    return {member.id: member.instance for event in scenario.events for member in event.join if member.instance}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_lines_add_up_to_the_summary(path: Path) -> None:
    owner: dict[tuple[str, int], str] = {}
    epochs: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], str] = {}
    kept: set[tuple[str, int]] = set()
    paused: dict[tuple[str, int], float] = {}
    moves, misses, pauses, alone, now = 0, 0, 0.0, 0.0, 0.0
    scenario, run = played(path)
    of = identities(scenario)
    unowned = {(name, number): 0.0 for name, queue in scenario.queues.items() for number in range(queue.partitions)}
    *lines, summary = run.lines
    for line in lines:
        assert line["t"] >= now
        now = line["t"]
        if "queue" not in line:
            continue
        partition = line["queue"], line["partition"]
        match line["event"]:
            case "revoke":
                assert owner[partition] == line["member"] and epochs[partition] == line["epoch"]
                paused.setdefault(partition, now)
            case "miss":
                assert owner[partition] == line["member"]
                misses += 1
                if line["taken"]:
                    owner.pop(partition)
                    unowned[partition] = now
                else:
                    kept.add(partition)
            case "release":
                assert owner.pop(partition) == line["member"]
                kept.discard(partition)
                unowned[partition] = now
            case "grant":
                assert partition not in owner or (partition in kept and owner[partition] == line["member"])
                assert line["epoch"] > epochs.get(partition, 0)
                assert line["epoch"] == 1 or partition in epochs
                member = of.get(line["member"]) or line["member"]
                moves += last.get(partition, member) != member
                owner[partition], last[partition] = line["member"], member
                epochs[partition] = line["epoch"]
                pauses += now - paused.pop(partition, now)
                alone += now - unowned.pop(partition, now)
                kept.discard(partition)
    owned: dict[str, dict[str, list[int]]] = {}
    for (queue, number), member in sorted(owner.items()):
        owned.setdefault(member, {}).setdefault(queue, []).append(number)
    alone += sum(scenario.until - since for since in unowned.values())
    assert scenario.expect.get("pause_seconds", pauses) == pytest.approx(summary["pause_seconds"])
    assert path not in RULES or scenario.expect.get("unowned_seconds", alone) == pytest.approx(summary["unowned_seconds"])
    assert (moves, misses, owned) == (summary["moves"], summary["deadline_misses"], summary["assignment"])


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_nothing_but_the_expected_lines_happens(path: Path) -> None:
    scenario, run = played(path)
    expected = scenario.expect["lines"]
    lines = [line for line in run.lines[:-1] if line["t"] >= expected[0]["t"]]
    assert [{key: line[key] for key in wanted} for wanted, line in zip(expected, lines, strict=True)] == expected
    assert run.summary["lower_bound"] == scenario.expect.get("lower_bound", run.summary["moves"])
