from baton.spark.ledger import ownership
from tests.ids import a_partition
from tests.unit.spark.builders import entry, grant


def test_the_ledger_turned_around_names_every_grant_once() -> None:
    found = ownership([entry("exec-1", {0: 3, 1: 3}, {2: 4}), entry("exec-2", {5: 1})])
    assert found.owned == {grant("exec-1", 0, 3), grant("exec-1", 1, 3), grant("exec-2", 5, 1)}
    assert found.revoking == {grant("exec-1", 2, 4)}


def test_partitions_in_anybody_s_hands() -> None:
    found = ownership([entry("exec-1", {0: 3}, {2: 4})])
    assert found.partitions == {a_partition("orders", 0), a_partition("orders", 2)}


def test_of_a_partition_that_a_member_which_is_gone_still_names_the_later_grant_counts() -> None:
    for gone, next_owner in (("exec-1", "exec-2"), ("exec-2", "exec-1")):
        for entries in ([entry(gone, {0: 3}), entry(next_owner, {0: 4})], [entry(next_owner, {0: 4}), entry(gone, {0: 3})]):
            assert ownership(entries).owners == {a_partition("orders", 0): grant(next_owner, 0, 4)}
