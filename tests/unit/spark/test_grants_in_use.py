import pytest

from baton.model.session import Release
from baton.spark.ledger import GrantsInUse, Ownership, PartitionGrant
from tests.unit.spark.builders import entry, grant
from tests.unit.spark.written_ledger import WrittenLedger

Said = list[frozenset[Release]]


@pytest.fixture
def ledger() -> WrittenLedger:
    return WrittenLedger()


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def grants_in_use(ledger: WrittenLedger, said: Said) -> GrantsInUse:
    return GrantsInUse(ledger, said.append)


def owned(ownership: Ownership) -> list[PartitionGrant]:
    return sorted(ownership.owned)


def test_what_no_batch_has_is_released_at_once(ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said) -> None:
    ledger.write(entry("exec-1", {1: 1}, {0: 1}))
    assert said == [{grant("exec-1", 0).released()}]


def test_what_a_batch_has_is_released_when_its_part_is_done(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {0: 1, 1: 1}))
    assert grants_in_use.take(owned) == [grant("exec-1", 0), grant("exec-1", 1)]
    ledger.write(entry("exec-1", {1: 1}, {0: 1}))
    assert said == []
    grants_in_use.put_back([grant("exec-1", 1)])
    assert said == []
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == [{grant("exec-1", 0).released()}]


def test_a_partition_that_is_to_be_let_go_is_never_taken(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    assert grants_in_use.take(owned) == []


def test_a_release_is_withdrawn_once_the_ledger_has_moved_on(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    ledger.write(entry("exec-1"), entry("exec-2", {0: 2}))
    assert said[-1] == frozenset()


def test_the_same_ledger_again_is_not_told_again(ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said) -> None:
    ledger.write(entry("exec-1", {}, {0: 1}))
    ledger.write(entry("exec-1", {}, {0: 1}, generation=2))
    assert len(said) == 1


def test_members_with_a_part_in_the_batch_are_busy(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}), entry("exec-2"))
    grants_in_use.take(owned)
    assert grants_in_use.busy() == {"exec-1"}
    grants_in_use.put_back([grant("exec-1", 0)])
    assert grants_in_use.busy() == frozenset()


def test_who_lost_its_part_to_somebody_else_has_missed_a_deadline(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    grants_in_use.take(owned)
    ledger.write(entry("exec-1"), entry("exec-2", {0: 2}))
    assert grants_in_use.missed() == {"exec-1"}


def test_who_is_to_let_go_has_not_missed_anything_yet(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    grants_in_use.take(owned)
    ledger.write(entry("exec-1", {}, {0: 1}))
    assert grants_in_use.missed() == frozenset()


def test_a_ledger_that_was_deleted_makes_nobody_late(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    grants_in_use.take(owned)
    ledger.write()
    assert grants_in_use.missed() == frozenset()


def test_an_owner_that_was_asserted_again_at_a_new_epoch_is_not_late(ledger: WrittenLedger, grants_in_use: GrantsInUse) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    grants_in_use.take(owned)
    ledger.write(entry("exec-1", {0: 5}))
    assert grants_in_use.missed() == frozenset()


def test_what_the_next_batch_has_as_well_is_released_when_both_are_done(
    ledger: WrittenLedger, grants_in_use: GrantsInUse, said: Said
) -> None:
    ledger.write(entry("exec-1", {0: 1}))
    for _ in range(2):
        grants_in_use.take(owned)
    ledger.write(entry("exec-1", {}, {0: 1}))
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == []
    grants_in_use.put_back([grant("exec-1", 0)])
    assert said == [{grant("exec-1", 0).released()}]
