"""A wait that a signal handler interrupts takes no entries from the next wait."""

import os
import signal
import threading

import pytest

from baton.testing import TestQueue
from tests.waiting import until


class AlarmError(Exception):
    pass


def test_a_batch_that_a_signals_handler_did_not_wait_for_comes_to_the_next_who_asks() -> None:
    def alarm(*_: object) -> None:
        raise AlarmError

    queue = TestQueue()
    before = signal.signal(signal.SIGUSR1, alarm)
    try:
        with queue.consumer() as consumer:
            batches = consumer.batches()

            def call() -> None:
                until(lambda: consumer._loop._turns.dispatcher.wants)
                os.kill(os.getpid(), signal.SIGUSR1)

            caller = threading.Thread(target=call)
            caller.start()
            with pytest.raises(AlarmError):
                next(batches)
            caller.join()
            queue.send("k", "v")
            assert next(batches)[0].offset == "0"
    finally:
        signal.signal(signal.SIGUSR1, before)
