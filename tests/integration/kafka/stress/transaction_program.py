"""A pod's program: a consumer that sends one output for each entry, in transactions. Its handler sometimes fails after sending.

Standard input has a line for each grant (`partition epoch owned`) and each pause (`partition epoch revoking`). All owners append
to the file OUTPUT; OUT is the topic for outputs.
"""

import faulthandler
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable

from baton.consumer import AnnouncedAssignments, Batch, Consumer, Entry, Retry
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.kafka.consumer_side import KafkaConsumerSide

_GROUP, _POD, _QUEUE = "shop/orders", MemberId("pod"), QueueName("orders")
_FAILS = 0.02
"""Share of entries whose handler fails."""


class ToldAssignments:
    """`Assignments` (baton.consumer) from standard input. Only the broker says that a partition is lost."""

    def __init__(self, uid: Uid) -> None:
        self._uid = uid
        self._owned: dict[int, Epoch] = {}
        self._revoking: dict[int, Epoch] = {}
        self._entry = self._made()

    def current(self) -> MemberEntry:
        return self._entry

    def watch(self, changed: Callable[[], None]) -> None:
        threading.Thread(target=self._listen, args=(changed,), daemon=True).start()

    def close(self) -> None: ...

    def _listen(self, changed: Callable[[], None]) -> None:
        for line in sys.stdin:
            partition, epoch = map(int, line.split()[:2])
            self._owned.pop(partition, None)
            self._revoking.pop(partition, None)
            (self._owned if line.split()[2] == "owned" else self._revoking)[partition] = Epoch(epoch)
            self._entry = self._made()
            changed()

    def _made(self) -> MemberEntry:
        return MemberEntry(_GROUP, _POD, self._uid, 1, True, {_QUEUE: dict(self._owned)}, {_QUEUE: dict(self._revoking)})


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    uid, out = Uid(os.environ["POD_UID"]), os.environ["OUT"]
    output = os.open(os.environ["OUTPUT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    side = KafkaConsumerSide(f"{os.environ['URL']}?group={os.environ['GROUP']}", _GROUP, uid)
    assignments = AnnouncedAssignments(ToldAssignments(uid), side.announcements(), _GROUP, _POD, uid)
    consumer = Consumer(side.reader, assignments, uid, transactions=True)

    def send(entries: list[Entry]) -> None:
        with consumer.transaction(entries) as transaction:
            for entry in entries:
                transaction.send(out, f"{entry.partition} {entry.offset}", key=entry.key, partition=entry.partition)
                if random.random() < _FAILS:
                    raise Retry("it fails now and then", delay=0)
        for entry in entries:
            words = ("handled", entry.partition, entry.epoch, entry.offset, int(entry.redelivered))
            os.write(output, (" ".join(map(str, words)) + "\n").encode())

    def in_batches(batch: Batch) -> None:
        for entries in batch.by_partition().values():
            send(entries)

    if uid.endswith(("1", "3", "5", "7", "9")):
        consumer.run(lambda entry: send([entry]))
    else:
        consumer.run(in_batches, max_entries=20, max_wait=0.02, concurrency=2)


if __name__ == "__main__":
    main()
