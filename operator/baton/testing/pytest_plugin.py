"""pytest finds this where baton-consumer is installed: the fixture `baton_queue` is a running TestQueue of four partitions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from baton.testing import TestQueue


@pytest.fixture
def baton_queue() -> "Iterator[TestQueue]":
    """Four partitions of a queue in memory; see `baton.testing.TestQueue`, which takes another number."""
    from baton.testing import TestQueue  # not for tests that do not ask for it

    with TestQueue(partitions=4) as queue:
        yield queue
