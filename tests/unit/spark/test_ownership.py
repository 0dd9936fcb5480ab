from baton.spark.ownership import ownership
from tests.ids import a_partition
from tests.unit.spark.builders import entry, grant


def test_the_ledger_turned_around_names_every_grant_once() -> None:
    found = ownership([entry("exec-1", {0: 3, 1: 3}, {2: 4}), entry("exec-2", {5: 1})])
    assert found.owned == {grant("exec-1", 0, 3), grant("exec-1", 1, 3), grant("exec-2", 5, 1)}
    assert found.revoking == {grant("exec-1", 2, 4)}


def test_partitions_in_anybody_s_hands() -> None:
    found = ownership([entry("exec-1", {0: 3}, {2: 4})])
    assert found.partitions == {a_partition("orders", 0), a_partition("orders", 2)}
