"""`baton dead-letters` finds the queue's server in the cluster, if it may."""

import subprocess
from pathlib import Path

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from tests.integration.operator.accounts import account
from tests.integration.operator.baton_command import baton
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster
from tests.redis_server import RedisServer

NAMESPACE = "letters"
BY_HAND = ("send", "bad", "--key", ""), ("peek", "--partition", "0")


async def letters(kubeconfig: Path, command: str, queue: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("dead-letters", command, "--kubeconfig", kubeconfig, "-n", NAMESPACE, queue, *arguments)


async def test_dead_letters_are_found_at_the_server_that_the_queue_names(api: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    world = await namespace(api, NAMESPACE)
    name = f"{NAMESPACE}/orders"
    with RedisServer() as server:
        await world.secret("orders-redis", server.url)
        source = {"type": "Redis", "redis": {"urlSecretRef": {"name": "orders-redis"}}}
        await world.queue("orders", source, 1)
        await world.external("others", partitions=1)
        queue = RedisQueue(server.url, name, Claimant(name, "uid"))
        await queue.ensure(1)
        await queue.grant(0, Uid("a"), Epoch(1))
        with RedisProducer(server.url, name) as producer, RedisReader(server.url, name, "a") as reader:
            producer.send("key", "bad")
            [entry] = reader.read(0, Epoch(1))
            reader.set_aside(0, Epoch(1), entry.offset, "ValueError: no")
            shown = await letters(kubeconfig, "list", "orders")
            assert "has 1 dead letter." in shown.stdout and "ValueError: no" in shown.stdout, shown
            sent = await letters(kubeconfig, "redrive", "orders", "--all")
            assert "1 dead letter sent again" in sent.stdout, sent
            assert [one.value for one in reader.read(0, Epoch(1))] == [b"bad"]
        await queue.close()
        both = [await baton(one, "orders", "--kubeconfig", kubeconfig, "-n", NAMESPACE, *more) for one, *more in BY_HAND]
        assert [one.returncode for one in both] == [0, 0] and both[1].stdout.endswith("  -  bad\n"), both

        looker = await account(api, "looks-at-queues", kubeconfig, tmp_path, [NAMESPACE])
        refused = await letters(looker.kubeconfig, "list", "orders")
        assert refused.returncode == 1
        assert "you may not read the Secret" in refused.stderr and "BATON_REDIS_URL" in refused.stderr
        missing = await letters(kubeconfig, "list", "nothing")
        assert missing.returncode == 1 and f"no PartitionedQueue {NAMESPACE}/nothing" in missing.stderr
        other = await letters(kubeconfig, "list", "others")
        assert other.returncode == 1 and "no server to ask: its spec.source.type is External" in other.stderr
        by_hand = await baton("peek", "others", "--kubeconfig", kubeconfig, "-n", NAMESPACE, "--partition", "0")
        assert by_hand.returncode == 1 and "no server to ask" in by_hand.stderr
        for done in (refused, missing, other, by_hand):
            assert len(done.stderr.splitlines()) == 1
