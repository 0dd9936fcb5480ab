"""`baton offsets` of a real group: its offsets, and a reset while no pod works on it."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from baton.model.ids import Epoch
from baton.queues.redis import RedisProducer, RedisReader
from baton.queues.redis.routing import RoutingTable
from tests.integration.operator import baton_command
from tests.integration.operator.world import SHOP, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def baton(kubeconfig: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return await baton_command.baton(*arguments, "--kubeconfig", kubeconfig, "-n", SHOP, answer=answer)


async def rows(kubeconfig: Path, group: str) -> Mapping[int, Mapping[str, object]]:
    done = await baton(kubeconfig, "offsets", group, "-o", "json")
    assert done.returncode == 0, done.stderr
    return {row["partition"]: row for row in json.loads(done.stdout)}


def send(server: RedisServer, queue: str, partition: int, *values: str) -> None:
    """To a queue with two partitions."""
    table = RoutingTable.even(1, 2)
    key = next(key for key in (b"key-%d" % number for number in range(100)) if table.partition_of(key) == partition)
    with RedisProducer(server.url, f"{SHOP}/{queue}") as producer:
        producer.send_many((key, value) for value in values)


async def begun(shop: World, server: RedisServer, name: str) -> None:
    """A group with one member that owns two partitions, with three entries in the first and one in the second."""
    await shop.fleet(name, url=server.url, partitions=2, queue={"rebalance": {"delaySeconds": 0, "maxHandoffSeconds": 0}})
    send(server, name, 0, "a", "b", "c")
    send(server, name, 1, "d")


async def stopped(shop: World, kubeconfig: Path, name: str) -> None:
    """It is paused, and its pod is gone."""
    await baton(kubeconfig, "pause", name)
    await shop.delete_pod(f"{name}-a")
    await shop.shows(name, observedGeneration=2, unowned=2)


async def read_by(shop: World, server: RedisServer, name: str, pod: str) -> list[bytes]:
    """What a new pod is handed of partition 0, once it owns it."""
    uid = await shop.pod(pod, name)
    await shop.spread(name, 2)
    epoch = (await shop.owned(name))[pod][0]
    with RedisReader(server.url, f"{SHOP}/{name}", uid) as reader:
        return [entry.value for entry in reader.read(0, Epoch(epoch))]


async def test_each_partition_is_shown_with_its_offset_lag_pending_and_owner(
    shop: World, kubeconfig: Path, redis_server: RedisServer
) -> None:
    await begun(shop, redis_server, "places")
    uid = (await shop.api.get(f"/api/v1/namespaces/{SHOP}/pods/places-a"))["metadata"]["uid"]
    epoch = (await shop.owned("places"))["places-a"][0]
    with RedisReader(redis_server.url, f"{SHOP}/places", uid) as reader:
        entries = reader.read(0, epoch, 2)
        reader.ack(0, epoch, [entries[0].offset])
    told = await rows(kubeconfig, "places")
    wanted = {"queue": "places", "partition": 0, "lag": 2, "pending": 1, "owner": "places-a", "state": "Ready", "epoch": epoch}
    assert told[0].items() >= wanted.items() and told[0].keys() - wanted.keys() == {"offset", "earliest", "end"}
    assert told[0]["end"] == int(str(told[0]["offset"])) + 2
    assert (told[1]["lag"], told[1]["pending"]) == (1, 0)
    shown = await baton(kubeconfig, "offsets", f"{SHOP}/places")
    assert shown.stdout.splitlines()[0].split() == ["QUEUE", "PARTITION", "OFFSET", "END", "LAG", "PENDING", "OWNER"]
    assert shown.stdout.splitlines()[1].split()[-3:] == ["2", "1", "places-a"]
    wide = await baton(kubeconfig, "offsets", "show", "places", "-o", "wide")
    assert wide.stdout.splitlines()[0].split()[-3:] == ["EARLIEST", "STATE", "EPOCH"]
    assert wide.stdout.splitlines()[1].split()[-2:] == ["Ready", str(epoch)]


async def test_nothing_is_reset_while_a_pod_may_work_on_it(shop: World, kubeconfig: Path, redis_server: RedisServer) -> None:
    await begun(shop, redis_server, "held")
    before = await rows(kubeconfig, "held")
    running = await baton(kubeconfig, "offsets", "reset", "held", "--to", "latest", "--yes")
    assert (running.returncode, running.stdout) == (1, "")
    assert f"{SHOP}/held is not paused: `baton pause held -n {SHOP}`" in running.stderr
    await baton(kubeconfig, "pause", "held")
    await shop.shows("held", state="Paused")
    owned = await baton(kubeconfig, "offsets", "reset", "held", "--to", "latest", "--yes")
    assert owned.returncode == 1 and "held-a may still work on these partitions" in owned.stderr
    dry = await baton(kubeconfig, "offsets", "reset", "held", "--to", "latest", "--dry-run")
    assert dry.returncode == 1 and "LEFT OUT" in dry.stdout and "a reset would be refused now" in dry.stderr
    for refused in (running, owned, dry):
        assert len(refused.stderr.splitlines()) == 1
    assert await rows(kubeconfig, "held") == before


async def test_a_reset_is_previewed_then_confirmed_and_the_next_owner_continues_there(
    shop: World, kubeconfig: Path, redis_server: RedisServer
) -> None:
    await begun(shop, redis_server, "skips")
    await stopped(shop, kubeconfig, "skips")
    before = await rows(kubeconfig, "skips")
    second = str(int(str(before[0]["offset"])) + 1)
    reset = ("offsets", "reset", "skips", "--partition", "0", "--to", second)
    dry = await baton(kubeconfig, *reset, "--dry-run")
    assert dry.returncode == 0 and dry.stdout.splitlines()[1].split() == ["skips", "0", str(before[0]["offset"]), second, "1"]
    assert "dry run; nothing was changed" in dry.stdout
    no = await baton(kubeconfig, *reset, answer="n\n")
    assert no.returncode == 1 and f"Set 1 partition of skips to {second}: 1 entry left out, permanently?" in no.stdout
    assert await rows(kubeconfig, "skips") == before
    yes = await baton(kubeconfig, *reset, answer="y\n")
    assert yes.returncode == 0, yes.stderr
    assert f"1 partition of skips set to {second}, and 1 entry left out" in yes.stdout
    after = await rows(kubeconfig, "skips")
    assert (after[0]["lag"], after[1]) == (2, before[1])
    again = await baton(kubeconfig, *reset, "--yes")
    assert again.returncode == 0 and "already there; nothing was changed" in again.stdout
    await baton(kubeconfig, "resume", "skips")
    assert await read_by(shop, redis_server, "skips", "skips-b") == [b"b", b"c"]


@pytest.mark.long
async def test_a_reset_of_several_queues_needs_a_name_and_external_ones_are_refused(
    shop: World, kubeconfig: Path, redis_server: RedisServer
) -> None:
    await shop.redis("both-redis", redis_server.url, partitions=1)
    await shop.external("both-external", partitions=1)
    await shop.group("both", ["both-redis", "both-external"])
    await shop.pod("both-a", "both")

    async def made() -> bool:
        return bool((await baton(kubeconfig, "offsets", "both", "-o", "json")).stdout.count('"both-redis"'))

    await eventually(made, "the operator has made the queue")
    shown = await baton(kubeconfig, "offsets", "both")
    assert shown.returncode == 1 and "both-redis" in shown.stdout
    assert shown.stderr.strip().endswith("both-external: Baton can neither read nor set offsets of queues of type External")
    which = await baton(kubeconfig, "offsets", "reset", "both", "--to", "latest", "--yes")
    assert which.returncode == 1 and "name one with --queue" in which.stderr
    other = await baton(kubeconfig, "offsets", "reset", "both", "--to", "latest", "--queue", "both-external", "--yes")
    said = "both-external: Baton can neither read nor set offsets of queues of type External"
    assert other.returncode == 1 and said in other.stderr
