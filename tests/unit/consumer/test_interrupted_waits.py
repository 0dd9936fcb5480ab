"""A wait that a signal's handler cuts short takes nothing from whoever waits next."""

import os
import signal
import threading

import pytest

from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import until


class AlarmError(Exception):
    pass


def test_a_batch_that_a_signals_handler_did_not_wait_for_comes_to_the_next_who_asks() -> None:
    def alarm(*_: object) -> None:
        raise AlarmError

    queue, ledger = InMemoryQueue(), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    before = signal.signal(signal.SIGUSR1, alarm)
    try:
        with consumer:
            batches = consumer.batches()

            def call() -> None:
                until(lambda: consumer._loop._turns.dispatcher.wants)
                os.kill(os.getpid(), signal.SIGUSR1)

            caller = threading.Thread(target=call)
            caller.start()
            with pytest.raises(AlarmError):
                next(batches)
            caller.join()
            queue.unread[0] = [("0", b"k"), ("1", b"k")]
            consumer.interrupt()
            batch = next(batches)
            assert [entry.offset for entry in batch] == ["0", "1"]
            ledger.says({})
    finally:
        signal.signal(signal.SIGUSR1, before)
