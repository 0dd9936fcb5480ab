from pathlib import Path

import pytest

from baton.model import MemberId
from baton.model.ledger import MemberEntry
from baton.spark.ledger import MountedLedger, RequestedScale, parse
from tests.unit.spark.builders import entry


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
    assert ignored["exec-2"].startswith("the ledger's key exec-2 is not an entry and is ignored: ")


def test_a_spoiled_key_is_told_of_once_and_again_when_it_was_well_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "exec-2").write_text("oops")
    (tmp_path / "group").write_text("{")
    view = MountedLedger(tmp_path)
    view.close()

    def change(name: str, text: str) -> list[int]:
        """How often each was told of by then."""
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
    assert caplog.text.count("cannot be read") == 1
    view.close()
