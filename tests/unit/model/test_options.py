"""Checks of the functions that a program passes, and lines of a stream."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from baton.model.lines import Lines
from baton.model.options import function


def one(entry: object) -> None: ...
def none() -> None: ...
def named(entry: object, *, database: object) -> None: ...
def many(*entries: object, **more: object) -> None: ...
def optional(entry: object, more: int = 5) -> None: ...


class Program:
    def handle(self, entry: object) -> None: ...
    def __call__(self, entry: object) -> None: ...


WITHOUT_SIGNATURE = (int, str, dict.fromkeys, b"".join)


@pytest.mark.parametrize(
    "given",
    [one, many, optional, partial(named, database=1), print, Program().handle, Program(), bytes.decode, *WITHOUT_SIGNATURE],
)
def test_a_function_with_a_fitting_signature_is_accepted(given: Callable[..., object]) -> None:
    function("on_lost", given, "partitions")


@pytest.mark.parametrize("given", [none, named, Program.handle, Program, partial(one, 5), lambda first, second: None])
def test_a_function_with_another_signature_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"on_lost is .*, which takes \(.*\); it is called with \(partitions\): pass a function"):
        function("on_lost", given, "partitions")


def test_the_number_of_arguments_is_checked() -> None:
    function("token", none)
    with pytest.raises(TypeError, match=r"token is .*, which takes \(entry\); it is called with \(\)"):
        function("token", one)
    with pytest.raises(TypeError, match=r"on_revoked is .*; it is called with \(partitions, time_left\)"):
        function("on_revoked", one, "partitions", "time_left")


# -- Lines of a stream that is cut into pieces anywhere.


STREAM = b"one\n\ntwo\nthr"


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_a_line_is_whole_wherever_the_stream_is_cut(size: int) -> None:
    lines = Lines()
    found = [line for at in range(0, len(STREAM), size) for line in lines.ended_by(STREAM[at : at + size])]
    assert found == [b"one", b"", b"two"]
    assert lines.rest == b"thr", "it has no end yet"
    assert lines.ended_by(b"ee\n") == [b"three"]
    assert not lines.rest
