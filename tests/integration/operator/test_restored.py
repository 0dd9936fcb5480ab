"""The queue's server is restored from a backup that is older than the ledger."""

from collections.abc import Callable
from pathlib import Path

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.redis import RedisReader
from tests.integration.operator.world import Operator, World
from tests.integration.redis.test_lost_data import Snapshot
from tests.redis_server import RedisServer
from tests.waiting import eventually

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


async def test_a_redis_from_an_older_backup_believes_its_former_owner_until_the_operator_has_granted_again(
    empty: World, start: Start, tmp_path: Path
) -> None:
    with RedisServer(fsync="always") as server:
        operator = await start(empty, "one").leads()
        await empty.redis("orders", server.url, partitions=4)
        await empty.group("orders")
        former = await empty.pod("a", "orders")
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

        await eventually(granted_again, "it is granted again, above both", shown=lambda: empty.ledger_data("orders"))
        epochs = await owned_by(empty, "b")
        assert accepts(server, empty, present, epochs[0])
        assert not accepts(server, empty, former, before[0])
        assert not accepts(server, empty, present, after[0])
        assert "above both" in await empty.event("LedgerRebuilt", "orders")
