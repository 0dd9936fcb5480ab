"""A group on a queue of the toy kind, in a tree that has the kind: the operator, its ledger, and a consumer that goes by it.

Run by a test as a program, with that tree before any other. Prints what it saw, as JSON.
"""

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path

from baton.queues.toy.server import SERVERS, ToyQueue

from baton.api import ConsumerGroupSpec, PartitionedQueueSpec, sessions_required
from baton.api.generate import files
from baton.consumer import AssignmentSource, Consumer
from baton.controller.adapters import open_queue
from baton.kube.api import core_path
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import MemberId, Uid
from baton.queues.consumer_side import addressed, opened
from baton.queues.entry import Entry
from baton.queues.kinds import kind
from baton.simulation import virtual_time
from tests.simulation.api_server import MemoryApi
from tests.simulation.replicas import Lone

SPEC = {"source": {"type": "Toy", "toy": {"server": "one"}}, "partitions": 4, "rebalance": {"delaySeconds": 0}}


async def operated() -> tuple[dict[str, str], Uid]:
    """Return the ledger with two pods, and the UID of one."""
    lone: Lone = Lone(["shop"], open_queue=lambda view, claimant: open_queue(MemoryApi(lone.server), view, claimant))
    lone.make(queues_path("shop"), {"metadata": {"name": "orders"}, "spec": SPEC})
    lone.make(groups_path("shop"), {"metadata": {"name": "orders"}, "spec": {"queues": [{"name": "orders"}]}})
    for pod in ("a", "b"):
        lone.pod(pod)
    async with asyncio.timeout(60):
        while lone.owned() != {"a": 2, "b": 2}:
            for pod in ("a", "b"):
                lone.renew("shop", pod)
            await asyncio.sleep(1)
    ledger = lone.ledger()
    uid = lone.get(core_path("shop", "pods", "a"))["metadata"]["uid"]
    assert not lone.replica.tasks.failures.total()
    await lone.stop()
    return ledger, Uid(uid)


def consumed(ledger: dict[str, str], uid: Uid, queue: ToyQueue) -> list[str]:
    """Return the values that a consumer with this ledger handles."""
    handled: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ledger.items():
            (Path(folder) / name).write_text(text)
        of, address = addressed({"BATON_TOY_SERVER": "one"})
        side = opened(of, address, "shop/orders", uid)
        consumer = Consumer(side.reader, AssignmentSource(Path(folder), MemberId("a"), uid), uid)
        ours = [number for number, owner in queue.owners.items() if owner.uid == uid]

        def handle(entry: Entry) -> None:
            handled.append(entry.value.decode())
            if len(handled) == len(ours):
                (Path(folder) / "a").unlink()
                consumer.stop()

        ending = threading.Timer(60, consumer.stop)
        ending.start()
        consumer.run(handle)
        ending.cancel()
    return sorted(handled)


def main() -> None:
    written = files(Path(sys.argv[1]))
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = PartitionedQueueSpec.model_validate(SPEC)
    ledger, uid = virtual_time.run(operated())
    queue = SERVERS["one"]["shop/orders"]
    for number in range(4):
        queue.values[number].append(b"%d" % number)
    handled = consumed(ledger, uid, queue)
    print(
        json.dumps(
            {
                "type": spec.source.kind.name,
                "server": getattr(spec.source.fields, "server", None),
                "sessions": sessions_required(ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}]}), [spec]),
                "most": kind("Toy").most_partitions,
                "owned": sorted(number for number, owner in queue.owners.items() if owner.uid == uid),
                "handled": handled,
                "done": sorted(number for number, _ in queue.done),
            }
        )
    )


if __name__ == "__main__":
    main()
