"""Backups that are restored: of the queue's server alone, or of the ledger alone. Where they disagree, neither is believed."""

from collections.abc import Callable
from pathlib import Path

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator.world import Operator, World
from tests.integration.redis.test_lost_data import Snapshot
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, eventually

Start = Callable[..., Operator]


async def owned_by(world: World, pod: str) -> dict[int, Epoch]:
    """Wait until it owns all four."""

    async def so() -> bool:
        return await world.counts("orders") == {pod: 4} and (await world.status("orders")).get("state") == "Ready"

    await eventually(so, f"{pod} owns them all", shown=lambda: world.ledger_data("orders"))
    return (await world.owned("orders"))[pod]


async def handed_from_a_to_b(world: World) -> tuple[Uid, dict[int, Epoch], dict[int, Epoch]]:
    """B's UID, and the epochs of both."""
    before = await owned_by(world, "a")
    await world.delete_pod("a")
    uid = await world.pod("b", "orders")
    return uid, before, await owned_by(world, "b")


def accepts(server: RedisServer, world: World, uid: Uid, epoch: Epoch) -> bool:
    """Whether the queue lets this pod read partition 0 under this epoch."""
    with RedisReader(server.url, f"{world.namespace}/orders", uid) as reader:
        try:
            reader.read(0, epoch)
        except StaleOwner:
            return False
        return True


async def test_a_redis_from_a_backup_accepts_former_owners_until_all_is_granted_again(
    empty: World, start: Start, tmp_path: Path
) -> None:
    with RedisServer(fsync="always") as server:
        operator = await start(empty, "one").leads()
        (former,) = await empty.fleet("orders", "a", url=server.url, partitions=4)
        await owned_by(empty, "a")
        backup = Snapshot(server, tmp_path / "backup")
        present, before, after = await handed_from_a_to_b(empty)
        assert not accepts(server, empty, former, before[0])
        operator.stop()
        backup.roll_back()
        assert accepts(server, empty, former, before[0]), "this is why the guide stops the fleet first"
        assert not accepts(server, empty, present, after[0])
        await start(empty, "two").leads()

        async def granted_again() -> bool:
            now = (await empty.owned("orders")).get("b", {})
            return len(now) == 4 and all(now[number] > after[number] for number in now)

        await eventually(
            granted_again, "all is granted again with higher epochs than both", shown=lambda: empty.ledger_data("orders")
        )
        epochs = await owned_by(empty, "b")
        assert accepts(server, empty, present, epochs[0])
        assert not accepts(server, empty, former, before[0])
        assert not accepts(server, empty, present, after[0])
        assert "with higher epochs" in await empty.event("LedgerRebuilt", "orders")


async def test_a_ledger_from_a_backup_is_rebuilt_and_former_owners_stay_out(
    empty: World, start: Start, redis_server: RedisServer
) -> None:
    operator = await start(empty, "one").leads()
    (former,) = await empty.fleet("orders", "a", url=redis_server.url, partitions=4)
    before = await owned_by(empty, "a")
    backup = await empty.ledger_data("orders")
    await empty.set_ready("a", False)
    present = await empty.pod("b", "orders")
    after = await owned_by(empty, "b")
    operator.stop()
    gone = dict.fromkeys(await empty.ledger_data("orders") or {})
    await empty.api.merge(empty.ledger_path("orders"), {"data": {**gone, **(backup or {})}})
    await empty.set_ready("a", True)
    assert not accepts(redis_server, empty, former, before[0])
    await start(empty, "two").leads()
    assert "with higher epochs" in await empty.event("LedgerRebuilt", "orders")

    async def granted_again() -> bool:
        """Until then the ledger has some at their old epoch, which the queue refuses. What was to go to b before the queue was
        looked at may go to it at the very epoch at which it has it."""
        owned = await empty.owned("orders")
        held = [(pod, number, epoch) for pod, grants in owned.items() for number, epoch in grants.items()]
        above = all(epoch > after[number] or (pod, epoch) == ("b", after[number]) for pod, number, epoch in held)
        return sorted(map(len, owned.values())) == [2, 2] and above

    await eventually(granted_again, "both own two, none at an epoch of the backup", shown=lambda: empty.ledger_data("orders"))
    assert not accepts(redis_server, empty, former, before[0])
    assert not accepts(redis_server, empty, present, after[0])


async def test_entries_since_the_backup_are_gone_and_older_ones_are_marked(empty: World, start: Start, tmp_path: Path) -> None:
    with RedisServer(fsync="always") as server:
        operator = await start(empty, "one").leads()
        (uid,) = await empty.fleet("orders", "a", url=server.url, partitions=1)
        name = f"{empty.namespace}/orders"
        with RedisProducer(server.url, name, patience=PATIENCE) as producer, RedisReader(server.url, name, uid) as reader:
            producer.send("k", "done")
            (epoch,) = (await empty.owned("orders"))["a"].values()
            reader.ack(0, epoch, [entry.offset for entry in reader.read(0, epoch)])
            producer.send("k", "in the backup")
            backup = Snapshot(server, tmp_path / "backup")
            reader.ack(0, epoch, [entry.offset for entry in reader.read(0, epoch)])
            producer.send("k", "after the backup")
        backup.roll_back()

        async def granted_again() -> bool:
            return (await empty.owned("orders"))["a"][0] > epoch

        await eventually(granted_again, "it is granted again", shown=lambda: empty.ledger_data("orders"))
        with RedisReader(server.url, name, uid) as reader:
            entries = reader.read(0, (await empty.owned("orders"))["a"][0])
        assert [(entry.value, entry.redelivered) for entry in entries] == [(b"in the backup", True)]
        assert operator.process.poll() is None
