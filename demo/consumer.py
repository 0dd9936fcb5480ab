"""The consumer of `make try`, as a user would write it: works on a batch for a while, then reports it to the sink."""

import os
import time
from itertools import count

import redis

from baton.consumer import Batch, Consumer
from demo.app import report

SECONDS = 0.2
"""Seconds of work on a batch: sleep, because the two cores have other work."""


def main() -> None:
    name, queue = os.environ["POD_NAME"], os.environ["BATON_DEV_QUEUE"]
    server = redis.Redis.from_url(os.environ["BATON_REDIS_URL"])
    numbers = count(1)

    def handle(batch: Batch) -> None:
        began, number = time.time(), next(numbers)
        time.sleep(SECONDS)
        for partition, entries in batch.by_partition().items():
            epoch = entries[0].epoch
            rows = [[each.offset, each.timestamp, each.key.decode(), int(each.value), each.redelivered] for each in entries]
            # The sink rejects results of epochs older than the newest it has seen.
            span = (epoch + 1, epoch)
            report(server, queue, name, partition.number, epoch, number, f"{os.getpid()}-{number}", span, began, rows)

    print(os.getpid(), flush=True)
    Consumer.from_environment().run(handle, max_entries=1000, max_wait=0.05)


if __name__ == "__main__":
    main()
