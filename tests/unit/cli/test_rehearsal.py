"""`baton plan --explain`: the moves of a plan, and their explanation."""

import json
import random
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from rich.console import Console

from baton.api.group import Approval, GroupRebalance, ScaleMode
from baton.assignors import Request, get
from baton.assignors.building_blocks import holders
from baton.cli.cluster import NoAnswerError
from baton.cli.main import main
from baton.cli.rehearsal import Comparison, WhatIf, compare, explanation
from baton.engine import dump, load
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.model.ids import QueueName
from baton.simulation.virtual_time import run
from tests.unit.assignors.worlds import requests
from tests.unit.engine.group import Group

NOW = 1_795_273_758.4289183


def compared(group: Group, **what_if: object) -> Comparison:
    before = group.state
    made = run(compare("shop/orders", load(dump(before)), group.observe(), WhatIf(**what_if), NOW))  # type: ignore[arg-type]
    assert group.state is before
    return made


def counts(made: Comparison) -> dict[str, tuple[int, int]]:
    return {change.member: (change.before, change.after) for change in made.changes}


def test_a_balanced_group_moves_nothing() -> None:
    made = compared(Group(4).start("a", "b"))
    assert (made.moves, made.lower_bound, counts(made)) == (0, 0, {"a": (2, 2), "b": (2, 2)})


def test_added_and_removed_pods_are_planned() -> None:
    group = Group(6).start("a", "b", "c")
    more = compared(group, add=3)
    assert (more.moves, set(counts(more))) == (3, {"a", "b", "c", "new-1", "new-2", "new-3"})
    fewer = compared(group, remove=("c",))
    assert (fewer.moves, fewer.lower_bound, counts(fewer)["c"]) == (2, 2, (2, 0))
    assert [change.there for change in sorted(fewer.changes, key=lambda one: one.member)] == [True, True, False]


def test_another_assignor_can_be_tried() -> None:
    group = Group(7).start("a", "b").join("c", assignors=("solace",))
    made = compared(group, assignor="round-robin")
    assert made.assignor == "round-robin" and made.moves > made.lower_bound
    assert "c would first have to announce round-robin" in made.notes[0]


def test_another_number_of_partitions_can_be_tried() -> None:
    made = compared(Group(4).start("a", "b"), partitions={"orders": 8})
    assert (made.moves, made.partitions, counts(made)) == (0, 8, {"a": (2, 4), "b": (2, 4)})


def test_delays_bounds_approval_and_pause_do_not_hold_up_a_comparison() -> None:
    spec = GroupSpec(delay=600, rebalance=GroupRebalance(max_concurrent_handoffs=1), approval=Approval.MANUAL, paused=True)
    group = Group(8, replace(spec, paused=False, delay=5)).start("a", "b")
    group.spec = spec
    group.queues[QueueName("orders")] = replace(group.queues[QueueName("orders")], fenced=False)
    made = compared(group, add=2)
    assert made.moves == 4
    assert made.notes == ("The group is paused: none of this happens until it is resumed.",)


def test_a_running_holddown_does_not_hold_up_a_comparison() -> None:
    group = Group(4, GroupSpec(delay=600)).start("a", "b")
    group.now = NOW - 1
    group.join("c").step(NOW - 1)
    assert compared(group).moves == 1


def test_pods_above_the_desired_size_stand_by() -> None:
    spec = GroupSpec(replicas=2, scale_mode=ScaleMode.WORKLOAD)
    group = Group(4, spec).start("a", "b").join("c")
    assert counts(compared(group))["c"] == (0, 0)
    assert compared(group, add=1).moves == 1


def test_an_exclusive_queue_is_not_counted_as_uneven() -> None:
    group = Group(4)
    group.queues[QueueName("alone")] = ObservedQueue(3, exclusive=True)
    made = compared(group.start("a", "b"))
    assert made.exclusive == {"alone"} and sorted(made.totals.values()) == [2, 2]


@pytest.mark.parametrize(
    ("what_if", "said"),
    [
        ({"remove": ("z",)}, "--remove z: there is no such member; the members are a, b"),
        ({"partitions": {"order": 3}}, "--partitions order=3: there is no such queue; the queues are orders"),
    ],
)
def test_unknown_members_and_queues_are_refused(what_if: dict[str, object], said: str) -> None:
    with pytest.raises(NoAnswerError, match=said):
        compared(Group(4).start("a", "b"), **what_if)


def test_a_group_without_a_usable_assignor_is_reported() -> None:
    group = Group(4).start("a", "b")
    group.spec = GroupSpec(assignors=("example.com/none",))
    with pytest.raises(NoAnswerError, match=r"shop/orders: there is no assignor 'example\.com/none'"):
        compared(group)


