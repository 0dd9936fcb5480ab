"""`baton lag` and `baton top`: what the operator knows, by its leader's pod through the API server, or at a URL."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.kube.api import core_path
from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator import baton_command
from tests.integration.operator.world import SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def baton(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton_command.baton(*arguments, "--kubeconfig", kubeconfig)


def own_address() -> str | None:
    """This machine's address, not the loopback's, which the API server does not proxy to. Nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(asked.getsockname()[0])


async def test_lag_is_shown_by_queue_and_partition_and_top_shows_all_groups(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer
) -> None:
    operator = await start(empty, "leader", "--metrics-address", "0.0.0.0").leads()
    here = f"{empty.namespace}/work"
    await empty.external("silent", partitions=2)
    await empty.group("silent")
    await empty.fleet("work", url=redis_server.url, partitions=3)
    with RedisProducer(redis_server.url, here) as producer:
        producer.send_many([("key", str(number)) for number in range(7)])
    labels = {"namespace": empty.namespace, "group": "work"}
    await operator.measures("baton_group_lag", lambda lag: lag == 7, **labels)
    at = ("--operator", f"http://127.0.0.1:{operator.port}")

    shown = await baton(kubeconfig, "lag", here, *at)
    assert (shown.returncode, "7" in shown.stdout.splitlines()[1].split()) == (0, True), shown
    rows = json.loads((await baton(kubeconfig, "lag", here, "--partitions", "-o", "json", *at)).stdout)
    assert [row["lag"] for row in rows] == [7, 0, 0] and {row["owner"] for row in rows} == {"work-a"}
    listed = json.loads((await baton(kubeconfig, "lag", "-n", empty.namespace, "-o", "json", *at)).stdout)
    assert {one["group"]: one["lag"] for one in listed} == {"work": 7, "silent": None}

    unknown = await baton(kubeconfig, "lag", f"{empty.namespace}/silent", *at)
    said = "baton lag: the lag of silent is unknown: its server does not answer, or does not know it\n"
    assert (unknown.returncode, unknown.stderr) == (1, said)

    screen = await baton(kubeconfig, "top", "-n", empty.namespace, *at)
    assert screen.returncode == 0 and screen.stdout.startswith("2 groups: ")
    assert any(line.split()[1:2] == ["work"] and "7" in line.split() for line in screen.stdout.splitlines())

    wide = await baton(kubeconfig, "lag", here, "-o", "wide", *at)
    assert "EACH" in wide.stdout.splitlines()[0].split(), wide
    told = json.loads((await baton(kubeconfig, "top", "-n", empty.namespace, "-o", "json", *at)).stdout)
    assert {one["group"]: one["lag"] for one in told} == {"work": 7, "silent": None}

    refused = await baton(kubeconfig, "lag", here)
    assert refused.returncode == 1 and "there is no pod leader" in refused.stderr and len(refused.stderr.splitlines()) == 1
    if (address := own_address()) is None:
        pytest.skip("this machine has no address besides the loopback's")
    pods = core_path(empty.namespace, "pods")
    spec = {"containers": [{"name": "operator", "image": "none"}]}
    await empty.api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leader"}, "spec": spec})
    await empty.api.merge(f"{pods}/leader/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    proxied = await baton(kubeconfig, "lag", here, "-o", "json")
    assert json.loads(proxied.stdout)["queues"] == {"work": {"lag": 7}}, proxied.stderr


@pytest.mark.parametrize("answer", [b"", b"[]", b"nonsense", b'{"lag": -1}', b'{"queues": {"a": {"\\u001b": 1}}}', b"[" * 10_000])
async def test_an_answer_that_is_no_operators_is_reported_in_one_line(shop: World, kubeconfig: Path, answer: bytes) -> None:
    if await shop.get_group("odd") is None:
        await shop.external("odd", partitions=1)
        await shop.group("odd")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        one = await baton(kubeconfig, "lag", f"{SHOP}/odd", "--operator", url)
        every = await baton(kubeconfig, "top", "-n", SHOP, "--operator", url)
    assert len(one.stderr.splitlines()) <= 1 and "Traceback" not in one.stderr + every.stderr
    assert every.returncode == 0 and "odd" in every.stdout


# -- The lag for autoscalers: fresh or absent, with or without members, from any replica.


async def test_lag_is_served_without_members_and_absent_while_the_queue_is_away(
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

        await eventually(absent, "there is no lag of a queue that does not answer")
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
