"""Works on orders one at a time. Copy this and put your own work into `handle`."""

import json
import logging
import os

from baton.consumer import Consumer, Entry


def handle(entry: Entry) -> None:
    """Called for one entry at a time, in order per partition. Returns: it is committed. Raises: it is tried again.

    An entry that is `redelivered` may have been worked on before: do it so that a second time does no harm. Key and value may be
    None: a message without a key, a tombstone.
    """
    done = {"pod": os.environ["POD_NAME"], "partition": entry.partition, "offset": entry.offset, "epoch": entry.epoch}
    done |= {name: read.decode() if read is not None else None for name, read in (("key", entry.key), ("value", entry.value))}
    print(json.dumps(done | {"redelivered": entry.redelivered}), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    Consumer.from_environment().run(handle)
