"""What is refused of the query that a stream is part of."""

import json

import pytest

from baton.spark.offsets import SourceError
from baton.spark.stream import running_query


def told(**facts: object) -> str:
    return json.dumps({"id": "query", "asyncProgress": False, "once": False, "sources": 1, **facts})


@pytest.mark.parametrize(("batch", "of_files"), [(-1, -1), (4, -1), (4, 3), (4, 4)])
def test_files_have_no_batch_that_the_checkpoint_has_not_begun(batch: int, of_files: int) -> None:
    assert running_query(told(batch=batch, batchOfFiles=of_files)).alone


@pytest.mark.parametrize(("batch", "of_files"), [(-1, 0), (4, 5)])
def test_files_that_would_skip_batches_are_refused(batch: int, of_files: int) -> None:
    with pytest.raises(SourceError, match="rows would be lost"):
        running_query(told(batch=batch, batchOfFiles=of_files))
