"""Works on orders one at a time. Copy this and put your own work into `handle`."""

import json
import logging
import os

from baton.consumer import Consumer, Entry


def handle(entry: Entry) -> None:
    """Called for one entry at a time, in order per partition. Returns: it is acknowledged. Raises: it is tried again.

    An entry that is `redelivered` may have been worked on before: do it so that a second time does no harm.
    """
    done = {"pod": os.environ["POD_NAME"], "partition": entry.partition, "offset": entry.offset, "epoch": entry.epoch}
    done |= {"key": entry.key.decode(), "value": entry.value.decode(), "redelivered": entry.redelivered}
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    Consumer.from_environment().run(handle)
