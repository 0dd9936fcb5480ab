"""`baton dev`: a queue of another process, Spark executors, and the state directory."""

from itertools import count
from pathlib import Path

import pytest

from baton.dev.folder import DevError, DevFolder
from baton.dev.group import executors
from baton.dev.queues import on_redis
from baton.kube.leases import LeaseView
from baton.kube.members import membership
from baton.model.ids import Uid


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("redis://127.0.0.1:6379/2", "redis-cli -u redis://127.0.0.1:6379/2"),
        ("rediss://redis.shop", "redis-cli -u rediss://redis.shop:6379/0"),
        ("redis://:geheim@redis.shop:6379/0", 'redis-cli -u "$BATON_REDIS_URL"'),
        ("unix:///tmp/redis.sock?db=1", "redis-cli -s /tmp/redis.sock -n 1"),
    ],
)
def test_the_cure_names_the_server_and_no_password(url: str, command: str) -> None:
    cure = on_redis(url, "orders", 6, 0).taken
    assert f"{command} HDEL 'pq:{{dev/orders}}:queue' group uid" in cure
    assert "geheim" not in cure


# -- Spark executors under `baton dev` are members while their driver's Lease lists them.


DRIVER = Uid("uid-of-the-driver")


def lease(registered: str, holder: Uid | None = DRIVER, app: str | None = "app-1") -> LeaseView:
    return LeaseView("dev", "orders-driver", "orders", holder, registered=registered, spark_app=app)


def members(of: LeaseView) -> list[str]:
    seen = membership("orders", executors(of, lambda _: 1.0), [of], lambda _: False, sessions_required=True)
    return sorted(seen.members)


def test_registered_executors_take_part() -> None:
    assert members(lease("0,1")) == ["app-1-exec-0", "app-1-exec-1"]


@pytest.mark.parametrize("of", [lease(""), lease("0,1", holder=None), lease("0,1", app=None)])
def test_executors_without_a_driver_take_no_part(of: LeaseView) -> None:
    assert members(of) == []


def test_an_executors_uid_depends_on_its_driver() -> None:
    times = count(1)
    since = {uid: float(next(times)) for uid in (one.uid for one in executors(lease("0,1"), lambda _: 0.0))}
    assert [one.ready_since for one in executors(lease("0,1"), since.__getitem__)] == [1.0, 2.0]
    assert not {one.uid for one in executors(lease("0,1", holder=Uid("another")), lambda _: 0.0)} & since.keys()


# -- Foreign files in the state directory are not touched.


def test_a_folder_with_foreign_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    accounts = tmp_path / "ledger" / "accounts"
    accounts.write_text("money")
    tmp_path.chmod(0o755)
    with pytest.raises(DevError, match="has other files: choose an empty directory"), DevFolder(tmp_path).held():
        pass
    assert accounts.read_text() == "money"
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_a_used_or_empty_folder_is_taken(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "new" / "one"):
        for _ in range(2):
            with DevFolder(path).held():
                (path / "ledger" / "group").write_text("{}")
            assert path.stat().st_mode & 0o777 == 0o700