def request(assignor: str, queues: dict[str, int], owned: dict[str, str], **more: Any) -> dict[str, Any]:
    """`owned`: what each member has, as `orders 0 1 returns 2`."""
    members: dict[str, Any] = {}
    for name, words in owned.items():
        claims, queue = [], ""
        for word in words.split():
            if word.isdigit():
                claims.append([queue, int(word)])
            else:
                queue = word
        members[name] = {"subscribed": sorted(queues), "owned": claims}
    return {"assignor": assignor, "queues": queues, "members": members, **more}


def explained(*asked: dict[str, Any]) -> Result:
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    return CliRunner().invoke(main, ["plan", "--explain"], input=lines)


SEVEN = {"a": "orders 0 3 6", "b": "orders 1 4", "c": "orders 2 5", "d": ""}


def test_one_more_member_is_explained() -> None:
    assert explained(request("solace", {"orders": 7}, SEVEN)).stdout == (
        "solace: 7 partitions, 4 members (1 without partitions so far)\n"
        "1 partition moves, the fewest possible for a balance.\n"
        "Balanced: 1 or 2 each.\n"
        "\n"
        "MEMBER  NOW  THEN  GAINS     LOSES\n"
        "a         3     2            orders 6\n"
        "b         2     2\n"
        "c         2     2\n"
        "d         0     1  orders 6\n"
    )


def test_an_assignor_with_needless_moves_is_explained() -> None:
    owned = {"a": "orders 0 1 2 3 4", "b": "orders 5 6 7 8 9 returns 0 1", "c": "returns 2 3 4"}
    assert explained(request("range", {"orders": 10, "returns": 5}, owned)).stdout == (
        "range: 15 partitions of 2 queues, 3 members\n"
        "8 partitions move; 4 would suffice for a balance (solace).\n"
        "Not balanced: from 4 (c) to 6 (a); solace would balance them with 4 moves.\n"
        "\n"
        "QUEUE    PARTITIONS  EACH NOW  EACH THEN  MOVE\n"
        "orders           10  5         3 to 4        4\n"
        "returns           5  2 to 3    1 to 2        4\n"
        "\n"
        "MEMBER  NOW  THEN  GAINS                 LOSES\n"
        "a         5     6  returns 0-1           orders 4\n"
        "b         7     5  orders 4 returns 2-3  orders 7-9 returns 0-1\n"
        "c         3     4  orders 7-9            returns 2-3\n"
    )


def test_withheld_partitions_are_marked() -> None:
    shown = explained(request("cooperative-sticky", {"orders": 7}, SEVEN)).stdout
    assert "d         0     1  *orders 6\n* once its holder has released it\n" in shown


def test_first_grants_are_no_moves() -> None:
    shown = explained(request("circle", {"orders": 4}, {"a": "", "b": ""})).stdout
    assert shown.splitlines()[:3] == [
        "circle: 4 partitions, 2 members",
        "Nothing moves. 4 partitions get a first owner.",
        "Balanced: 2 each.",
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request("solace", {"orders": 4}, {}), "The group has no members."),
        (
            {"assignor": "solace", "queues": {"orders": 4}, "members": {"a": {"subscribed": ["gone"]}}},
            "No member reads any of these queues.",
        ),
        (
            {
                "assignor": "solace",
                "queues": {"orders": 4, "returns": 1},
                "members": {"a": {"subscribed": ["orders"]}, "b": {"subscribed": ["returns"]}},
            },
            "As even as the subscriptions allow: from 1 (b) to 4 (a).",
        ),
        (
            request("minimal", {"orders": 2, "returns": 2}, {"a": "orders 0 1", "b": "returns 0 1"}),
            "Balanced in total (2 each), but not within orders: from 0 (b) to 2 (a).",
        ),
        (
            request("minimal", {"orders": 2, "returns": 2}, {"a": "orders 0 1", "b": "returns 0 1"}),
            "Nothing moves; a balance in total and of each queue would take 2 (solace).",
        ),
        (
            request("machine-room", {"orders": 3}, {"a": ""}, zones={"orders": [["e"], ["w"], ["w"]]}, options={"rooms": ["e"]}),
            "Unowned: orders 1-2.",
        ),
        (
            request("minimal", {"orders": 4}, {"a": "", "b": ""}, weights={"orders": [3, 1, 1, 1]}),
            "Load per capacity: 3 each; now 0 each.",
        ),
    ],
)
def test_an_imbalance_is_explained(asked: dict[str, Any], said: str) -> None:
    assert said in explained(asked).stdout


