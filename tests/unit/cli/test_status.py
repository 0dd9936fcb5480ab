"""`baton status` on a terminal of 80 columns and 24 lines."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from baton.api import Handoff
from baton.api.group import Approval
from baton.cli.cluster import NoAnswerError
from baton.cli.explain import find
from baton.cli.group import GroupLook, Leader, look, partitions
from baton.cli.group_words import handoff, problems_of
from baton.cli.main import main
from baton.cli.printing import console, table
from baton.cli.status import group_table, screen
from baton.console.group_page import group_page, group_row
from baton.controller.status import rebalancing as rebalancing_condition
from baton.engine import dump
from baton.engine.observation import GroupSpec
from baton.model.ids import Partition, QueueName
from tests.unit.engine.group import Group

MANIFEST: Mapping[str, Any] = {
    "metadata": {"namespace": "shop", "name": "orders", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"queues": [{"name": "orders"}]},
    "status": {
        "observedGeneration": 1,
        "lastChangeTime": "1970-01-01T00:00:00Z",
        "state": "Rebalancing",
        "partitions": 4,
        "members": 3,
        "standbys": 0,
        "moving": 1,
        "moves": 0,
        "lowerBound": 0,
    },
}


def queue(name: str, **status: object) -> Mapping[str, Any]:
    metadata = {"namespace": "shop", "name": name, "uid": f"of-{name}"}
    return {"metadata": metadata, "spec": {"source": {"type": "External"}, "partitions": 4}, "status": status}


QUEUES = [queue("orders", partitions=4, partitionScaleStatus="ScalingUp")]
MOVE = {
    "queue": "orders",
    "partition": 5,
    "from": "exec-3",
    "to": "exec-7",
    "epoch": 2,
    "deadline": "1970-01-01T00:00:08Z",
    "unacknowledged": 2,
    "reason": "exec-7 joined",
}


def seen(
    group: Mapping[str, Any], ledger: Mapping[str, str], queues: Iterable[Mapping[str, Any]] = (), now: float = 5.0
) -> GroupLook:
    """Return the look at a group with a running operator."""
    return look(group, ledger, queues, now=now)


def shown(one: GroupLook, lines: int | None = 24) -> str:
    console = Console(width=80, file=io.StringIO(), highlight=False)
    for part in screen(one, console, lines):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rebalancing() -> Group:
    group = Group(4).start("a", "b")
    group.join("c").settle(100)
    group.settle(105)
    return group


def test_a_hand_off_is_a_sentence() -> None:
    move = Handoff.model_validate(MOVE)
    assert handoff(move, 5.0) == (
        "partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for 2 unacknowledged messages, 3 s left"
    )
    assert handoff(move.model_copy(update={"unacknowledged": None}), 10.0).endswith(
        "exec-7 joined; waits for exec-3 to release it, overdue"
    )


@pytest.mark.parametrize(("steps", "said"), [("EvenShares", True), ("Every", False)])
def test_a_fleet_held_at_another_size_is_shown_with_both_sizes(steps: str, said: bool) -> None:
    spec = {**MANIFEST["spec"], "replicas": 5, "scale": {"mode": "Spark", "steps": steps}}
    told = {**MANIFEST, "spec": spec, "status": {**MANIFEST["status"], "desiredReplicas": 4}}
    assert ("spec.replicas asks for 5 pods; spec.scale.steps holds the fleet at 4" in shown(seen(told, {}))) is said


def test_a_small_group_is_shown_whole() -> None:
    group = rebalancing()
    told = {**MANIFEST, "status": {**MANIFEST["status"], "handoffs": [MOVE]}}
    text = shown(seen(told, dump(group.state), QUEUES))
    assert len(text.splitlines()) <= 23
    assert "shop/orders: Rebalancing: c joined" in text
    assert "QUEUE   PARTITIONS  UNASSIGNED  READY  PAUSED  UNBOUND  SCALE" in text
    assert "orders  4           0           3      1       0        ScalingUp" in text
    assert "goes from exec-3 to exec-7" in text
    assert "orders 3" in text, "what b releases"


def test_unowned_partitions_include_those_not_yet_in_the_ledger() -> None:
    group = Group(12, GroupSpec(paused=True)).join("a", "b")
    group.settle(100)
    status = {**MANIFEST["status"], "state": "Paused", "partitions": 12, "unowned": 12, "members": 2, "moving": 0}
    queues = [queue("orders", partitions=12, partitionScaleStatus="Ready")]
    text = shown(seen({**MANIFEST, "status": status}, dump(group.state), queues))
    assert "12 partitions (12 without an owner), 2 members" in text
    assert "orders  12          12          0      0       0        Ready" in text


def test_the_table_of_partitions_has_states_and_receivers() -> None:
    rows = partitions(rebalancing().state)
    assert [(row.partition, row.state, row.owner, row.to) for row in rows] == [
        (0, "Ready", "a", None),
        (1, "Ready", "b", None),
        (2, "Ready", "a", None),
        (3, "Paused", "b", "c"),
    ]
    assert rows[3].reason == "c joined"


def test_a_large_group_is_summed_up_on_one_screen() -> None:
    group = Group(2000).start(*(f"exec-{number}" for number in range(400)))
    status = {**MANIFEST["status"], "moving": 400, "handoffs": [{**MOVE, "partition": number} for number in range(50)]}
    one = seen({**MANIFEST, "status": status}, dump(group.state), QUEUES)
    text = shown(one)
    assert len(text.splitlines()) <= 23
    assert "more, with 5 to 5 partitions each" in text
    assert "and 395 more in flight or planned" in text
    assert len(shown(one, lines=None).splitlines()) > 400


def test_a_vacant_slot_is_shown() -> None:
    group = Group(4).start("a", "b").leave("b")
    group.settle(100)
    text = shown(seen(MANIFEST, dump(group.state), QUEUES))
    assert "the slot of b is kept: orders 1,3" in text
    assert "orders  4           0           2      0       2" in text


@pytest.mark.parametrize("of_status", [{"members": 2, "standbys": 1}, {"members": 4, "standbys": 3}, {}])
def test_standbys_are_counted_as_they_are_listed(of_status: Mapping[str, int]) -> None:
    """The status is written after the ledger, and may be older."""
    group = Group(1).start("a", "b", "c", "d")
    text = shown(seen({**MANIFEST, "status": {**MANIFEST["status"], **of_status}}, dump(group.state)))
    assert "4 members (3 standing by)" in text
    assert "standing by: b, c, d" in text


def test_newcomers_not_yet_in_the_ledger_are_counted() -> None:
    group = Group(4).start("a", "b")
    text = shown(seen({**MANIFEST, "status": {**MANIFEST["status"], "members": 3}}, dump(group.state)))
    assert "3 members (0 standing by)" in text
    assert "new, without partitions so far: 1 member" in text.splitlines()
    assert "new," not in shown(seen({**MANIFEST, "status": {**MANIFEST["status"], "members": 2}}, dump(group.state)))
    assert "new," not in shown(seen(MANIFEST, {})), "there is no ledger"


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    at = "1970-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def test_a_problem_of_several_queues_is_shown_once() -> None:
    away = condition("Ready", "False", "QueueUnreachable", "redis:6379 does not answer: start it")
    at_risk = condition("Durable", "False", "AtRisk", "redis:6379 has appendonly no: set it to yes")
    well = condition("Ready", "True", "Reachable", "the queue answers")
    names = {"orders": [well, at_risk], "mail": [well, at_risk], "returns": [away]}
    queues = [queue(name, partitions=4, conditions=told) for name, told in names.items()]
    group = {
        **MANIFEST,
        "spec": {"queues": [{"name": name} for name in names]},
        "status": {**MANIFEST["status"], "state": "NotReady", "conditions": [away]},
    }
    text = " ".join(shown(seen(group, {}, queues)).split())
    assert "Durable of mail, orders is False: AtRisk: redis:6379 has appendonly no: set it to yes" in text
    assert text.count("redis:6379 does not answer") == 1, "the group's Ready says it"
    assert "Ready of" not in text


@pytest.mark.parametrize(("overdue", "said"), [([], False), (["a"], True)])
def test_a_member_that_missed_its_deadline_is_shown(overdue: list[str], said: bool) -> None:
    kind, status, reason, message = rebalancing_condition(2, None, overdue)
    conditions = [condition(kind, status, reason, message)]
    one = seen({**MANIFEST, "status": {**MANIFEST["status"], "conditions": conditions}}, dump(rebalancing().state), QUEUES)
    overdue_first = "Overdue: 2 partitions are changing hands; a did not release partitions by the deadline"
    assert any(str(problem).startswith(overdue_first) for problem in problems_of(one)) is said
    assert ("Overdue" in shown(one)) is said


def test_a_proposal_is_shown_with_how_to_approve_it() -> None:
    proposal = {
        "id": "17ab",
        "createdAt": "1970-01-01T00:00:01Z",
        "reason": "c joined",
        "moves": 1,
        "paused": 1,
        "pausedAtOnce": 1,
        "longestPauseSeconds": 3,
        "handoffs": [{"queue": "orders", "partitions": "3", "from": "b", "to": "c"}],
    }
    group = Group(4, GroupSpec(approval=Approval.MANUAL)).start("a", "b")
    text = shown(seen({**MANIFEST, "status": {"state": "Ready", "proposal": proposal}}, dump(group.state)))
    assert "proposal 17ab: 1 would move" in text and "orders 3: b -> c" in text
    assert "baton approve orders -n shop" in text


@pytest.mark.parametrize(("ledger", "said"), [({}, "Rebalancing"), ({"group": "{"}, "The ledger is invalid")])
def test_a_group_without_a_readable_ledger_is_shown(ledger: dict[str, str], said: str) -> None:
    assert said in shown(seen(MANIFEST, ledger))


def test_an_unseen_change_and_a_deletion_are_shown() -> None:
    unseen = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "generation": 2}}
    assert "Out of date: no operator has seen the last change" in shown(seen(unseen, {}))
    assert "Out of date" not in shown(seen(MANIFEST, {}))
    gone = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "deletionTimestamp": "1970-01-01T00:00:01Z"}}
    assert "Deleted at 1970-01-01T00:00:01Z; gone once" in shown(seen(gone, {}))


def test_a_group_of_standbys_has_no_empty_table() -> None:
    entry = '{"group":"shop/orders","member":"a","uid":"u","generation":1,"active":false,"owned":{},"revoking":{}}'
    text = shown(seen(MANIFEST, {"a": entry}))
    assert "standing by: a" in text and "RELEASING" not in text


def test_watching_needs_a_terminal() -> None:
    done = CliRunner().invoke(main, ["status", "orders", "--watch"])
    assert done.exit_code == 2 and "--watch needs a terminal" in done.stderr


def led(holder: str | None, renewed: float | None, readable: bool = True) -> Leader:
    return Leader("baton-system/baton-operator", readable, holder, renewed)


@pytest.mark.parametrize(
    ("leader", "now", "unknown", "said"),
    [
        (None, 3000, False, ""),
        (led("one", 100), 279, False, ""),
        (led("one", 100), 281, True, "baton-operator in namespace baton-system, was last renewed 3 min ago, by one."),
        (led(None, 100), 129, False, ""),
        (led(None, 100), 131, True, "was released, and last renewed 31 s ago."),
        (led(None, None), 5, True, "no longer exists."),
        (
            led("one", 100),
            281,
            True,
            "No operator has looked since 1970-01-01T00:01:40Z (3 min ago): everything shown is as of then (Rebalancing).",
        ),
        (led(None, None, readable=False), 3000, False, ""),
        (led("one", 3000), 3001, False, ""),
    ],
)
def test_a_missing_operator_is_shown(leader: Leader | None, now: float, unknown: bool, said: str) -> None:
    """The Lease of the operator that wrote the ledger decides."""
    one = look(MANIFEST, {}, (), leader, now=now)
    assert (one.to_json()["state"] == "Unknown", one.to_json()["lastState"]) == (unknown, "Rebalancing")
    text = " ".join(shown(one).split())
    assert said in text
    assert ("No operator has looked" in text) is unknown


def test_piped_output_is_not_cut_or_padded(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table(("MEMBER", "WHY"), [("m" * 300, "w" * 300), ("n", "\x1b[31mred\n")]))
    assert capsys.readouterr().out.splitlines() == [f"{'MEMBER':<300}  WHY", f"{'m' * 300}  {'w' * 300}", f"{'n':<300}  �[31mred"]


AWAY = condition("Ready", "False", "QueueUnreachable", "redis:6379 does not answer: start it")
NEVER, ONCE = queue("orders", conditions=[AWAY]), queue("orders", partitions=4, conditions=[AWAY])


def group(*queues: str, **status: Any) -> dict[str, Any]:
    told = {**MANIFEST["status"], "state": "NotReady", "moving": 0, "conditions": [AWAY], **status}
    return {**MANIFEST, "spec": {"queues": [{"name": name} for name in queues or ("orders",)]}, "status": told}


def unreached(one: GroupLook) -> str:
    text = shown(one)
    assert "Ready is False: QueueUnreachable: redis:6379 does not answer" in text
    return " ".join(text.split())


def test_a_queue_that_never_answered_has_unknown_numbers() -> None:
    one = seen(group(partitions=0, unowned=0), {}, [NEVER])
    assert "? partitions, 3 members" in unreached(one)
    assert "orders ? ? ? ? ? -" in unreached(one)
    told = one.to_json()
    assert (told["partitions"], told["unowned"], told["queues"]["orders"]["partitions"]) == (None, None, None)
    assert group_page(one)["partitions"] is group_row(one)["unowned"] is None


def test_a_queue_that_stopped_answering_is_shown_from_the_ledger() -> None:
    one = seen(group(partitions=4), dump(rebalancing().state), [ONCE])
    assert "4 partitions, 3 members" in unreached(one)
    assert "orders 4 0 3 1 0 -" in unreached(one)


@pytest.mark.parametrize("ledger", [{}, {"group": "{"}], ids=["lost", "spoilt"])
def test_without_a_ledger_owners_are_unknown(ledger: dict[str, str]) -> None:
    one = seen(group(partitions=0, unowned=0), ledger, [ONCE])
    assert "4 partitions, 3 members" in unreached(one)
    assert "orders 4 ? ? ? ? -" in unreached(one)
    told = one.to_json()
    assert (told["partitions"], told["unowned"], told["queues"]["orders"]["states"]) == (4, None, {})
    with pytest.raises(NoAnswerError, match=r"the owner of orders/3 in .* is unknown"):
        find(one, Partition(QueueName("orders"), 3))
    with pytest.raises(NoAnswerError, match="it has 0 to 3"):
        find(one, Partition(QueueName("orders"), 4))


def test_with_a_spoilt_ledger_states_are_unknown() -> None:
    one = seen(group(partitions=4, conditions=[]), {"group": "{"}, [queue("orders", partitions=4)])
    assert "orders 4 ? ? ? ? -" in " ".join(shown(one).split())


def test_queues_that_never_answered_are_named() -> None:
    mail = {**NEVER, "metadata": {**NEVER["metadata"], "name": "mail"}}
    one = seen(group("orders", "mail", partitions=4), dump(rebalancing().state), [ONCE, mail])
    assert "4 partitions and those of mail, 3 members" in unreached(one)
    assert "mail ? ? ? ? ? -" in unreached(one)


def test_the_list_of_groups_marks_unknown_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    new = {**MANIFEST, "status": {}}
    console().print(group_table([seen(group(partitions=0, unowned=0), {}), seen(new, {})]))
    _, away, unseen = (line.split() for line in capsys.readouterr().out.splitlines())
    assert away == ["shop", "orders", "NotReady", "?", "?", "3", "0", "QueueUnreachable", "5", "s", "ago"]
    assert unseen == ["shop", "orders", "Unknown"]
