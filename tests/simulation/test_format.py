"""`baton simulate`: the lines that it prints, and what it says of files that make no sense."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from baton.cli.simulate import simulate
from baton.simulation import TooMuchWork, parse_scenario
from baton.simulation import simulate as live

SMALL = """
queues: {orders: 2}
group: {rebalance: {delaySeconds: 2, maxHandoffSeconds: 3}}
consumers: {release: 0.25}
events:
  - {at: 0, join: [a]}
  - {at: 10.5, join: [b]}
until: 20
"""


def run(tmp_path: Path, text: str, *options: str) -> Result:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return CliRunner().invoke(simulate, [str(path), *options])


def lines(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    result = run(tmp_path, text, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_the_json_output_is_stable(tmp_path: Path) -> None:
    assert run(tmp_path, SMALL, "--json").output.splitlines() == [
        '{"t":0,"event":"state","state":"Holddown","until":2}',
        '{"t":2,"event":"state","state":"Rebalancing"}',
        '{"t":2,"event":"grant","queue":"orders","partition":0,"member":"a","epoch":1}',
        '{"t":2,"event":"grant","queue":"orders","partition":1,"member":"a","epoch":1}',
        '{"t":2,"event":"state","state":"Ready"}',
        '{"t":10.5,"event":"state","state":"Holddown","until":12.5}',
        '{"t":12.5,"event":"state","state":"Rebalancing"}',
        '{"t":12.5,"event":"revoke","queue":"orders","partition":1,"member":"a","epoch":1,"deadline":15.5}',
        '{"t":12.75,"event":"release","queue":"orders","partition":1,"member":"a","how":"consumer"}',
        '{"t":12.75,"event":"grant","queue":"orders","partition":1,"member":"b","epoch":2}',
        '{"t":12.75,"event":"state","state":"Ready"}',
        '{"event":"summary","moves":1,"lower_bound":1,"deadline_misses":0,"dual_ownership":0,"epoch_regressions":0,'
        '"pause_seconds":0.25,"unowned_seconds":4,"state":"Ready","generation":2,'
        '"assignment":{"a":{"orders":[0]},"b":{"orders":[1]}}}',
    ]


def test_equal_sums_of_durations_are_the_same_instant(tmp_path: Path) -> None:
    text = """
queues: {orders: 2}
group: {rebalance: {delaySeconds: 0.1, maxHandoffSeconds: 0.2}}
consumers: {release: null}
events:
  - {at: 0, join: [a]}
  - {at: 0.7, join: [b]}
  - {at: 1.0, join: [c]}
until: 2
"""
    assert [line["t"] for line in lines(tmp_path, text) if line["event"] == "miss"] == [1]


def test_one_instant_lists_releases_grants_revokes_standbys(tmp_path: Path) -> None:
    text = """
queues: {orders: 4}
group: {rebalance: {delaySeconds: 5, maxHandoffSeconds: 3, maxConcurrentHandoffs: 1}}
consumers: {release: 1}
events:
  - {at: 0, join: [a]}
  - {at: 10, join: [b]}
  - {at: 16, join: [c, d]}
  - {at: 16.0, join: [e]}
