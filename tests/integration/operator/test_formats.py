"""What commands and pages give to programs: the fields, and what is in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from baton.queues.redis import RedisProducer, RedisReader
from tests.formats import same
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

RECORDS = [{"key": "k", "sequence": number, "member": "a", "redelivered": number == 3} for number in (1, 3, 2, 3, 5, 5)]


async def test_commands_and_pages_have_the_recorded_formats(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer, tmp_path: Path
) -> None:
    """A proposal waits, an entry is in hand, and one is a dead letter."""
    operator = await start(empty, "leader", "--metrics-address", "0.0.0.0").leads()
    here = f"{empty.namespace}/work"
    (uid,) = await empty.fleet("work", url=redis_server.url, partitions=2, approval="Manual")
    epoch = (await empty.owned("work"))["work-a"][0]
    with RedisProducer(redis_server.url, here) as producer, RedisReader(redis_server.url, here, uid) as reader:
        for value in ("rejected", "in hand"):
            producer.send("key", value, {"trace": "7"}, partition=0)
        rejected, _ = reader.read(0, epoch)
        reader.set_aside(0, epoch, rejected.offset, "it is no number")
    await empty.pod("work-b", "work")
    await empty.told("work", "WaitingForApproval", kind="ProposalReady")
    labels = {"namespace": empty.namespace, "group": "work"}
    await operator.measures("baton_group_lag", lambda lag: lag == 1, **labels)
    records = tmp_path / "records.jsonl"
    records.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))

    async def said(*arguments: str) -> Any:
        where = () if arguments[0] == "check-order" else ("--kubeconfig", kubeconfig)
        done = await baton(*arguments, "-o", "json", *where)
        assert done.stdout, done
        return shape(json.loads(done.stdout))

    async def explained() -> Any:
        found = await said("explain", here, "work/0", *address)
        return found if found["since"] else None

    address = ("--operator", f"http://127.0.0.1:{operator.port}")
    found = {
        "baton status GROUP": await said("status", here),
        "baton status": await said("status", "-n", empty.namespace),
        "baton top": await said("top", "-n", empty.namespace, *address),
        "baton lag GROUP --partitions": await said("lag", here, "--partitions", *address),
        "baton lag": await said("lag", "-n", empty.namespace, *address),
        "baton explain": await eventually(explained, "an event tells since when"),
        "baton offsets": await said("offsets", here),
        "baton dead-letters list": await said("dead-letters", "list", here),
        "baton doctor": await said("doctor", "-n", empty.namespace),
        "baton check-order": await said("check-order", str(records)),
        "GET /groups/{namespace}/{group}/lag": shape(json.loads(operator.get(f"/groups/{here}/lag")[1])),
        "GET /groups/lag": shape(json.loads(operator.get("/groups/lag")[1])),
    }
    same("commands.json", found)


def shape(value: Any) -> Any:
    """Of a list the different shapes of its items."""
    match value:
        case dict():
            return {key: shape(one) for key, one in value.items()}
        case list():
            return [json.loads(one) for one in sorted({json.dumps(shape(one)) for one in value})]
        case None:
            return None
        case bool():
            return "boolean"
        case int() | float():
            return "number"
    return "text"
