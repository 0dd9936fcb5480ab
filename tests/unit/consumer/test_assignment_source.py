"""A pod's assignments from a directory that is refreshed as by the kubelet."""

import logging
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from baton.consumer import AssignmentSource
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from tests.waiting import PATIENCE

ME, MY_UID = MemberId("orders-0"), Uid("uid-0")


def entry(epoch: int, uid: str = MY_UID) -> MemberEntry:
    return MemberEntry("shop/orders", ME, Uid(uid), epoch, True, {QueueName("orders"): {0: Epoch(epoch)}})


class Mount:
    """A ConfigMap volume: the files are links into `..data`, which is swapped for a new directory in one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._version = 0

    def publish(self, files: dict[str, str]) -> None:
        self._version += 1
        fresh = self.directory / f"..2026_11_21_{self._version}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.directory / "..data")
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        for old in self.directory.glob("..2026*"):
            if old != fresh:
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> AssignmentSource:
    return AssignmentSource(tmp_path, ME, MY_UID)


def test_there_is_no_entry_before_the_operator_wrote_one(mount: Mount, source: AssignmentSource) -> None:
    assert source.current() is None
    mount.publish({"group": "{}"})
    assert source.current() is None
    mount.publish({"group": "{}", ME: entry(1).to_json()})
    assert source.current() == entry(1)


def test_each_swap_is_seen_and_an_unchanged_mount_gives_the_same_object(mount: Mount, source: AssignmentSource) -> None:
    for epoch in range(1, 50):
        mount.publish({ME: entry(epoch).to_json()})
        found = source.current()
        assert found == entry(epoch)
        assert source.current() is found


def test_the_entry_of_an_earlier_pod_of_that_name_is_none(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({ME: entry(1, uid="the one before").to_json()})
    assert source.current() is None
    mount.publish({ME: entry(2).to_json()})
    assert source.current() == entry(2)


def test_a_key_that_is_gone_is_no_entry(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({ME: entry(1).to_json()})
    assert source.current() == entry(1)
    mount.publish({"group": "{}"})
    assert source.current() is None


def test_a_text_that_is_no_entry_leaves_the_last_one_in_force(
    mount: Mount, source: AssignmentSource, caplog: pytest.LogCaptureFixture
) -> None:
    mount.publish({ME: entry(1).to_json()})
    source.current()
    with caplog.at_level(logging.WARNING):
        mount.publish({ME: "{edited by hand"})
        assert source.current() == entry(1)
        assert source.current() == entry(1)
    assert len(caplog.messages) == 1


def test_a_plain_directory_works_outside_a_cluster(tmp_path: Path, source: AssignmentSource) -> None:
    (tmp_path / ME).write_text(entry(1).to_json())
    assert source.current() == entry(1)
    (tmp_path / ME).write_text(entry(22).to_json())
    assert source.current() == entry(22)


def test_watchers_are_told_of_each_swap(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({ME: entry(1).to_json()})
    changed = threading.Event()
    source.watch(changed.set)
    assert source.current() == entry(1), "what is there is known at once"
    assert changed.wait(PATIENCE)
    for epoch in range(2, 12):
        changed.clear()
        mount.publish({ME: entry(epoch).to_json()})
        assert changed.wait(PATIENCE)
        assert source.current() == entry(epoch)
    source.close()


def test_a_change_between_the_first_look_and_the_watch_is_not_missed(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({ME: entry(1).to_json()})
    first = source.current()
    changed = threading.Event()
    mount.publish({ME: entry(2).to_json()})
    source.watch(changed.set)
    assert changed.wait(PATIENCE)
    assert source.current() != first
    source.close()


@contextmanager
def no_more_files() -> Iterator[None]:
    """Every open fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_while_the_mount_cannot_be_read_the_last_entry_stands_and_the_next_is_found_afterwards(
    mount: Mount, source: AssignmentSource, caplog: pytest.LogCaptureFixture
) -> None:
    mount.publish({ME: entry(1).to_json()})
    assert source.current() == entry(1)
    mount.publish({ME: entry(2).to_json()})
    with no_more_files():
        assert source.current() == source.current() == entry(1)
    assert source.current() == entry(2)
    assert ["cannot be read" in message for message in caplog.messages] == [True]


def test_watchers_are_told_when_the_mount_can_be_read_again(mount: Mount, source: AssignmentSource) -> None:
    changed = threading.Event()
    mount.publish({ME: entry(1).to_json()})
    with no_more_files():
        assert source.current() is None
        source.watch(changed.set)
    assert changed.wait(PATIENCE)
    assert source.current() == entry(1)
    source.close()


def test_a_key_is_found_before_the_kubelet_has_made_the_link_to_it(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({ME: entry(1).to_json()})
    (mount.directory / ME).unlink()
    assert source.current() == entry(1)