until: 60
"""
    order = {"state": -1, "fenced": 0, "release": 1, "grant": 2, "revoke": 3, "standby": 4}
    seen = lines(tmp_path, text)
    at_16 = [order[line["event"]] for line in seen if line.get("t") == 16]
    assert at_16 == sorted(at_16) and {1, 2, 3} <= set(at_16)


def test_the_story_gives_the_reason_of_every_change(tmp_path: Path) -> None:
    story = run(tmp_path, SMALL, "--story").output
    assert "12.5  Rebalancing" in story
    assert "a is to release orders 1 by 15.5" in story
    assert "b joined" in story
    assert "1 move; the rebalances needed 1 at least." in story


def test_a_check_that_holds_exits_zero(tmp_path: Path) -> None:
    result = run(tmp_path, SMALL + "expect: {moves: 1, most_paused: 1, lines: [{t: 12.75, member: b}]}", "--check")
    assert result.exit_code == 0
    assert result.output.endswith("scenario.yaml: ok\n")


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("{moves: 2}", "expect.moves: expected 2, found 1"),
        ("{most_paused: 7}", "expect.most_paused: expected 7, found 1"),
        ("{movs: 1}", "expect.movs: there is no such field; choose one of moves, "),
        (
            "{lines: [{t: 2, event: grant}, {t: 0, event: state}]}",
            "expect.lines.1: no line with {t: 0, event: state} after {t: 2",
        ),
        ("{lines: 5}", "expect.lines: give a list of partial objects"),
    ],
)
def test_a_failing_check_names_the_expectation(tmp_path: Path, expect: str, message: str) -> None:
    result = run(tmp_path, SMALL + f"expect: {expect}", "--check")
    assert result.exit_code == 1
    assert message in result.output


def test_a_failing_check_with_json_reports_on_stderr(tmp_path: Path) -> None:
    result = run(tmp_path, SMALL + "expect: {moves: 2}", "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[-1])["event"] == "summary"
    assert "expect.moves: expected 2, found 1" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queues: {orders: 2}\nevents: []\n", "until: is missing; add it"),
        ("- a\n", "a scenario is a mapping with queues, group, consumers, events and until"),
        ("queues: {orders: 2\n", "line 2: not YAML"),
        (
            "queues: {orders: two}\nuntil: 5\n",
            "queues.orders: expected a number of partitions, or a PartitionedQueue's spec, found 'two'",
        ),
        ("queues: {orders: -1}\nuntil: 5\n", "queues.orders.partitions: "),
        ("queues: {orders: 2}\nuntil: 5\nevent: []\n", "event: there is no such field; did you mean events?"),
        ("queues: {orders: 2}\nuntil: 5\nevents: [{at: 1, jion: [a]}]\n", "events.0.jion: there is no such field"),
        (
            "queues: {orders: 2}\nconsumers: {relase: 0.8}\nuntil: 5\n",
            "consumers.relase: expected {release: SECONDS}, for a member of",
        ),
        (
            "queues: {orders: {partitions: 2, source: {tpye: Redis}}}\nuntil: 5\n",
            "queues.orders.source.tpye: there is no such field; did",
        ),
        ("queues: {orders: 2}\nuntil: 5\nevents: [{at: 1}]\n", "events.0: says nothing; add one of join, leave"),
        ("queues: {orders: 2}\nuntil: 5\nevents: [{at: 1, scale: {order: 3}}]\n", "events.0.scale.order: there is no such queue"),
        ("queues: {orders: 2}\nuntil: 5\ngroup: {rebalance: {delaySeconds: -1}}\n", "group.rebalance.delaySeconds: "),
        (
            "queues: {orders: 2}\nuntil: 5\ngroup: {assignors: [solice]}\n",
            "group.assignors: there is no assignor 'solice'; did you mean solace?\n",
        ),
        (
            "queues: {orders: 2}\nuntil: 5\nevents: [{at: 1, group: {protocol: Eagre}}]\n",
            "events.0.group.protocol: input should be 'Cooperative' or 'Eager', found 'Eagre'",
        ),
        ("queues: {orders: 2}\nuntil: 5\nconsumers: {a: {release: soon}}\n", "consumers.a.release: "),
        ("queues: {orders: [2, null]}\nuntil: 5\n", "or a PartitionedQueue's spec, found [2, null]\n"),
        (
            "queues: {orders: 2}\nuntil: 5\nevents: [{at: 7.5, join: [a]}]\n",
            "events.0.at: 7.5 is after until (5), so it does not happen; raise until, or remove the event\n",
        ),
        (
            "queues: {orders: {type: External, partitions: 2, maxRedeliveries: 3}}\nuntil: 5\n",
            "queues.orders: spec.maxRedeliveries has no effect for External: remove it (it is for Redis, Kafka)\n",
        ),
        (
            "queues: {orders: {partitions: 2, onDeadline: Force}}\nuntil: 5\n",
            "queues.orders: spec.source.external belongs to spec.source.type External only: remove it",
        ),
        (
            "queues: {orders: 2}\nuntil: 5\nevents: [{at: 1, queues: {orders: {onDeadline: Force}}}]\n",
            "events.0.queues.orders: spec.source.external belongs to spec.source.type External only: remove it",
        ),
        ("until: 5\nqueues: {a: 1}\nqueues: {b: 1}\n", "line 3: the key 'queues' is here a second time"),
        ("queues: {a: 1}\nuntil: 5\nevents: [{at: yes, join: [b]}]\n", "events.0.at: expected a number, found true"),
        ("queues: {a: 1}\nuntil: 5\nevents: [{at: .nan, join: [b]}]\n", "events.0.at: "),
        ("queues: {a: 1}\nuntil: .inf\n", "until: "),
        ("queues: {a: 1}\nuntil: 5\nevents: [{at: 1, join: [no]}]\n", "events.0.join.0.id: write the name in quotes"),
        (
            'queues: {a: 1}\nuntil: 5\nevents: [{at: 1, join: ["a\\e[2J"]}]\n',
            "events.0.join.0.id: remove the characters that cannot be printed",
        ),
        ("queues: {a: 1}\nuntil: 5\nevents: [{at: 1, leave: [b]}]\n", "events.0.leave.0: 'b' has not joined by 1"),
        (
            "queues: {a: 1}\nuntil: 5\nevents: [{at: 2, terminate: [pod-1]}, {at: 1, join: [pod-2]}]\n",
            "events.0.terminate.0: 'pod-1' has not joined by 2; did you mean pod-2?",
        ),
        ("queues: {a: 1}\nuntil: 5\nevents: [{at: 1, leave: [b]}, {at: 3, join: [b]}]\n", "it first joins at 3"),
        ("queues: {a: 1}\nuntil: 5\ngroup: {rebalance: {resyncSeconds: 1.0e-9}}\n", "group.rebalance.resyncSeconds: "),
        ("queues: {a: 1}\nuntil: " + "9" * 5000, "a value cannot be read"),
        ("queues: {a: 1}\nuntil: 5\nexpect: " + "[" * 3000, "it is nested too deeply"),
        ("queues: &a [*a]\nuntil: 5\n", "queues: "),
        ('queues: {a: 1}\nuntil: "\\ud800"\n', "line 2: half of a character (a surrogate); write the whole of it"),
        ('queues: {a: 1}\nuntil: 5\ngroup: {"\\ud800": 1}\n', "line 3: half of a character"),
        (
            "queues: {a: 1}\nuntil: 5\nevents: [{at: 1, join: [group]}]\n",
            "events.0.join.0.id: a pod of this name cannot take part, because the ledger has a key of that name; give it another",
        ),
        ("queues: {a: 1000000}\nuntil: 5\n", "queues.a.partitions: input should be less than or equal to 100000"),
        ("queues: {a: 60000, b: 60000}\nuntil: 5\n", "queues: the queues have 120,000 partitions together; a simulation has"),
        (
            "queues: {a: 60000}\nuntil: 5\nevents: [{at: 1, queues: {b: 60000}}]\n",
            "events.0: the queues have 120,000 partitions together",
        ),
    ],
)
@pytest.mark.parametrize("option", ["--json", "--check"])
def test_a_bad_file_gets_one_line_with_the_field(tmp_path: Path, text: str, message: str, option: str) -> None:
    result = run(tmp_path, text, option)
    assert result.exit_code == (2 if option == "--json" else 1)
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(simulate, [str(tmp_path / "none.yaml"), "--json"])
    assert result.exit_code == 2
    assert "No such file" in result.output


def test_a_setting_with_several_values_prints_a_table(tmp_path: Path) -> None:
    result = run(tmp_path, SMALL, "--set", "group.rebalance.delaySeconds=0,4", "--set", "queues.orders=2,4")
    assert result.output.splitlines() == [
        "| delaySeconds | orders | moves | at least | paused s | paused at once | unowned s | missed |",
        "|-------------:|-------:|------:|---------:|---------:|---------------:|----------:|-------:|",
        "|            0 |      2 |     1 |        1 |     0.25 |              1 |         0 |      0 |",
        "|            0 |      4 |     2 |        2 |      0.5 |              2 |         0 |      0 |",
        "|            4 |      2 |     1 |        1 |     0.25 |              1 |         0 |      0 |",
        "|            4 |      4 |     2 |        2 |      0.5 |              2 |         0 |      0 |",
    ]


def test_a_setting_with_one_value_changes_the_file(tmp_path: Path) -> None:
    changed = run(tmp_path, SMALL, "--json", "--set", "group.rebalance.delaySeconds=3", "--set", "queues.orders.partitions=3")
    assert '{"t":0,"event":"state","state":"Holddown","until":3}' in changed.output
    assert '"partition":2' in changed.output


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("group", "write PATH=VALUE or PATH=VALUE,VALUE"),
        ("group..delay=3", "write PATH=VALUE"),
        ("group.rebalance.delaySecond=3", "group.rebalance.delaySecond: there is no such field; did you mean delaySeconds?"),
        ("events.7.at=3", "--set events.7.at: 7 is no place in a list of 2"),
        ("until.a=3", "--set until.a: until is 20, in which nothing can be set"),
        ("group.assignors=[", "--set group.assignors=[: line 1: not YAML"),
    ],
)
def test_an_invalid_setting_gets_one_line(tmp_path: Path, setting: str, message: str) -> None:
    result = run(tmp_path, SMALL, "--set", setting)
    assert result.exit_code == 2
    assert message in result.output and len(result.output.splitlines()) == 1


def test_json_needs_a_single_value(tmp_path: Path) -> None:
    assert run(tmp_path, SMALL, "--json", "--set", "until=5,10").exit_code == 2


def test_a_simulation_with_too_much_work_is_refused() -> None:
    with pytest.raises(TooMuchWork, match=r"more than a simulation can do: it came to 12\.75 of 20 s; give fewer partitions"):
        live(parse_scenario(yaml.safe_load(SMALL)), most_work=40)


def test_too_many_combinations_are_refused(tmp_path: Path) -> None:
    many = ",".join(map(str, range(40)))
    result = run(tmp_path, SMALL, "--set", f"until={many}", "--set", f"group.rebalance.delaySeconds={many}")
    assert result.exit_code == 2 and "these are 1,600 combinations; 1,000 is the most" in result.output


def test_a_long_life_at_rest_takes_no_time(tmp_path: Path) -> None:
    text = SMALL.replace("until: 20", "until: 1000000000").replace("delaySeconds: 2", "delaySeconds: 2, resyncSeconds: 0.001")
    assert '"moves":1' in run(tmp_path, text, "--json").output
