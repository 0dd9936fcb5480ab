"""Runs a program of the guide as in a pod, without an API server.

python guide_program.py UID LEDGER URL NAMESPACE/QUEUE < program
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from baton.consumer import AssignmentSource, Consumer
from baton.consumer.callbacks import Callbacks
from baton.consumer.handler_options import Deserializers
from baton.model.ids import MemberId, Uid
from baton.queues.redis import RedisReader

_, uid, ledger, url, queue = sys.argv


def from_arguments(
    on_assigned: Callable[..., object] | None = None,
    on_revoked: Callable[..., object] | None = None,
    on_lost: Callable[..., object] | None = None,
    key_deserializer: Callable[[bytes], Any] | None = None,
    value_deserializer: Callable[[bytes], Any] | None = None,
) -> Consumer:
    return Consumer(
        lambda name: RedisReader(url, queue, uid),
        AssignmentSource(Path(ledger), MemberId("pod"), Uid(uid)),
        Uid(uid),
        callbacks=Callbacks(on_assigned, on_revoked, on_lost),
        deserializers=Deserializers(key_deserializer, value_deserializer),
    )


logging.basicConfig(level=logging.INFO)
Consumer.from_environment = from_arguments  # type: ignore[method-assign, assignment]
exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})
