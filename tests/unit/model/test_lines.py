"""Lines of a stream, wherever it is cut into pieces."""

import pytest

from baton.model.lines import Lines

STREAM = b"one\n\ntwo\nthr"


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_a_line_is_whole_wherever_the_stream_is_cut(size: int) -> None:
    lines = Lines()
    found = [line for at in range(0, len(STREAM), size) for line in lines.ended_by(STREAM[at : at + size])]
    assert found == [b"one", b"", b"two"]
    assert lines.rest == b"thr", "it has no end yet"
    assert lines.ended_by(b"ee\n") == [b"three"]
    assert not lines.rest
