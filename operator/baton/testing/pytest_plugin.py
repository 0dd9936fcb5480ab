"""The pytest plugin of baton-consumer: the fixture `baton_queue` is a TestQueue with four partitions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from baton.testing import TestQueue


@pytest.fixture
def baton_queue() -> "Iterator[TestQueue]":
    """An in-memory queue with four partitions. For other numbers of partitions, create a `baton.testing.TestQueue`."""
    from baton.testing import TestQueue  # only for tests that use the fixture

    with TestQueue(partitions=4) as queue:
        yield queue