def test_distances_are_shown_if_zones_are_known() -> None:
    asked = request("minimal", {"orders": 2}, {"a": "orders 0", "b": "orders 1"}, zones={"orders": [["w"], ["e"]]})
    asked["members"]["a"]["zone"], asked["members"]["b"]["zone"] = "e", "w"
    assert "Without a replica in their member's zone: 2 partitions; now 2." in explained(asked).stdout
    asked["assignor"] = "range"
    assert "Without a replica in their member's zone: 0 partitions; now 2." in explained(asked).stdout


def test_a_refused_request_is_one_line_beside_the_others() -> None:
    done = explained(request("best", {"orders": 1}, {"a": ""}), request("solace", {"orders": 1}, {"a": ""}))
    assert done.exit_code == 1
    assert done.stderr.startswith("baton plan: assignor: there is no assignor 'best'; choose one of ")
    assert done.stderr.count("\n") == 1
    assert done.stdout.strip().startswith("solace: 1 partition, 1 member")


@pytest.mark.parametrize("assignor", ["solace", "round-robin", "cooperative-sticky", "range"])
def test_a_thousand_members_fit_on_a_screen(assignor: str) -> None:
    chance = random.Random(7)
    names = [f"orders-consumer-7d9c7f6b4d-{number:05d}-{'x' * chance.randrange(40)}" for number in range(1000)]
    owned = dict.fromkeys(names[:50], "") | {
        name: f"orders-of-every-kind {' '.join(str(n) for n in range(place, 10_000, 950))}"
        for place, name in enumerate(names[50:])
    }
    queues = {"orders-of-every-kind": 10_000, "returns": 0}
    lines = explained(request(assignor, queues, owned)).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) < 40
    assert lines[0] == f"{assignor}: 10,000 partitions of 2 queues, 1,000 members (50 without partitions so far)"
    assert lines[-1].endswith(" of 1,000 members unchanged")


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in explained(request("solace", {"orders": 7}, SEVEN)).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in explained(request("solace", {"orders": 7}, SEVEN)).stdout
    monkeypatch.undo()
    assert "\x1b" not in explained(request("solace", {"orders": 7}, SEVEN)).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--add", "2"], "need --explain --group GROUP"),
        (["--explain", "--assignor", "range"], "need --explain --group GROUP"),
        (["--group", "orders"], "--group needs --explain"),
        (["--explain", "--group", "shop/orders", "-n", "other"], "name two namespaces: use one"),
        (["--explain", "--group", "orders", "--partitions", "orders"], "'orders' is not QUEUE=COUNT, such as orders=16"),
        (["--explain", "--group", "orders", "--partitions", "orders=-1"], "'orders=-1' is not QUEUE=COUNT"),
        (["--explain", "--group", "orders", "--add", "-1"], "--add"),
        (["--explain", "--group", "orders", "--request", "-"], "use --request or --group, not both"),
    ],
)
def test_conflicting_options_are_refused(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["plan", *arguments], input="")
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_an_unknown_assignor_is_refused_first() -> None:
    done = CliRunner().invoke(main, ["plan", "--explain", "--group", "orders", "--assignor", "best"])
    assert (done.exit_code, done.stderr.startswith("baton plan: there is no assignor 'best'; choose one of")) == (1, True)


def test_the_example_of_the_reference_is_true() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "plan.md").read_text()
    request_, shown = re.search(r"```json\n(.*?)```.*?with `--explain`:\n\n```\n(.*?)```", page, re.DOTALL).groups()  # type: ignore[union-attr]
    assert explained(json.loads(request_)).stdout == shown


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "minimal", "range", "round-robin", "solace"])
@given(asked=requests(contested=True, zones=True))
def test_the_explanation_adds_up(assignor: str, asked: Request) -> None:
    answer, held = get(assignor)(asked), holders(asked)
    withheld = frozenset(partition for hand in answer.withheld.values() for partition in hand)
    moves = sum(name not in held.get(partition, (name,)) for partition, name in answer.owners().items())
    made = Comparison(assignor, asked, held, answer.owners(), moves, 0, withheld)
    assert sum(made.moved[queue] for queue in asked.queues) == moves
    gained = sum(len(change.gains) + len(change.withheld) for change in made.changes)
    assert gained == moves + sum(partition not in held for partition in answer.owners())
    for change in made.changes:
        assert change.after == change.before + len(change.gains) + len(change.withheld) - len(change.loses)
    on = Console(width=200, file=StringIO())
    assert all(
        len("".join(segment.text for segment in line).rstrip()) <= 100
        for part in explanation(made)
        for line in on.render_lines(part)
    )
