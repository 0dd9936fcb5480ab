"""The size of a Spark fleet over time: a line per change, with the lag and the number of moves."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.e2e.spark.shop import Shop


class Size(NamedTuple):
    """The size at one moment."""

    desired: int
    executors: int
    members: int
    moves: int
    least: int


@contextmanager
def sizes_told(shop: Shop) -> Iterator[None]:
    """Print a line per change, with the seconds since the beginning of the block."""
    over = threading.Event()
    telling = threading.Thread(target=_tell, args=(shop, over), name="sizes")
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()


def _tell(shop: Shop, over: threading.Event) -> None:
    began, before = time.monotonic(), None
    while True:
        now = _size(shop)
        if now != before or over.is_set():
            at = f"{time.monotonic() - began:5.0f} s: {now.desired} wanted, {now.executors} run, {now.members} members"
            print(f"{at}, {shop.waiting():,} wait, {now.moves} moves of {now.least}", flush=True)
            before = now
        if over.wait(0.5):
            return


def _size(shop: Shop) -> Size:
    group = shop.group()
    status = group.get("status") or {}
    moved = status.get("moves", 0), status.get("lowerBound", 0)
    return Size(group["spec"].get("replicas", 0), len(shop.executors()), status.get("members", 0), *moved)
