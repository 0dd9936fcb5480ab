"""The driver's view of the ledger."""

from pathlib import Path

import pytest

from baton.model import MemberId
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from baton.spark.ledger import GrantsInUse, LedgerGrants, MountedLedger, PartitionGrant, RequestedScale, ledger_grants, parse
from tests.ids import a_partition
from tests.unit.spark.builders import entry, grant
from tests.written_ledger import WrittenLedger


def test_the_ledger_turned_around_names_every_grant_once() -> None:
    found = ledger_grants([entry("exec-1", {0: 3, 1: 3}, {2: 4}), entry("exec-2", {5: 1})])
    assert found.owned == {grant("exec-1", 0, 3), grant("exec-1", 1, 3), grant("exec-2", 5, 1)}
    assert found.revoking == {grant("exec-1", 2, 4)}


def test_partitions_in_anybody_s_hands() -> None:
    found = ledger_grants([entry("exec-1", {0: 3}, {2: 4})])
    assert found.partitions == {a_partition("orders", 0), a_partition("orders", 2)}


def test_of_a_partition_that_a_member_which_is_gone_still_names_the_later_grant_counts() -> None:
    for gone, next_owner in (("exec-1", "exec-2"), ("exec-2", "exec-1")):
        for entries in ([entry(gone, {0: 3}), entry(next_owner, {0: 4})], [entry(next_owner, {0: 4}), entry(gone, {0: 3})]):
            assert ledger_grants(entries).owners == {a_partition("orders", 0): grant(next_owner, 0, 4)}


def test_members_and_size_are_read_from_the_map() -> None:
    mine = entry("exec-1", {0: 1})
    found, ignored = parse({"exec-1": mine.to_json(), "group": '{"scale":{"replicas":3,"victims":[]}}'})
    assert not ignored
    assert found.entries == {"exec-1": mine}
    assert found.scale == RequestedScale(3)


def test_a_key_that_somebody_spoiled_leaves_the_others_alone() -> None:
    mine = entry("exec-1", {0: 1})
    found, ignored = parse({"exec-1": mine.to_json(), "exec-2": "oops", "group": "{"})
    assert found.entries == {"exec-1": mine}
    assert found.scale is None
    assert ignored.keys() == {"exec-2", "group"}
    assert ignored["exec-2"].startswith("ignoring the malformed key exec-2 of the ledger: ")


def test_a_spoiled_key_is_told_of_once_and_again_when_it_was_well_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "exec-2").write_text("oops")
    (tmp_path / "group").write_text("{")
    view = MountedLedger(tmp_path)
    view.close()

    def change(name: str, text: str) -> list[int]:
        """How often each problem had been logged by then."""
        (tmp_path / name).write_text(text)
        view.look()
        return [caplog.text.count(what) for what in ("key exec-2", "size of the fleet")]

    assert change("exec-1", entry("exec-1", {0: 1}).to_json()) == [1, 1]
    assert change("exec-2", "oops again") == [1, 1]
    assert change("exec-2", entry("exec-2").to_json()) == [1, 1]
    assert change("exec-2", "oops") == [2, 1]


def test_a_mounted_ledger_is_there_from_the_start_and_follows_changes(tmp_path: Path) -> None:
    first, second = entry("exec-1", {0: 1}), entry("exec-1", {0: 1, 1: 1}, generation=2)
    (tmp_path / "..data").mkdir()
    (tmp_path / "exec-1").write_text(first.to_json())
    view = MountedLedger(tmp_path)
    seen: list[MemberEntry] = []
    view.on_change(lambda: seen.append(view.read().entries[MemberId("exec-1")]))
    assert view.read().entries == {"exec-1": first}
    fresh = tmp_path / "..fresh"
    fresh.write_text(second.to_json())
    fresh.rename(tmp_path / "exec-1")
    view.look()
    assert seen == [second]
    view.close()


def test_a_ledger_that_is_not_mounted_yet_is_empty(tmp_path: Path) -> None:
    view = MountedLedger(tmp_path / "later")
    assert view.read().entries == {}
    view.close()


def test_a_mounted_ledger_that_cannot_be_read_stands_as_it_was_and_is_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = entry("exec-1", {0: 1}), entry("exec-1", {0: 1}, generation=2)
    (tmp_path / "exec-1").write_text(first.to_json())
    view = MountedLedger(tmp_path)
    (tmp_path / "exec-2").mkdir()  # a file that cannot be read
    view.look()
    view.look()
    assert view.read().entries == {"exec-1": first}
    (tmp_path / "exec-2").rmdir()
    (tmp_path / "exec-1").write_text(second.to_json())
    view.look()
    assert view.read().entries == {"exec-1": second}
    assert caplog.text.count("cannot read the ledger") == 1
    view.close()


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


def owned(ownership: LedgerGrants) -> list[PartitionGrant]:
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
