"""Runs a program of the guide as in a pod, but for the API server.

python guide_program.py UID LEDGER URL GROUP < program
"""

import logging
import sys
from pathlib import Path

from baton.consumer import AssignmentSource, Consumer
from baton.model.ids import MemberId, Uid
from baton.queues.kafka.consumer_side import KafkaConsumerSide

_, uid, ledger, url, group = sys.argv


def from_arguments() -> Consumer:
    side = KafkaConsumerSide(f"{url}?group={group}", "shop/orders", Uid(uid))
    return Consumer(side.reader, AssignmentSource(Path(ledger), MemberId("pod"), Uid(uid)), Uid(uid), transactions=True)


logging.basicConfig(level=logging.INFO)
Consumer.from_environment = from_arguments  # type: ignore[method-assign, assignment]
exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})
