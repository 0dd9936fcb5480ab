"""Every scenario file of the project does what it says, and the same thing every time."""

from pathlib import Path

import pytest

from baton.simulation import failures, read_scenario, simulate

HERE = Path(__file__).parent
FILES = sorted([*(HERE / "scenarios").rglob("*.yaml"), *(HERE.parent.parent / "manifests/examples/scenarios").glob("*.yaml")])
RULES = sorted((HERE / "scenarios/rules").glob("*.yaml"))
"""One rule each, and all that happens from their first expected line on."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_fleet_lives_as_expected(path: Path) -> None:
    scenario = read_scenario(path)
    assert scenario.expect, "a scenario that expects nothing tests nothing"
    assert failures(scenario.expect, simulate(scenario)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nobody_is_harmed_and_the_same_file_gives_the_same_lines(path: Path) -> None:
    scenario = read_scenario(path)
    once = simulate(scenario)
    assert once == simulate(scenario)
    assert once.summary["epoch_regressions"] == 0
    forced = any(queue.source.type == "External" for queue in scenario.queues.values())
    assert once.summary["dual_ownership"] == 0 or forced


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_grant_of_a_partition_that_had_an_owner_is_preceded_by_its_release(path: Path) -> None:
    owner: dict[tuple[str, int], str | None] = {}
    epochs: dict[tuple[str, int], int] = {}
    waived: dict[tuple[str, int], str | None] = {}
    now = 0.0
    for line in simulate(read_scenario(path)).lines[:-1]:
        assert line["t"] >= now
        now = line["t"]
        if "queue" not in line:
            continue
        partition = line["queue"], line["partition"]
        match line["event"]:
            case "revoke":
                assert owner[partition] == line["member"] and epochs[partition] == line["epoch"]
            case "release":
                # At its deadline a giver need not let go of what it is to have again; if that changes it has to, after all.
                assert line["member"] in (owner[partition], waived.get(partition))
                owner[partition] = None
                waived[partition] = line["member"] if line["how"] == "deadline" else None
            case "grant":
                assert owner.get(partition) is None
                assert line["epoch"] > epochs.get(partition, 0)
                assert line["epoch"] == 1 or partition in epochs
                owner[partition], epochs[partition] = line["member"], line["epoch"]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_nothing_else_happens_than_the_rule_says(path: Path) -> None:
    scenario = read_scenario(path)
    expected = scenario.expect["lines"]
    lines = [line for line in simulate(scenario).lines[:-1] if line["t"] >= expected[0]["t"]]
    assert [{key: line[key] for key in wanted} for wanted, line in zip(expected, lines, strict=True)] == expected
