"""What the pods of `test_plain_pods` run: a consumer that tells a Redis list, for each message, that it has processed it.

The list is fenced as the sink of an at-least-once consumer should be: it asks the owner record whether the epoch is in force.
"""

import json
import os
from collections.abc import Callable

import redis

from baton.consumer import Consumer
from baton.queues.entry import Entry

SINK = """
local late = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') > tonumber(ARGV[1])
for _, list in ipairs({KEYS[2], KEYS[3]}) do redis.call('RPUSH', list, (late and '1' or '0') .. ARGV[2]) end
"""


def main() -> None:
    """Works until the pod is asked to stop."""
    Consumer.from_environment().run(handler(redis.Redis.from_url(os.environ["BATON_REDIS_URL"])))


def handler(server: redis.Redis) -> Callable[[Entry], None]:
    """Tells the list of the partition, `processed:{namespace/queue:partition}`, and that of the whole queue, for keys may go from
    one partition to another: `processed:{namespace/queue}`."""
    sink = server.register_script(SINK)
    root = f"{os.environ['POD_NAMESPACE']}/{os.environ['QUEUE']}"

    def handle(entry: Entry) -> None:
        place = f"{{{root}:{entry.partition}}}"
        row = [
            entry.partition, entry.offset, entry.timestamp, entry.key.decode(), int(entry.value), entry.epoch, entry.redelivered,
            os.environ["POD_NAME"], 0, f"{os.environ['POD_UID']}-{entry.epoch}-{os.getpid()}",
        ]  # fmt: skip
        sink([f"pq:{place}:owner", f"processed:{place}", f"processed:{{{root}}}"], [entry.epoch, json.dumps(row)])

    return handle


if __name__ == "__main__":
    main()
