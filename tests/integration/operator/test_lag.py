"""The lag that autoscalers are told: fresh or not at all, whoever is a member, by whichever replica is asked."""

import json
from collections.abc import Callable

from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator.world import Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def test_it_is_told_without_members_and_absent_while_the_queue_is_away(
    empty: World, start: Callable[..., Operator]
) -> None:
    with RedisServer(fsync="always") as server:
        operator = start(empty, "leader")
        await operator.leads()
        path = f"/groups/{empty.namespace}/idle/lag"
        await empty.redis("idle", server.url, partitions=2)
        await empty.group("idle")
        await empty.told("idle", "NoMembers")
        labels = {"namespace": empty.namespace, "group": "idle"}
        await operator.measures("baton_group_lag", lambda lag: lag == 0, **labels)
        with RedisProducer(server.url, f"{empty.namespace}/idle") as producer:
            producer.send_many([("key", str(number)) for number in range(400)])
        await operator.measures("baton_group_lag", lambda lag: lag == 400, **labels)
        told = json.loads(operator.get(path)[1])
        assert (told["lag"], told["partitionsWithLag"]) == (400, 1), "all have one key"
        assert told["lagSeconds"] == told["waitingSeconds"] > 0
        assert operator.metric("baton_group_lag_partitions", **labels) == 1
        # KEDA reads infinity and an empty answer as 0: a fleet of none would never wake.
        await operator.measures("baton_group_lag_seconds", lambda seconds: 7 < seconds < float("inf"), **labels)

        follower = await start(empty, "follower").running()

        async def sent_on() -> bool:
            code, told = follower.get(path)
            return code == 200 and json.loads(told)["lag"] == 400

        await eventually(sent_on, "the replica that follows sends on to the leader")

        server.kill()

        async def absent() -> bool:
            return operator.metric("baton_group_lag", **labels) is None and operator.get(path)[0] == 503

        await eventually(absent, "nothing is told of a queue that does not answer")
        server.start()
        await operator.measures("baton_group_lag", lambda lag: lag == 400, **labels)
        uid = await empty.pod("idle-a", "idle")
        await empty.spread("idle", 2)
        with RedisReader(server.url, f"{empty.namespace}/idle", uid) as reader:
            for number, epoch in (await empty.owned("idle"))["idle-a"].items():
                while entries := reader.read(number, epoch):
                    reader.ack(number, epoch, [entry.offset for entry in entries])
        await operator.measures("baton_group_lag", lambda lag: lag == 0, **labels)
        await operator.measures("baton_group_lag_seconds", lambda seconds: seconds == 0, **labels)
