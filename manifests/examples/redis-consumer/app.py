"""Works on orders one at a time. Copy this and put your own work into `handle`."""

import json
import logging
import os
import time

import redis

from baton.consumer import Consumer
from baton.queues.redis import Entry

WORK_SECONDS = float(os.environ.get("WORK_SECONDS", "0"))
RECORD = os.environ.get("RECORD")  # a Redis list to write to, instead of standard output
record = redis.Redis.from_url(os.environ["BATON_REDIS_URL"]) if RECORD else None


def handle(entry: Entry) -> None:
    """Called for one entry at a time, in order per partition. Returns: it is acknowledged. Raises: it is tried again.

    An entry that is `redelivered` may have been worked on before: do it so that a second time does no harm.
    """
    time.sleep(WORK_SECONDS)
    done = {"pod": os.environ["POD_NAME"], "partition": entry.partition, "offset": entry.offset, "epoch": entry.epoch}
    done |= {"key": entry.key.decode(), "value": entry.value.decode(), "redelivered": entry.redelivered}
    if record is not None:
        record.rpush(str(RECORD), json.dumps(done))
    else:
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    Consumer.from_environment().run(handle)
