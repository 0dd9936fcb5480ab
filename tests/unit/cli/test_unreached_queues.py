"""What is shown of a queue that does not answer: what was known of it last, and never that it has no partition."""

from typing import Any

import pytest

from baton.cli.cluster import NoAnswerError
from baton.cli.explain import find
from baton.cli.group import GroupLook
from baton.cli.printing import console
from baton.cli.status import group_table
from baton.console.group_page import group_page, group_row
from baton.engine import dump
from baton.model.ids import Partition, QueueName
from tests.unit.cli.test_status_screen import MANIFEST, condition, queue, rebalancing, seen, shown

AWAY = condition("Ready", "False", "QueueUnreachable", "redis:6379 does not answer: start it")
NEVER, ONCE = queue("orders", conditions=[AWAY]), queue("orders", partitions=4, conditions=[AWAY])


def group(*queues: str, **status: Any) -> dict[str, Any]:
    told = {**MANIFEST["status"], "state": "NotReady", "moving": 0, "conditions": [AWAY], **status}
    return {**MANIFEST, "spec": {"queues": [{"name": name} for name in queues or ("orders",)]}, "status": told}


def screen(one: GroupLook) -> str:
    text = shown(one)
    assert "Ready is False: QueueUnreachable: redis:6379 does not answer" in text
    return " ".join(text.split())


def test_a_queue_that_never_answered_has_a_number_that_is_not_known() -> None:
    one = seen(group(partitions=0, unowned=0), {}, [NEVER])
    assert "? partitions, 3 members" in screen(one)
    assert "orders ? ? ? ? ? -" in screen(one)
    told = one.to_json()
    assert (told["partitions"], told["unowned"], told["queues"]["orders"]["partitions"]) == (None, None, None)
    assert group_page(one)["partitions"] is group_row(one)["unowned"] is None


def test_a_queue_that_answers_no_more_is_shown_as_the_ledger_has_it() -> None:
    one = seen(group(partitions=4), dump(rebalancing().state), [ONCE])
    assert "4 partitions, 3 members" in screen(one)
    assert "orders 4 0 3 1 0 -" in screen(one)


@pytest.mark.parametrize("ledger", [{}, {"group": "{"}], ids=["lost", "spoilt"])
def test_without_a_ledger_the_number_is_that_of_the_status_and_whose_they_are_is_not_known(ledger: dict[str, str]) -> None:
    one = seen(group(partitions=0, unowned=0), ledger, [ONCE])
    assert "4 partitions, 3 members" in screen(one)
    assert "orders 4 ? ? ? ? -" in screen(one)
    told = one.to_json()
    assert (told["partitions"], told["unowned"], told["queues"]["orders"]["states"]) == (4, None, {})
    with pytest.raises(NoAnswerError, match="does not know whose orders/3 is"):
        find(one, Partition(QueueName("orders"), 3))
    with pytest.raises(NoAnswerError, match="it has 0 to 3"):
        find(one, Partition(QueueName("orders"), 4))


def test_a_spoilt_ledger_says_of_no_queue_whose_its_partitions_are() -> None:
    one = seen(group(partitions=4, conditions=[]), {"group": "{"}, [queue("orders", partitions=4)])
    assert "orders 4 ? ? ? ? -" in " ".join(shown(one).split())


def test_of_several_queues_those_that_never_answered_are_named() -> None:
    mail = {**NEVER, "metadata": {**NEVER["metadata"], "name": "mail"}}
    one = seen(group("orders", "mail", partitions=4), dump(rebalancing().state), [ONCE, mail])
    assert "4 partitions and those of mail, 3 members" in screen(one)
    assert "mail ? ? ? ? ? -" in screen(one)


def test_the_list_of_groups_says_so_and_leaves_out_what_no_operator_has_counted(capsys: pytest.CaptureFixture[str]) -> None:
    new = {**MANIFEST, "status": {}}
    console().print(group_table([seen(group(partitions=0, unowned=0), {}), seen(new, {})]))
    _, away, unseen = (line.split() for line in capsys.readouterr().out.splitlines())
    assert away == ["shop", "orders", "NotReady", "?", "?", "3", "0", "QueueUnreachable", "5", "s", "ago"]
    assert unseen == ["shop", "orders", "Unknown"]
