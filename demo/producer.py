"""Sends keyed, numbered messages at a steady rate until stopped: `python -m demo.producer URL QUEUE RATE`.

Each key counts for itself: 1, 2, 3 … Standard output is one line of JSON a few times a second, `{"produced": N}`, and at the end
`{"keys": {"customer-17": N, …}, "seconds": S}`: what the queue has acknowledged. SIGTERM and Ctrl-C end it, after what is under
way.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Self

KEYS = 240
_TICK = 0.04
"""Seconds between two calls; each sends the messages that are due."""


def run(url: str, queue: str, rate: float) -> None:
    from baton.queues.redis import RedisProducer

    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    sent: Counter[str] = Counter()
    total = 0
    begin = told = time.monotonic()
    producer = RedisProducer(url, queue)
    while not stop.wait(_TICK):
        due = min(int((time.monotonic() - begin) * rate) - total, int(rate))
        batch = []
        for number in range(total, total + due):
            key = f"customer-{number % KEYS}"
            batch.append((key, str(sent[key] + 1)))
            sent[key] += 1
        producer.send_many(batch)
        total += due
        if time.monotonic() - told > 0.25:
            told = time.monotonic()
            print(json.dumps({"produced": total}), flush=True)
    producer.close()
    print(json.dumps({"keys": sent, "seconds": time.monotonic() - begin}), flush=True)


class Producer:
    """The producer in a separate process, so that drawing the view does not disturb its rate."""

    def __init__(self, url: str, queue: str, rate: float, process_group: int = 0) -> None:
        """`process_group`: 0: a new one. It is not this process's, because on Ctrl-C the demo itself stops its producer."""
        self.produced = 0
        self.keys: dict[str, int] = {}
        self.rate = 0.0
        """The average of messages per second, once the producer has stopped."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.producer", url, queue, str(rate)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            process_group=process_group,
        )
        self._reader = threading.Thread(target=self._read, name="producer", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def stop(self) -> dict[str, int]:
        """Stop the producer and return the last sequence of each key. Raises RuntimeError if it has failed."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            raise RuntimeError("the producer did not end within 30 s") from None
        self._reader.join(5)
        if self._process.returncode or not self.keys:
            assert self._process.stderr is not None
            raise RuntimeError(f"the producer failed: {self._process.stderr.read()[-2000:]}")
        self.produced = sum(self.keys.values())
        return self.keys

    def failed(self) -> bool:
        """Whether the producer ended by itself."""
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.produced = told.get("produced", self.produced)
            self.keys = told.get("keys", self.keys)
            if "seconds" in told:
                self.rate = sum(self.keys.values()) / max(told["seconds"], 0.001)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], float(sys.argv[3]))
