from dataclasses import replace

from baton.model import Uid
from baton.spark.ownership import ownership, refusal
from tests.unit.spark.builders import entry, grant


def test_the_ledger_turned_around_names_every_grant_once() -> None:
    found = ownership([entry("exec-1", {0: 3, 1: 3}, {2: 4}), entry("exec-2", {5: 1})])
    assert found.owned == {grant("exec-1", 0, 3), grant("exec-1", 1, 3), grant("exec-2", 5, 1)}
    assert found.revoking == {grant("exec-1", 2, 4)}


def test_a_pod_may_read_what_it_owns() -> None:
    assert refusal(grant("exec-1", 0, 3), "exec-1", "uid-exec-1", entry("exec-1", {0: 3})) is None


def test_a_pod_may_read_what_it_is_to_let_go() -> None:
    assert refusal(grant("exec-1", 0, 3), "exec-1", "uid-exec-1", entry("exec-1", {}, {0: 3})) is None


def test_a_pod_that_does_not_know_its_uid_is_judged_by_its_name_and_key() -> None:
    assert refusal(grant("exec-1", 0, 3), "exec-1", None, entry("exec-1", {0: 3})) is None


def test_another_pod_refuses_and_names_the_owner() -> None:
    why = refusal(grant("exec-1", 0, 3), "exec-2", "uid-exec-2", entry("exec-2", {0: 3}))
    assert why == "the task runs in exec-2, the owner is exec-1"


def test_a_later_pod_of_the_same_name_refuses() -> None:
    assert "uid-new" in (refusal(grant("exec-1", 0, 3), "exec-1", "uid-new", entry("exec-1", {0: 3})) or "")


def test_a_key_that_was_written_for_an_earlier_pod_is_not_believed() -> None:
    stale = replace(entry("exec-1", {0: 3}), uid=Uid("uid-old"))
    assert "written for uid-old" in (refusal(grant("exec-1", 0, 3), "exec-1", None, stale) or "")


def test_a_pod_without_a_key_refuses() -> None:
    assert refusal(grant("exec-1", 0, 3), "exec-1", "uid-exec-1", None) == "exec-1 has no key in its ledger"


def test_a_partition_that_the_key_does_not_have_is_refused() -> None:
    assert "does not give it orders/0" in (refusal(grant("exec-1", 0, 3), "exec-1", None, entry("exec-1", {1: 3})) or "")


def test_another_epoch_than_the_plan_s_is_refused() -> None:
    assert "epoch 4" in (refusal(grant("exec-1", 0, 3), "exec-1", None, entry("exec-1", {0: 4})) or "")
