"""An owner: reads the partitions it is granted, and writes a line for each entry handled and each commit accepted.

Standard input has a line for each grant: `partition epoch owned`. All owners append to the file OUTPUT, so it is in order.
"""

import faulthandler
import os
import signal
import sys
import threading
from queue import Empty, SimpleQueue

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka.address import read
from baton.queues.kafka.reader import KafkaReader
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.reading import read_some
from tests.kafka_pod import shared, wait_for_entries

_AT_ONCE = 5


class Owner:
    """One process: its partitions and its file."""

    def __init__(self) -> None:
        uid = Uid(os.environ["POD_UID"])
        address, group = read(os.environ["URL"]), os.environ["GROUP"]
        self._reader = KafkaReader(address, group, QueueName("orders"), uid, *shared(address, group))
        self._output = os.open(os.environ["OUTPUT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._owned: dict[int, Epoch] = {}
        self._told: SimpleQueue[str] = SimpleQueue()

    def listen(self) -> None:
        for line in sys.stdin:
            self._told.put(line)

    def run(self) -> None:
        while True:
            self._hear()
            for partition, epoch in list(self._owned.items()):
                try:
                    self._turn(partition, epoch)
                except StaleOwner as refusal:
                    print(refusal, file=sys.stderr, flush=True)
                    self._reader.release({partition: epoch}, 3)
                    if refusal.record.epoch >= epoch:  # else the ledger would say that it is still the owner: it begins again
                        del self._owned[partition]
                except QueueUnreachable as problem:
                    print(partition, epoch, problem, file=sys.stderr, flush=True)
            wait_for_entries(self._reader, self._owned, 0.02)

    def _hear(self) -> None:
        try:
            while True:
                partition, epoch = map(int, self._told.get(block=not self._owned).split()[:2])
                self._owned[partition] = Epoch(epoch)
                self._reader.ready(partition, Epoch(epoch))  # what is granted is taken up while others are read
        except Empty:
            return

    def _turn(self, partition: int, epoch: Epoch) -> None:
        entries = read_some(self._reader, partition, epoch, _AT_ONCE)
        for entry in entries:
            self._say("handled", partition, epoch, entry.offset, int(entry.redelivered))
        if entries:
            self._reader.ack(partition, epoch, [entry.offset for entry in entries])
            self._say("taken", partition, epoch, int(entries[-1].offset) + 1, 0)

    def _say(self, *words: object) -> None:
        os.write(self._output, (" ".join(map(str, words)) + "\n").encode())


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    owner = Owner()
    threading.Thread(target=owner.listen, daemon=True).start()
    owner.run()


if __name__ == "__main__":
    main()
