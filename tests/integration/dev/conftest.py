"""A `baton dev` for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.dev.test_dev import Dev


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    with ExitStack() as stack:
        yield Dev(tmp_path, stack)
